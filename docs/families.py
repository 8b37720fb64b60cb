#!/usr/bin/env python3
"""Writes docs/families.md: what is known of model families, from family data, templates and tokenizers.

    python docs/families.py TEMPLATES_FOLDER TOKENIZERS_FOLDER            # writes all tables
    python docs/families.py [TEMPLATES_FOLDER [TOKENIZERS_FOLDER]] --check  # says whether they are current

Without the folders only the table of family files can be written or checked.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grammars.formats.format_data import format_of_family  # noqa: E402
from grammars.formats.infer import Inference  # noqa: E402
from grammars.values.format import Format  # noqa: E402
from special_tokens import SpecialTokens, families  # noqa: E402

PAGE = ROOT / "docs" / "families.md"
BLOCK = re.compile(
    r"(<!-- (?P<name>[\w ]+): written by docs/families\.py -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL
)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """Text as it stands, in one line of a table."""
    shown = text.replace("\n", "\\n").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def codes(texts: Iterable[str]) -> str:
    return " ".join(code(text) for text in texts if text)


# -- families in data


def family_files() -> str:
    """The table of family files."""
    rows = []
    for family in sorted(families(), key=lambda found: found.id):
        format = format_of_family(family)
        parts = [part for part in ("reasoning", "content", "tool_calls", "inputs") if part in family.format]
        rows.append(
            [
                code(family.id),
                codes((*family.signature, *family.template_has)),
                ", ".join(parts),
                codes(format.ends.content),
                codes(format.ends.calls),
                codes(format.ends.not_ends),
            ]
        )
    return table(("family file", "known by its tokens", "states", "ends an answer", "ends calls", "ends nothing"), rows)


# -- templates


def inferences(templates: Path) -> Iterator[tuple[str, Inference]]:
    """Infer the format of every template, without a tokenizer."""
    from guided.hf.model.wire_format import inference_of_template

    for path in sorted(templates.glob("*.jinja")):
        yield path.stem, inference_of_template(path.read_text(encoding="utf-8"))[0]


def calls(found: Mapping[str, Inference]) -> str:
    """The table of tool-call formats."""
    rows = []
    for name, inference in found.items():
        form = inference.format.tool_calls
        assert form is not None
        checked = sum(bool(golden.calls) for golden in inference.golden_texts)
        rows.append(
            [
                code(name),
                dict(inference.format.evidence)["tool_calls"],
                code(form.syntax),
                code(form.section_start + form.call_start),
                code(form.call_end + form.section_end),
                "any" if form.max_calls is None else str(form.max_calls),
                str(checked),
            ]
        )
    return table(("template", "known from", "syntax", "opens calls", "closes them", "calls", "texts checked"), rows)


def reasoning(found: Mapping[str, Inference]) -> str:
    """The table of reasoning formats: markers, switches, prompt suffixes."""
    rows = []
    for name, inference in found.items():
        form = inference.format.reasoning
        if form is None:
            continue
        switch, effort = form.switch, form.effort_switch
        rows.append(
            [
                code(name),
                dict(inference.format.evidence)["reasoning"],
                code(form.start),
                code(form.end),
                "on" if form.default_on else "off",
                code(f"{switch.name} = {switch.on!r}, {switch.off!r}") if switch else "",
                code(f"{effort.name} = {', '.join(effort.values)}") if effort else "",
                code(form.prompt_on),
                code(form.prompt_off),
            ]
        )
    head = ("template", "known from", "start", "end", "default", "switch", "effort", "prompt, on", "prompt, off")
    return table(head, rows)


def ends(found: Mapping[str, Inference]) -> str:
    """The table of ends of turn; a template that refers to its tokenizer's eos by name has that name here."""
    rows = []
    for name, inference in found.items():
        of = inference.format.ends
        rows.append([code(name), codes(of.content), codes(of.calls) or "the same", codes(of.not_ends)])
    return table(("template", "ends an answer", "ends calls", "looks like an end"), rows)


