"""A model's wire format, inferred from what is at hand, in the order of how much it is worth.

1. an explicit override;
2. the tokenizer's ``response_template``;
3. renderings: sample conversations, rendered and taken apart;
4. the vocabulary: markers that every model of the field knows;
5. family data;
6. the documented fallback: tools described in the prompt, calls as JSON between tags, as plain text.

Pure: it takes a callable that renders, and the registry of special tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from grammars.formats.check import differences
from grammars.formats.format_data import format_of_family
from grammars.values.format import ContentFormat, Ends, Format, ReasoningFormat, ToolCallFormat
from grammars.formats.provenance import changed, without
from grammars.formats.read_template import Reading
from grammars.formats.probe.renderings import Renderings
from grammars.formats.response_template import read_response_template, unread
from grammars.formats.golden_texts import Prompt, Witness
from special_tokens import Role, SpecialTokens
from special_tokens.errors import TemplateError

LOOSE = "rendering outside the sandbox"

__all__ = [
    "DESCRIBED_CALLS",
    "LOOSE",
    "Inference",
    "completed",
    "infer",
    "without_calls",
    "without_frame",
    "without_switch",
]

_FALLBACK = dict.fromkeys(("tool_calls", "inputs.tools", "inputs.tool_calls", "inputs.tool_results"), "fallback")
#: The fallback: what a model is told in the prompt when nothing is known of its own way.
DESCRIBED_CALLS = ToolCallFormat(
    "json_in_tags",
    call_start="<tool_call>\n",
    call_end="\n</tool_call>",
    between="\n",
    gap="\n",
    options=(("args_key", "arguments"), ("name_key", "name")),
)


@dataclass(frozen=True, slots=True)
class Inference:
    """A format and how it came about.

    ``notes`` are sentences for the user; ``witnesses`` what the template itself wrote and ``prompts`` how its prompts
    end, for the engine's part of the check; ``following`` makes the inference from the next evidence for reasoning
    and answers, None where there is none.
    """

    format: Format
    notes: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    following: Callable[[], Inference | None] | None = field(default=None, compare=False, repr=False)


def infer(
    render: Callable[..., str] | None,
    tokens: SpecialTokens,
    *,
    template: str = "",
    mutable: Callable[..., str] | None = None,
    override: Format | None = None,
    response_template: Mapping[str, Any] | None = None,
) -> Inference:
    """The format of a model.

    ``render(messages, **kw) -> str`` renders its chat template and raises `TemplateError` where that fails; None
    without a template.  ``mutable`` renders where the template may change its own lists, which the first one
    refuses: what calls look like can then still be read.  ``response_template`` is the tokenizer's own.  Raises
    `TemplateError` where the template renders not even a plain message.
    """
    if override is not None:
        return Inference(_with_evidence(override, "override"))
    described = read_response_template(response_template) if response_template else ()
    if render is None:
        return completed(described[0] if described else Format("inferred"), tokens)
    template = template or tokens.facts.chat_template
    reading = Reading(Renderings(render), tokens, template)
    loose = _loose(mutable, reading) if mutable is not None else None
    remark = unread(response_template) if response_template else ""
    return _inferred(reading, loose, described, (remark,) if remark else ())


def _inferred(
    reading: Reading, loose: Reading | None, described: tuple[Format, ...], remarks: tuple[str, ...]
) -> Inference:
    """What one reading of a template comes to; ``loose`` is the template outside the sandbox."""
    found, notes = reading.format()
    notes += remarks
    if loose is not None:
        found, notes = _with_refused(found, loose, notes)
    if described:
        found, notes = _with_described(found, described, reading, notes)
    finished = completed(found, reading.tokens, notes)
    shown = dict.fromkeys(reading.witnesses(finished.format))
    shown |= dict.fromkeys(loose.witnesses(finished.format) if loose is not None else ())

    def following() -> Inference | None:
        other = reading.without_this_reasoning()
        return _inferred(other, loose, described, remarks) if other is not None else None

    return replace(finished, witnesses=tuple(shown), prompts=reading.prompts(finished.format), following=following)


def _with_evidence(format: Format, how: str) -> Format:
    parts = ("reasoning", "content", "tool_calls", "ends", "inputs")
    return replace(format, evidence=tuple((part, how) for part in parts if getattr(format, part)))


def _loose(mutable: Callable[..., str], reading: Reading) -> Reading | None:
    """The template read outside the sandbox, where that alone kept it from writing calls."""
    if reading.calling is not None or not reading.is_refused:
        return None
    try:
        loose = Reading(Renderings(mutable), reading.tokens, reading.template)
    except TemplateError:
        return None
    return loose if loose.texts is not None and loose.format()[0].tool_calls is not None else None


def _with_refused(found: Format, loose: Reading, notes: tuple[str, ...]) -> tuple[Format, tuple[str, ...]]:
    """Calls as the template would write them if the sandbox let it; messages with calls cannot be rendered."""
    other, _ = loose.format()
    evidence = (*without(found.evidence, "tool_calls"), ("tool_calls", LOOSE))
    ends = replace(found.ends, calls=other.ends.calls, not_ends=other.ends.not_ends)
    reasoning = found.reasoning or other.reasoning
    made = replace(found, tool_calls=other.tool_calls, ends=ends, reasoning=reasoning, evidence=evidence)
    return made, ("transformers' sandbox refuses this template's calls: calls in the history are written as text",)


def _with_described(
    found: Format, described: tuple[Format, ...], reading: Reading, notes: tuple[str, ...]
) -> tuple[Format, tuple[str, ...]]:
    """The tokenizer's own description first, wherever it stands up to the template's renderings.

    What calls are framed by and what stands beside them only renderings tell.
    """
    how = (*without(found.evidence, "tool_calls"), ("tool_calls", "response_template"))
    if found.reasoning is None and described[0].reasoning is not None:
        found = replace(found, reasoning=described[0].reasoning, evidence=(*found.evidence, ("reasoning", how[-1][1])))
    forms = [format.tool_calls for format in described if format.tool_calls is not None]
    if reading.texts is None:
        return (replace(found, tool_calls=forms[0], evidence=how), notes) if forms else (found, notes)
    for form in forms:
        if not differences(form, reading.one_turn or reading.texts, reading.tokens):
            made = _beside(form, found.tool_calls or form)
            shown = changed(form, made, "tool_calls", "rendering of text beside a call")
            return replace(found, tool_calls=made, evidence=(*how, *shown.items())), notes
    if forms:
        notes += ("tokenizer.response_template does not read what the chat template writes",)
    return found, notes


def _beside(form: ToolCallFormat, shown: ToolCallFormat) -> ToolCallFormat:
    """A described form with what only renderings show: the text beside calls, the spelling of words."""
    options = {**dict(shown.options), **dict(form.options)} if shown.syntax == form.syntax else dict(form.options)
    return replace(
        form,
        gap=shown.gap,
        gap_without_text=shown.gap_without_text,
        text_before=shown.text_before,
        text_after=shown.text_after,
        options=tuple(sorted(options.items())),
    )


def completed(found: Format, tokens: SpecialTokens, notes: tuple[str, ...] = ()) -> Inference:
    """The format with what only family data knows, and with the fallback for what nothing tells."""
    if tokens.family is not None:
        found = _with_family(found, format_of_family(tokens.family), tokens.family.id)
    if found.reasoning is None:
        found = _with_vocabulary(found, tokens)
    if found.tool_calls is None:
        notes += ("tools are described in the prompt, and calls are JSON between <tool_call> tags",)
        found = replace(
            found,
            tool_calls=DESCRIBED_CALLS,
            inputs=replace(found.inputs, tools="described", tool_calls="described", tool_results="described"),
            evidence=tuple((dict(found.evidence) | _FALLBACK).items()),
        )
    return Inference(found, notes)


def without_calls(inference: Inference, tokens: SpecialTokens, why: tuple[str, ...]) -> Inference:
    """The same format with the next evidence for its calls, because this one did not stand the check."""
    evidence = without(inference.format.evidence, "tool_calls")
    content = replace(inference.format.content, lead_start="", lead_end="")  # it was read off these calls
    found = replace(inference.format, tool_calls=None, content=content, evidence=evidence)
    return completed(found, tokens, (*inference.notes, *(f"cross-check failed: {wrong}" for wrong in why)))


def without_frame(inference: Inference) -> Inference:
    """The same format with answers as they stand: their frame did not stand the check."""
    format = inference.format
    content = ContentFormat(opening=format.content.opening)
    return replace(inference, format=replace(format, content=content, evidence=without(format.evidence, "content")))


def without_switch(form: ReasoningFormat, prompt: str) -> ReasoningFormat:
    """The same reasoning without its switch, which did not stand the check; ``prompt`` is the one without it."""
    tails = (form.prompt_on, form.prompt_off, form.start, form.start.rstrip())
    tail = max((tail for tail in tails if prompt.endswith(tail)), key=len, default="")
    return replace(form, switch=None, prompt_on=tail, prompt_off="", closed_lead="")


def _with_family(found: Format, known: Format, family: str) -> Format:
    """Renderings win; family data fills in what they left open."""
    changes: dict[str, Any] = {}
    evidence = dict(found.evidence)
    for name in ("reasoning", "tool_calls"):
        if getattr(found, name) is None and getattr(known, name) is not None:
            changes[name] = getattr(known, name)
    if found.reasoning is not None and known.reasoning is not None:
        changes["reasoning"] = replace(found.reasoning, ends_by_call=known.reasoning.ends_by_call)
    changes["content"] = _filled(found.content, known.content)
    changes["ends"] = _united(found.ends, known.ends)
    if "inputs" not in evidence:
        changes["inputs"] = known.inputs
    elif known.inputs.reasoning == "described":
        changes["inputs"] = replace(found.inputs, reasoning="described")
    for part, value in changes.items():
        filled = changed(getattr(found, part), value, part, f"family {family}")
        evidence |= {name: f"{evidence[name]}, {how}" if part == "ends" and name in evidence else how
                     for name, how in filled.items()}  # fmt: skip
    return replace(found, name=family, **changes, evidence=tuple(evidence.items()))


def _filled(found: ContentFormat, known: ContentFormat) -> ContentFormat:
    """The frame with what is empty in it filled in; an answer's own frame is taken whole or not at all."""
    if not found.start and not found.end:
        found = replace(found, start=known.start, end=known.end)
    if not found.lead_start:
        found = replace(found, lead_start=known.lead_start, lead_end=known.lead_end)
    return found


def _united(found: Ends, known: Ends) -> Ends:
    names = (each.name for each in fields(Ends))
    return Ends(**{name: tuple(dict.fromkeys((*getattr(found, name), *getattr(known, name)))) for name in names})


def _with_vocabulary(found: Format, tokens: SpecialTokens) -> Format:
    """Reasoning markers that the vocabulary has, for a model that does not reason unasked."""
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    if pair is None or not (pair[0].is_token and pair[1].is_token):
        return found
    reasoning = ReasoningFormat(start=pair[0].text, end=pair[1].text, default_on=False)
    return replace(found, reasoning=reasoning, evidence=(*found.evidence, ("reasoning", "vocabulary")))
