"""Types with a rule: whatever a random model writes at a high temperature, the type takes it.

The judge is pydantic, which reads the text once more.  Types with a relaxed row of the report are left out: a mask
cannot keep them, and `message.parse_error` says so.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from guided.sampling import Sampling
from tests.cases import slow_where
from tests.made_up.python_types import RULES, TYPES

RULED = (
    "int between", "int multiple", "str sizes", "str pattern", "str stripped", "Decimal places", "Decimal digits",
    "Decimal positive", "Decimal between", "Decimal multiple", "UUID1", "UUID3", "UUID4", "UUID5", "date between",
    "PastDate", "PastDatetime", "NaiveDatetime", "AwareDatetime", "timedelta", "Base64Bytes", "Base64Str", "Json",
    "IPv4Network", "IPv6Network", "HttpUrl", "list sizes", "dict of ints", "dict of bounded ints", "dict of dates",
    "dict of enums", "dict of UUIDs", "dict of bools", "discriminated union",
)  # fmt: skip
KINDS: dict[str, Any] = {name: TYPES[name][0] for name in RULED} | RULES
MOST = 200


@pytest.mark.parametrize("name", slow_where(lambda name: name not in ("Decimal places", "dict of ints"), list(KINDS)))
def test_nothing_that_the_type_refuses_is_sampled(tiny_guide: Any, name: str, request: pytest.FixtureRequest) -> None:
    plan = tiny_guide.plan(response_format=KINDS[name])
    assert not plan.schema_report.relaxed
    wanted = MOST if request.node.get_closest_marker("slow") else 10
    engine, adapter, read = tiny_guide.engine, TypeAdapter(KINDS[name]), 0
    closing = {i: 4.0 for i in range(engine.vocab_size) if engine.token_bytes(i) in (b'"', b"}", b"]")}
    for seed in range(20):
        sampling = Sampling(temperature=1.5, n=min(100, wanted), seed=seed, logit_bias=closing)
        for message in tiny_guide.generate(["go"], [plan], sampling=sampling, max_tokens=120):
            assert message.error is None
            if not message.complete:
                continue
            assert message.ok, message
            adapter.validate_json(message.content)
            read += 1
        if read >= wanted:
            return
    pytest.fail(f"{read} answers only")
