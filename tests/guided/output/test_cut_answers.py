"""Answers that are cut: no prefix of what a template renders shows markup as content, however it is split."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from grammars.formats.infer import Inference
from grammars.plan.plan import Plan
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for
from guided.output.message import Message, MessageBuilder, Usage
from guided.output.parser import OutputParser
from tests.made_up.call_templates import DELIMITED, JSON_VALUES, NUMBERED, SPELLED, TYPED

MADE_UP = {
    f"{group}: {name}": template
    for group, templates in (
        ("numbered", NUMBERED),
        ("spelled", SPELLED),
        ("values", JSON_VALUES),
        ("delimited", DELIMITED),
        ("typed", TYPED),
    )
    for name, template in dict(templates).items()
}


def read(plan: Plan, engine: Engine, ids: Sequence[int], entry: str, splits: Sequence[int] = ()) -> Message:
    parser = OutputParser(plan, engine, entry=entry, make_call_id=lambda name, index: f"call_{index}")
    builder, at = MessageBuilder(plan), 0
    for split in [*splits, len(ids)]:
        builder.add(parser.feed(ids[at:split]))
        at = split
    builder.add(parser.finish())
    return builder.message(ended=False, usage=Usage(), guidance=Guidance())


def leaks(inference: Inference) -> Iterator[str]:
    """What goes wrong in prefixes of the texts that the template rendered: content that is not the answer's own."""
    engine = engine_for(inference.format)
    plans = {
        thinking: compose(
            Parts(tools=list(TYPED_TOOLS.values()), thinking=thinking), tokens=engine.tokens, format=inference.format
        )
        for thinking in (True, None)
    }
    rng = random.Random(0)
    for golden in inference.golden_texts:
        plan = plans[True if golden.reasoning else None]
        markers = [_text(engine, way.trigger) for region in plan.regions for way in region.exits]
        ids = engine.tokenize(golden.text)
        for end in range(len(ids) + 1):
            message = read(plan, engine, ids[:end], plan.entry(golden.entry).name)
            said, content = (message.content or "").strip(), golden.content.strip()
            written = engine_text(engine, ids[:end])
            if written.endswith("\ufffd"):  # inside a character
                continue
            if not content.startswith(said) and not _begins_a_marker(said.removeprefix(content).strip(), markers):
                yield f"{written!r} reads as {message.content!r}"
            splits = sorted(rng.sample(range(end), min(3, end)))
            if read(plan, engine, ids[:end], plan.entry(golden.entry).name, splits) != message:
                yield f"{written!r} reads differently when it is split at {splits}"


def _text(engine: Engine, trigger: Sequence[int | str]) -> str:
    return "".join(p if isinstance(p, str) else engine.tokens.text(p) for p in trigger)


def engine_text(engine: Engine, ids: Sequence[int]) -> str:
    return b"".join(map(engine.token_bytes, ids)).decode("utf-8", "replace")


def _begins_a_marker(rest: str, markers: Sequence[str]) -> bool:
    """Whether ``rest`` is a beginning of a marker that holds no whole marker: it can be text."""
    return any(marker.strip().startswith(rest) and marker.strip() != rest for marker in markers)


def names() -> list[str]:
    folder = (
        Path(os.environ.get("GUIDED_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data" / "templates"
    )
    return sorted(path.stem for path in folder.glob("*.jinja")) or ["absent"]


@pytest.mark.parametrize("name", names())
def test_no_prefix_of_an_answer_of_a_family_leaks_markup(shared: Path, name: str) -> None:
    path = shared / "data" / "templates" / f"{name}.jinja"
    if not path.is_file():
        pytest.skip("needs the shared chat templates, which are absent")
    inference, _ = inference_of_template(path.read_text(encoding="utf-8"))
    assert list(leaks(inference))[:3] == []


@pytest.mark.parametrize("name", MADE_UP)
def test_no_prefix_of_a_made_up_answer_leaks_markup(name: str) -> None:
    inference, _ = inference_of_template(MADE_UP[name])
    assert list(leaks(inference))[:3] == []
