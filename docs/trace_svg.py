#!/usr/bin/env python3
"""Draws docs/trace.svg: an answer of the embedded model token by token, as `message.trace` has it.

python docs/trace_svg.py
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

import guided  # noqa: E402
from guided.output.trace_records import Trace  # noqa: E402

#: Region -> background and ink, in the light and in the dark.
COLOURS = {
    "reasoning": ("#ece3fb", "#5d3fa3", "#342a4d", "#c7b3ff"),
    "marker": ("#f4e2ea", "#97305f", "#40242f", "#f2a7c3"),
    "response": ("#dfecfa", "#1f5a99", "#1d3145", "#9cc8f5"),
    "end": ("#e7e7ea", "#55585f", "#303238", "#b6b9c0"),
}
CHAR, LINE, WIDTH, MARGIN = 8.4, 34, 860, 16


def drawing(trace: Trace) -> str:
    """Return the SVG: boxes in the colours of their regions, bars of probability, marks of forced and overridden."""
    x, y, parts = MARGIN, 40, []
    for token in trace.tokens:
        text = token.text.replace("\n", "⏎").replace(" ", "·" if not token.text.strip() else "\u00a0")
        width = CHAR * len(text) + 4
        if x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + LINE
        style = "font-style='italic' opacity='.7'" if token.forced else ""
        parts.append(
            f"<g class='{token.region}'><rect x='{x:.1f}' y='{y}' width='{width - 1:.1f}' height='24' rx='3'/>"
            f"<rect class='ink' x='{x:.1f}' y='{y + 22}' width='{(width - 1) * token.probability:.1f}' height='2'/>"
            + (
                f"<rect class='over' x='{x:.1f}' y='{y}' width='{width - 1:.1f}' height='2.5'/>"
                if token.overridden
                else ""
            )
            + f"<text class='ink' x='{x + 2:.1f}' y='{y + 16}' {style} xml:space='preserve'>{escape(text)}</text></g>"
        )
        x += width
    height = y + LINE + 34
    light = "".join(f".{name} rect{{fill:{bg}}}.{name} .ink{{fill:{ink}}}" for name, (bg, ink, *_) in COLOURS.items())
    dark = "".join(f".{name} rect{{fill:{bg}}}.{name} .ink{{fill:{ink}}}" for name, (*_, bg, ink) in COLOURS.items())
    forced = sum(token.forced for token in trace.tokens)
    overridden = sum(token.overridden for token in trace.tokens)
    title = (
        f"{trace.model}: {len(trace.tokens)} tokens, {forced} forced (italic), {overridden} overridden (red line above)"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img'>"
        f"<title>{escape(title)}</title><style>text{{font:14px ui-monospace,Menlo,Consolas,monospace}}"
        f".note{{font:13px system-ui,sans-serif;fill:#6b6f76}}{light}.over.over{{fill:#b3261e}}"
        f"@media(prefers-color-scheme:dark){{{dark}.over.over{{fill:#ff8a80}}.note{{fill:#9a9ea6}}}}</style>"
        f"<text class='note' x='{MARGIN}' y='24'>{escape(title)}</text>{''.join(parts)}"
        f"<text class='note' x='{MARGIN}' y='{height - 14}'>purple: reasoning, pink: markers, blue: the format; "
        "the bar below a token: its probability before the mask</text></svg>\n"
    )


def main() -> None:
    torch.set_num_threads(1)
    guide = guided.demo()
    plan = guide.plan(
        response_format=guided.JsonSchema(
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            }
        ),
        reasoning_effort="minimal",
    )
    message = guide.chat("Alice is 31.", plan, temperature=0, max_tokens=150, trace=True)
    (ROOT / "docs" / "trace.svg").write_text(drawing(message.trace), encoding="utf-8")


if __name__ == "__main__":
    main()
