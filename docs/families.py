#!/usr/bin/env python3
"""Writes the tables of docs/families.md: what is known of model families, from family data and templates.

    python docs/families.py TEMPLATES_FOLDER            # writes all tables
    python docs/families.py [TEMPLATES_FOLDER] --check  # says whether they are current

Without the folder only the table of family files can be written or checked.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grammars.formats.infer import Inference, format_of_family  # noqa: E402
from special_tokens import families  # noqa: E402

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


def templates_table(found: Mapping[str, Inference]) -> str:
    """The table of templates: how each writes calls and reasoning, and switches reasoning."""
    rows = []
    for name, inference in found.items():
        form, thought = inference.format.tool_calls, inference.format.reasoning
        assert form is not None
        switches = []
        if thought is not None and thought.switch:
            switches.append(f"{thought.switch.name} = {thought.switch.on!r}, {thought.switch.off!r}")
        if thought is not None and thought.effort_switch:
            switches.append(f"{thought.effort_switch.name} = {', '.join(thought.effort_switch.values)}")
        rows.append(
            [
                code(name),
                dict(inference.format.evidence)["tool_calls"],
                code(form.syntax),
                code(form.section_start + form.call_start),
                "any" if form.max_calls is None else str(form.max_calls),
                f"{code(thought.start)} ({'on' if thought.default_on else 'off'})" if thought else "",
                codes(switches),
            ]
        )
    return table(("template", "calls known from", "syntax", "opens calls", "calls", "opens reasoning", "switch"), rows)


_TEXT_NEXT_TO_CALLS = {
    "dropped": "the template drops text next to calls from the history",
    "after": "the template writes text of the same message after the calls and their results",
    "instead": "the template drops calls that have text next to them: such text is left out",
    "thought": "the template shows text next to calls as reasoning",
    "apart": "the template writes text next to calls as a message of its own",
}


def exclusions(found: Mapping[str, Inference]) -> str:
    """The table of what formats or their templates cannot express, and of which templates that is so."""
    names: dict[str, list[str]] = {}
    for name, inference in found.items():
        format = inference.format
        notes = [note.replace("|", "\\|") for note in inference.notes]
        text = _TEXT_NEXT_TO_CALLS.get(format.inputs.text_beside_calls)
        if text and dict(format.evidence)["tool_calls"] == "rendering":
            notes.append(text)
        if format.tool_calls is not None and format.tool_calls.max_calls == 1:
            notes.append("one call a turn: several in the history are written one after the other")
        for note in notes:
            names.setdefault(note, []).append(name)
    rows = ([codes(sorted(of)), note] for note, of in sorted(names.items()))
    return table(("templates", "what they cannot carry, and what happens instead"), rows)


# -- the page


def tables(templates: Path | None) -> dict[str, str]:
    """Name of a block to its table, of those that can be made."""
    made = {"family files": family_files()}
    if templates is not None:
        found = dict(inferences(templates))
        made |= {"templates": templates_table(found), "exclusions": exclusions(found)}
    return made


def written(text: str, made: Mapping[str, str]) -> str:
    """The page with these tables in their places."""

    def fill(block: re.Match[str]) -> str:
        return f"{block[1]}{made[block['name']]}\n{block[4]}" if block["name"] in made else block[0]

    return BLOCK.sub(fill, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    again = written(text, tables(options.templates))
    if options.check:
        if again != text:
            print("docs/families.md is not current: run docs/families.py", file=sys.stderr)
        return int(again != text)
    PAGE.write_text(again, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
