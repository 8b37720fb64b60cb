"""Infer a model's wire format from all available evidence, the strongest first.

Sample conversations rendered by the chat template, and the words and markers of its text; family data; well-known
reasoning markers of the vocabulary; the fallback, in which tools are described in the prompt and calls are JSON between
tags, as plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from grammars.formats.golden_texts import GoldenPrompt, GoldenText
from grammars.formats.probe.renderings import Renderings
from grammars.formats.read_template import TemplateReading
from grammars.plan.records import Misfit, from_record
from grammars.values.format import ContentFormat, Ends, Evidence, Format, ReasoningFormat, ToolCallFormat
from special_tokens import Family, Role, SpecialTokens
from special_tokens.errors import ModelError, TemplateError

UNSANDBOXED = "rendering outside the sandbox"

__all__ = [
    "DESCRIBED_CALLS",
    "UNSANDBOXED",
    "Inference",
    "completed",
    "format_from_data",
    "format_of_family",
    "infer",
    "without_calls",
    "without_content_markers",
    "without_switch",
]

#: The fallback: the call format that the prompt describes to a model whose own format is unknown.
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
    """An inferred format and its evidence.

    ``notes`` are sentences for the user; ``call_notes`` those of them that concern tool calls alone.  The template
    rendered ``golden_texts`` and ``prompts``, against which `guided.inspect.format_check` checks the format.
    ``next_inference`` makes the inference from the next best evidence for reasoning and answers, None if there is none.
    """

    format: Format
    notes: tuple[str, ...] = ()
    golden_texts: tuple[GoldenText, ...] = ()
    prompts: tuple[GoldenPrompt, ...] = ()
    call_notes: tuple[str, ...] = ()
    next_inference: Callable[[], Inference | None] | None = field(default=None, compare=False, repr=False)


def infer(
    render: Callable[..., str] | None,
    tokens: SpecialTokens,
    *,
    template: str = "",
    render_unsandboxed: Callable[..., str] | None = None,
) -> Inference:
    """Infer the format of a model.

    ``render(messages, **kw) -> str`` renders its chat template and raises `TemplateError` on failure; None if there is
    no template.  ``render_unsandboxed`` lets the template modify lists, which the sandbox of ``render`` refuses: it
    shows the calls of such templates.  Raises `TemplateError` if the template renders not even
    a plain message.
    """
    if render is None:
        return completed(Format("inferred"), tokens)
    template = template or tokens.facts.chat_template
    reading = TemplateReading(Renderings(render), tokens, template)
    unsandboxed = _read_unsandboxed(render_unsandboxed, reading) if render_unsandboxed is not None else None
    return _inferred(reading, unsandboxed)


def _inferred(reading: TemplateReading, unsandboxed: TemplateReading | None) -> Inference:
    """The inference from one reading of a template; ``unsandboxed`` is its reading without the sandbox."""
    form, notes = reading.format()
    if unsandboxed is not None:
        form, notes = _with_refused(form, unsandboxed, notes)
    finished = completed(form, reading.tokens, notes)
    shown = dict.fromkeys(reading.golden_texts(finished.format))
    shown |= dict.fromkeys(unsandboxed.golden_texts(finished.format) if unsandboxed is not None else ())

    def next_inference() -> Inference | None:
        other = reading.with_next_reasoning()
        return _inferred(other, unsandboxed) if other is not None else None

    return replace(
        finished, golden_texts=tuple(shown), prompts=reading.prompts(finished.format), next_inference=next_inference
    )


def _read_unsandboxed(render_unsandboxed: Callable[..., str], reading: TemplateReading) -> TemplateReading | None:
    """The template read without the sandbox, if only the sandbox kept it from writing calls."""
    if reading.calling is not None or not reading.is_refused:
        return None
    try:
        unsandboxed = TemplateReading(Renderings(render_unsandboxed), reading.tokens, reading.template)
    except TemplateError:
        return None
    return unsandboxed if unsandboxed.texts is not None and unsandboxed.format()[0].tool_calls is not None else None


def _with_refused(form: Format, unsandboxed: TemplateReading, notes: tuple[str, ...]) -> tuple[Format, tuple[str, ...]]:
    """The format with the calls that only an unsandboxed rendering shows; prompts are rendered in the same way."""
    other, _ = unsandboxed.format()
    evidence = tuple({**dict(form.evidence), "tool_calls": UNSANDBOXED}.items())
    ends = replace(form.ends, calls=other.ends.calls, not_ends=other.ends.not_ends)
    reasoning = form.reasoning or other.reasoning
    made = replace(
        form, tool_calls=other.tool_calls, ends=ends, reasoning=reasoning, inputs=other.inputs, evidence=evidence
    )
    return made, ("transformers' sandbox refuses this template's calls: they are rendered in one that lets a template "
                  "change its own lists",)  # fmt: skip


def completed(form: Format, tokens: SpecialTokens, notes: tuple[str, ...] = ()) -> Inference:
    """Complete a format from family data and vocabulary, and with the fallback if its calls are still unknown."""
    if tokens.family is not None:
        of_family = _with_family(form, format_of_family(tokens.family), tokens.family.id)
        notes = notes if form.tool_calls is of_family.tool_calls else ()  # its file says what the template does not
        form = of_family
    if form.reasoning is None:
        form = _with_vocabulary(form, tokens)
    if form.tool_calls is None:
        notes += ("tools are described in the prompt, and calls are JSON between <tool_call> tags",)
        form = replace(
            form,
            tool_calls=DESCRIBED_CALLS,
            inputs=replace(form.inputs, tools="described", tool_calls="described", tool_results="described"),
            evidence=_and_from(_and_from(form.evidence, "inputs", "fallback"), "tool_calls", "fallback"),
        )
    return Inference(form, notes, call_notes=notes)


def without_calls(inference: Inference, tokens: SpecialTokens, why: tuple[str, ...]) -> Inference:
    """The inference with the next evidence for calls, after these failed the check; ``why`` are the reasons."""
    evidence = _without(inference.format.evidence, "tool_calls")
    content = replace(inference.format.content, lead_start="", lead_end="")  # inferred from these calls
    form = replace(inference.format, tool_calls=None, content=content, evidence=evidence)
    return completed(form, tokens, (*inference.notes, *(f"cross-check failed: {wrong}" for wrong in why)))


def without_content_markers(inference: Inference) -> Inference:
    """The inference without markers around answers, after these failed the check."""
    format = inference.format
    content = ContentFormat(opening=format.content.opening)
    return replace(inference, format=replace(format, content=content, evidence=_without(format.evidence, "content")))


def without_switch(form: ReasoningFormat, prompt: str) -> ReasoningFormat:
    """The reasoning format without its switch, after that failed the check; ``prompt`` was rendered without it."""
    suffixes = (form.prompt_on, form.prompt_off, form.start, form.start.rstrip())
    suffix = max((suffix for suffix in suffixes if prompt.endswith(suffix)), key=len, default="")
    return replace(form, switch=None, prompt_on=suffix, prompt_off="", closed_lead="")


def _with_family(form: Format, of_family: Format, family: str) -> Format:
    """Fill fields that renderings left open from family data."""
    changes: dict[str, Any] = {}
    evidence = form.evidence
    for name in ("reasoning", "tool_calls"):
        if getattr(form, name) is None and getattr(of_family, name) is not None:
            changes[name] = getattr(of_family, name)
    if form.reasoning is not None and of_family.reasoning is not None:
        changes["reasoning"] = replace(form.reasoning, ends_by_call=of_family.reasoning.ends_by_call)
    changes["content"] = _filled(form.content, of_family.content)
    changes["ends"] = _united(form.ends, of_family.ends)
    if "inputs" not in dict(evidence):
        changes["inputs"] = of_family.inputs
    elif of_family.inputs.reasoning == "described":
        changes["inputs"] = replace(form.inputs, reasoning="described")
    for part, value in changes.items():
        if value != getattr(form, part):
            evidence = _and_from(evidence, part, f"family {family}")
    return replace(form, name=family, **changes, evidence=evidence)


def _and_from(evidence: Evidence, part: str, how: str) -> Evidence:
    """The evidence, with ``how`` for a part; after the evidence that the part has already."""
    known = dict(evidence)
    return tuple({**known, part: f"{known[part]}, {how}" if part in known else how}.items())


def _without(evidence: Evidence, part: str) -> Evidence:
    return tuple((name, how) for name, how in evidence if name != part)


def _filled(content: ContentFormat, of_family: ContentFormat) -> ContentFormat:
    """Fill empty markers from family data; ``start`` and ``end`` of an answer are filled together or not at all."""
    if not content.start and not content.end:
        content = replace(content, start=of_family.start, end=of_family.end)
    if not content.lead_start:
        content = replace(content, lead_start=of_family.lead_start, lead_end=of_family.lead_end)
    return content


def _united(ends: Ends, of_family: Ends) -> Ends:
    names = (each.name for each in fields(Ends))
    return Ends(**{name: tuple(dict.fromkeys((*getattr(ends, name), *getattr(of_family, name)))) for name in names})


def _with_vocabulary(form: Format, tokens: SpecialTokens) -> Format:
    """Add the reasoning markers of the vocabulary; such a model does not reason by default."""
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    if pair is None or not (pair[0].is_token and pair[1].is_token):
        return form
    reasoning = ReasoningFormat(start=pair[0].text, end=pair[1].text, default_on=False)
    return replace(form, reasoning=reasoning, evidence=(*form.evidence, ("reasoning", "vocabulary")))


def format_of_family(family: Family) -> Format:
    """The format stated in a family file."""
    data = format_from_data({"name": family.id, **family.format}, place=f"{family.id}.toml [format]")
    ends = data.ends if data.ends.content else Ends(family.ends, data.ends.calls, family.not_ends)
    return replace(data, ends=ends, evidence=tuple((key, f"family {family.id}") for key in family.format))


def format_from_data(data: Mapping[str, Any], *, place: str = "format") -> Format:
    """Make a format from plain values: the ``[format]`` section of a family file, or JSON.

    Raises `ModelError` naming an unknown key, so that a typo is not silently ignored, or a wrong value, and its place.
    """
    body = dict(data)
    for part, pairs in (("tool_calls", "options"), ("inputs", "kwargs")):
        given = body.get(part)
        if isinstance(given, Mapping) and isinstance(given.get(pairs), Mapping):
            body[part] = {**given, pairs: [list(pair) for pair in sorted(given[pairs].items())]}
    try:
        format: Format = from_record(Format, body, place)
    except Misfit as misfit:
        raise ModelError(str(misfit), place=misfit.place) from None
    return format
