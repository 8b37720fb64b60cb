#!/usr/bin/env python3
"""Draw docs/loop.svg, the forwards of one tool call of the embedded model, docs/conversations.svg, three turns,
docs/hidden_states.svg, the positions of hidden states, and docs/landing.svg, one answer at four budgets.

python docs/timeline.py
"""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from guided.output.trace_records import TokenTrace  # noqa: E402

LETTER, ROW, LEFT = 7.3, 30, 96
SAMPLED, FORCED, PROMPT = "#2b6cb0", "#d69e2e", "#a0aec0"


def weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """Say what the weather is like in a city."""
    raise NotImplementedError


def box(x: float, y: float, text: str, colour: str) -> tuple[str, float]:
    """Return one token as SVG, and where the next one begins."""
    shown = html.escape(text.replace("\n", "⏎").replace(" ", "·"))
    width = len(text) * LETTER + 8
    rect = f'<rect x="{x:.1f}" y="{y - 15}" width="{width:.1f}" height="21" rx="3" fill="{colour}" fill-opacity=".2"'
    rect += f' stroke="{colour}"/>'
    return f'{rect}<text x="{x + 4:.1f}" y="{y}" xml:space="preserve">{shown}</text>', x + width + 3


def forwards(tokens: tuple[TokenTrace, ...]) -> list[tuple[list[TokenTrace], TokenTrace | None]]:
    """Return per forward the written tokens that it was fed, and the token that was sampled from it."""
    found: list[tuple[list[TokenTrace], TokenTrace | None]] = []
    fed: list[TokenTrace] = []
    for token in tokens:
        if not token.in_run:
            found.append((fed, token))
            fed = []
        fed.append(token)
    return found


def drawn(prompt_tokens: int, tokens: tuple[TokenTrace, ...]) -> str:
    """Return the timeline as SVG."""
    lines, widest, y = [], 0.0, 58
    steps = forwards(tokens)
    for number, (fed, sampled) in enumerate(steps, start=1):
        lines.append(f'<text x="10" y="{y}" fill="#555">forward {number}</text>')
        x = float(LEFT)
        parts = [(f"{prompt_tokens} of the prompt", PROMPT)] if number == 1 else []
        parts += [(token.text, FORCED if token.in_run else SAMPLED) for token in fed]
        for text, colour in parts:
            if x > 780:  # the next line of the same forward
                widest, x, y = max(widest, x), LEFT + 14.0, y + ROW - 4
            drawn_box, x = box(x, y, text, colour)
            lines.append(drawn_box)
        if sampled is not None:
            lines.append(f'<text x="{x + 3:.1f}" y="{y}" fill="#555">→</text>')
            drawn_box, x = box(x + 20, y, sampled.text, SAMPLED)
            lines.append(drawn_box)
        widest, y = max(widest, x), y + ROW
    legend, x = [], 10.0
    for text, colour in (("fed: the prompt", PROMPT), ("sampled", SAMPLED), ("forced: fed, not sampled", FORCED)):
        drawn_box, x = box(x, 24, text, colour)
        legend.append(drawn_box.replace("·", " "))
    size = f'width="{widest + 20:.0f}" height="{y}" viewBox="0 0 {widest + 20:.0f} {y}"'
    style = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'
    page = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', page, *legend, *lines, "</svg>\n"])


def turns(guide: guided.Guide) -> str:
    """Return three turns of a conversation as bars: tokens kept, fed and written."""
    chat = [{"role": "user", "content": "My cat is called Minka. What is a good name for a second one?"}]
    rows = []
    for question in ("Why that one?", "And for a dog?", "Thanks."):
        message = guide.chat(chat, temperature=0, max_tokens=20)
        usage = message.usage
        rows.append((usage.cached_tokens, usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens))
        chat += [message.to_chat(), {"role": "user", "content": question}]
    lines, scale = [], 640 / max(map(sum, rows))
    for number, parts in enumerate(rows, start=1):
        x, y = float(LEFT), 34 + number * 34
        lines.append(f'<text x="10" y="{y}" fill="#555">turn {number}</text>')
        for count, colour in zip(parts, (PROMPT, FORCED, SAMPLED), strict=True):
            width = count * scale
            lines.append(
                f'<rect x="{x:.1f}" y="{y - 16}" width="{width:.1f}" height="24" fill="{colour}" fill-opacity=".3" '
                f'stroke="{colour}"/><text x="{x + 4:.1f}" y="{y + 1}">{count or ""}</text>'
            )
            x += width
    x = 10.0
    for text, colour in (("kept, not computed", PROMPT), ("prompt fed", FORCED), ("written", SAMPLED)):
        drawn_box, x = box(x, 24, text, colour)
        lines.append(drawn_box.replace("·", " "))
    style = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="160" viewBox="0 0 760 160" {style}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *lines, "</svg>\n"])