_TEXT_NEXT_TO_CALLS = {
    "dropped": "the template drops text next to calls from the history",
    "after": "the template writes text of the same message after the calls and their results",
    "instead": "the template drops calls that have text next to them: such text is left out",
    "thought": "the template shows text next to calls as reasoning",
    "apart": "the template writes text next to calls as a message of its own",
}


def exclusions(found: Mapping[str, Inference]) -> str:
    """The table of what a format or its template cannot express."""
    rows = []
    for name, inference in found.items():
        format = inference.format
        form = format.tool_calls
        if form is not None and form.max_calls == 1:
            rows.append([code(name), "one call a turn: several in the history are written one after the other"])
        found_text = _TEXT_NEXT_TO_CALLS.get(format.inputs.text_beside_calls)
        if found_text and dict(format.evidence)["tool_calls"] == "rendering":
            rows.append([code(name), found_text])
        rows += [[code(name), note.replace("|", "\\|")] for note in inference.notes]
    return table(("template", "what it cannot carry, and what happens instead"), rows)


# -- tokenizers


def checked_with_tokenizers(templates: Path, tokenizers: Path) -> str:
    """Markers as ids, and the engine's check of everything that the template writes, under real tokenizers."""
    from transformers import AutoTokenizer

    from benchmarks.harmless import FITTING
    from guided.engine.engine import Engine
    from guided.hf.model.tokenizer import facts_of, tokenizer_json
    from guided.hf.model.wire_format import inference_of
    from guided.inspect.format_check import check_golden_texts

    rows = []
    for name, fitting in FITTING.items():
        tokenizer = AutoTokenizer.from_pretrained(tokenizers / name)
        engine = Engine(tokenizer_json(tokenizer), SpecialTokens(facts_of(tokenizer)))
        for template in fitting:
            tokenizer.chat_template = (templates / f"{template}.jinja").read_text(encoding="utf-8")
            engine.tokens = SpecialTokens(facts_of(tokenizer))
            inference = inference_of(tokenizer, engine.tokens)
            wrong = check_golden_texts(inference.format, inference.golden_texts, engine)
            verdict = f"{len(inference.golden_texts)} texts" if not wrong else f"{len(wrong)} refused"
            rows.append([code(template), code(name), verdict, _ids(inference.format, engine.tokens)])
    return table(("template", "tokenizer", "written and read", "markers that are tokens"), rows)


def _ids(format: Format, tokens: SpecialTokens) -> str:
    form, thought = format.tool_calls, format.reasoning
    texts = [form.section_start, form.call_start, form.call_end, form.section_end] if form else []
    texts += [thought.start, thought.end] if thought else []
    texts += [*format.ends.content, *format.ends.calls]
    ids = dict.fromkeys(piece for text in texts for piece in tokens.pieces(text) if isinstance(piece, int))
    return ", ".join(f"{code(tokens.text(piece))} {piece}" for piece in ids)


# -- the page


def tables(templates: Path | None, tokenizers: Path | None) -> dict[str, str]:
    """Name of a block to its table, of those that can be made."""
    made = {"family files": family_files()}
    if templates is not None:
        found = dict(inferences(templates))
        made |= {"calls": calls(found), "reasoning": reasoning(found), "ends": ends(found)}
        made |= {"exclusions": exclusions(found)}
        if tokenizers is not None:
            made["tokenizers"] = checked_with_tokenizers(templates, tokenizers)
    return made


def written(text: str, made: Mapping[str, str]) -> str:
    """The page with these tables in their places."""

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}{made[block['name']]}\n{block[4]}" if block["name"] in made else block[0]

    return BLOCK.sub(fill, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=Path, nargs="?")
    parser.add_argument("tokenizers", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    again = written(text, tables(options.templates, options.tokenizers))
    if options.check:
        if again != text:
            print("docs/families.md is not current: run docs/families.py", file=sys.stderr)
        return int(again != text)
    PAGE.write_text(again, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
