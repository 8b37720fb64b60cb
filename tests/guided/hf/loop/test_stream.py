"""A stream is closed, tells its end, and shows what is final of its value."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pydantic
import pytest

from guided.output.message import AnswerEnd
from special_tokens.errors import AnswerError
from tests.cases import slow_where
from tests.grammars.python_types.test_partial import is_part
from tests.made_up.models import forwards_of


class Listing(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=4)
    flags: list[bool] = pydantic.Field(min_length=2, max_length=3)


def test_the_last_event_is_the_end_with_the_message(tiny_guide: Any) -> None:
    stream = tiny_guide.stream("tell me", response_format=Listing, temperature=0, max_tokens=60)
    events = list(stream)
    assert [isinstance(event, AnswerEnd) for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].message is stream.message
    assert stream.message.ok
    assert list(stream) == []
    stream.close()  # nothing is left to close
    assert list(stream) == []
    assert stream.partial == stream.message.partial == stream.message.parsed


def test_leaving_the_block_ends_the_generation(tiny_guide: Any) -> None:
    with forwards_of(tiny_guide.model) as forwards:
        with tiny_guide.stream("tell me", temperature=0, max_tokens=30, reuse=False) as stream:
            written = [next(stream) for _ in range(3)]
        num_forwards = len(forwards)
        message = stream.message
        assert len(forwards) == num_forwards
    assert message.content == "".join(event.text for event in written)
    assert "the stream was closed before the answer ended" in message.notes
    assert (message.finish_reason, message.ok) == ("length", False)
    with pytest.raises(AnswerError, match=r"^stream: the stream was closed before .*stream.message holds"):
        next(stream)
    with pytest.raises(AnswerError):
        list(stream)


def test_a_stream_that_never_began_is_closed_as_well(tiny_guide: Any) -> None:
    with tiny_guide.stream("tell me", temperature=0, max_tokens=5) as stream:
        pass
    assert (stream.message.content or "", stream.partial) == ("", None)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_partial_is_part_of_the_end(tiny_guide: Any, seed: int) -> None:
    stream = tiny_guide.stream("tell me", response_format=Listing, seed=seed, temperature=1.0, max_tokens=80)
    seen = [stream.partial for _ in stream]
    assert stream.message.ok
    assert len({repr(part) for part in seen}) > 3
    assert all(part is None or is_part(part, stream.message.parsed) for part in seen)
    assert [isinstance(part, Listing) for part in seen if part is not None]


@pytest.mark.parametrize(
    "end", slow_where(lambda end: "Key" not in end, ["pass", "raise ValueError('mine')", "raise KeyboardInterrupt"])
)
def test_a_program_may_end_while_a_stream_is_open(end: str) -> None:
    program = (
        "from tests.conftest import make_tiny_guide\n"
        "stream = make_tiny_guide().stream('hi', max_tokens=20, temperature=0)\n"
        f"next(stream)\n{end}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == {"pass": 0, "raise ValueError('mine')": 1}.get(end, -2), done.stderr
    assert "c10" not in done.stderr