def positions(guide: guided.Guide) -> str:
    """Return the last tokens of a prompt and an answer with the states at them, as SVG."""
    plan = guide.plan(response_format=guided.Choice(["a matter of taste"]))
    message = guide.chat("Is blue nicer than red?", plan, temperature=0, return_last_hidden_state=True)
    assert message.last_hidden_state is not None
    prompt, tokens = message.prompt_ids, message.token_ids
    first = len(prompt) - 2  # the position of the first token that is drawn
    lines, x, at = [], float(LEFT), []
    for name, y in (("token", 60), ("position", 88), ("token_ids", 112), ("state", 150)):
        lines.append(f'<text x="10" y="{y}" fill="#555">{name}</text>')
    for position, token in enumerate((*prompt, *tokens)[first:], start=first):
        text = guide.engine.token_bytes(token).decode(errors="replace") or guide.tokenizer.decode([token])
        drawn_box, end = box(x, 60, text, PROMPT if position < len(prompt) else SAMPLED)
        end = max(end, x + 62)
        at.append((x + end - 3) / 2)
        index = position - len(prompt)
        labels = ((88, str(position)), (112, "" if index < 0 else f"{index} or {index - len(tokens)}"))
        lines += [drawn_box, *(f'<text x="{at[-1]:.1f}" y="{y}" text-anchor="middle">{t}</text>' for y, t in labels)]
        x = end + 6
    for place, middle in enumerate(at):
        named = place >= len(at) - 2
        look = f'fill="{FORCED if named else PROMPT}" stroke="#555"'
        lines.append(f'<circle cx="{middle:.1f}" cy="146" r="8" {look}/>')
        if place < len(at) - 1:  # the state from which the next token is chosen
            curve = f"M {middle + 6:.1f} 140 Q {(middle + at[place + 1]) / 2:.1f} 100 {at[place + 1] - 4:.1f} 68"
            lines.append(f'<path d="{curve}" fill="none" stroke="#555" stroke-dasharray="3 3"/>')
    assert message.last_hidden_state.position == first + len(at) - 1
    for middle, text in zip(at[-2:], ("producing", "at_token"), strict=True):
        lines.append(f'<text x="{middle:.1f}" y="176" text-anchor="middle" font-weight="bold">{text}</text>')
    lines.append('<text x="10" y="24" fill="#555">dashed: the state from which a token is chosen</text>')
    size = f'width="{x + 20:.0f}" height="192" viewBox="0 0 {x + 20:.0f} 192"'
    style = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'
    page = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', page, *lines, "</svg>\n"])


def landings(guide: guided.Guide) -> str:
    """Return one answer at several budgets: tokens of the model, and those where the budget decided as well."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "job": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "job", "age"],
    }
    plan = guide.plan(response_format=schema)
    lines, widest = [], 0.0
    for number, most in enumerate((24, 30, 40, 100), start=1):
        message = guide.chat("Ada Lovelace, 36, wrote the first program.", plan, temperature=0, max_tokens=most)
        y, x = 34 + number * 34, float(LEFT)
        lines.append(f'<text x="10" y="{y}" fill="#555">{most} tokens</text>')
        size = len(message.token_ids) if message.landed is None else message.landed
        for ids, colour in ((message.token_ids[:size], SAMPLED), (message.token_ids[size:], FORCED)):
            text = b"".join(guide.engine.token_bytes(i) for i in ids if i not in plan.end_ids()).decode(
                errors="replace"
            )
            if text:
                drawn_box, x = box(x, y, text, colour)
                lines.append(drawn_box)
        widest = max(widest, x)
    x = 10.0
    for text, colour in (("the model", SAMPLED), ("the budget decides as well", FORCED)):
        drawn_box, x = box(x, 24, text, colour)
        lines.append(drawn_box.replace("·", " "))
    style = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest + 20:.0f}" height="190" {style}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *lines, "</svg>\n"])


def main() -> None:
    guide = guided.demo()
    (ROOT / "docs" / "conversations.svg").write_text(turns(guide), encoding="utf-8")
    (ROOT / "docs" / "landing.svg").write_text(landings(guide), encoding="utf-8")
    (ROOT / "docs" / "hidden_states.svg").write_text(positions(guide), encoding="utf-8")
    plan = guide.plan(tools=[weather], tool_choice="required", parallel_tool_calls=False)
    message = guide.chat("What is the weather in Paris, in celsius?", plan, temperature=0, max_tokens=60, trace=True)
    assert message.trace is not None
    out = ROOT / "docs" / "loop.svg"
    out.write_text(drawn(message.usage.prompt_tokens, message.trace.tokens), encoding="utf-8")
    print(f"{out.relative_to(ROOT)}: {len(message.token_ids)} tokens in {message.usage.forwards} forwards")


if __name__ == "__main__":
    main()
