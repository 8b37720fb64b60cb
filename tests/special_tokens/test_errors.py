"""An error quotes a caller's value, however strange the value is."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from guided.sampling import Sampling
from special_tokens import errors
from special_tokens.errors import (
    ContextExceeded,
    GuidanceError,
    GuidedError,
    LimitExceeded,
    ModelError,
    RequestError,
    TemplateError,
    ToolError,
    WireError,
    http_error,
    shown,
)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", ["a'b", 3, None, [1, "x"], {"a": 1.5}, "x" * 150, b"\xff"])
def test_a_short_value_is_shown_as_it_is(value: object) -> None:
    assert shown(value) == repr(value)


STRANGE: dict[str, Any] = {
    "text": "x" * 10**6,
    "number": 10**6_000,
    "nested": nested(100_000),
    "list": ["y" * 10**5],
    "key": {"k" * 10**5: 1},
    "class": Unshowable(),
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_any_other_value_is_shown_in_short(value: object) -> None:
    assert 3 < len(shown(value)) < 300


@pytest.mark.parametrize("name", ["temperature", "seed", "top_k", "n", "logprobs", "min_p"])
def test_a_number_of_thousands_of_digits_is_refused_like_any_other(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        Sampling(**{name: -(10**6_000)})
    assert caught.value.place == name
    assert len(str(caught.value)) < 500


def test_the_text_of_an_error_is_bounded_and_its_parts_are_whole() -> None:
    error = GuidedError("m" * 10**6, place="p" * 10**6, expected="e" * 10**6, hint="h" * 10**6)
    assert len(str(error)) < 10_000
    assert str(error).startswith("ppp")
    assert {len(part) for part in (error.place, error.message, error.expected, error.hint)} == {10**6}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ToolError("no", place="tools[0]"), 400, None),
        (ContextExceeded("no", place="messages"), 400, "context_length_exceeded"),
        (WireError("no", place="plan"), 400, None),
        (LimitExceeded("no", place="regex"), 400, None),
        (TemplateError("no", place="messages"), 400, None),
        (TemplateError("no", place="chat_template"), 500, None),
        (ModelError("no", place="model"), 500, None),
        (GuidanceError("no", place="row 1"), 500, None),
    ],
)
def test_each_error_has_its_http_answer(error: GuidedError, status: int, code: str | None) -> None:
    found, body = http_error(error)
    kind = "server_error" if status == 500 else "invalid_request_error"
    assert found == status
    assert body == {"error": {"message": str(error), "type": kind, "param": error.place, "code": code}}


def test_of_an_exception_that_was_not_foreseen_only_its_class_is_passed_on() -> None:
    status, body = http_error(ValueError("a secret path"))
    assert status == 500
    assert "ValueError" in body["error"]["message"]
    assert "secret" not in body["error"]["message"]


def test_the_table_of_the_page_is_what_the_code_answers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    listed: defaultdict[str, set[int]] = defaultdict(set)
    for line in page.splitlines():
        cells = line.split("|")
        for name in re.findall(r"`(\w+)`", cells[1] if len(cells) > 3 else ""):
            if name in errors.__all__:  # 200: the error is in the choice of its row
                listed[name] |= {int(status) for status in re.findall(r"\b[45]00\b", cells[3])}
    classes = [getattr(errors, name) for name in errors.__all__ if name not in ("GuidedError", "http_error", "shown")]
    for kind in classes:
        name = next(base.__name__ for base in kind.__mro__ if base.__name__ in listed)  # a row names it or its base
        answers = {http_error(kind("no", place=place))[0] for place in ("", "messages")}
        assert answers <= (listed[name] or {500}), kind
