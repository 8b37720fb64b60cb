"""A mistake in a config file is one error that names its place, before anything is deployed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from guided.ray.args import ReplicaArgs


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"replicas": 3, "max_replicas": 2}, "max_replicas"),
        ({"cpus": -1}, "cpus"),
        ({"gpus": -0.5}, "gpus"),
        ({"ingresses": 0}, "ingresses"),
        ({"log_level": "loud"}, "log_level"),
        ({"cache_bytes": -1}, "cache_bytes"),
        ({"settings": {"max_rwos": 4}}, "settings.max_rwos"),
        ({"settings": {"max_rows": "many"}}, "settings.max_rows"),
        ({"settings": {"otel": "perhaps"}}, "settings.otel"),
        ({"settings": {"names": "one"}}, "settings.names"),
        ({"settings": {"limits": {"requests_s": 1}}}, "settings.limits.requests_s"),
        ({"settings": 4}, "settings"),
    ],
)
def test_a_mistake_is_named(args: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ReplicaArgs(**args)
    (error,) = raised.value.errors()
    assert ".".join(map(str, error["loc"])) == place


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_rows", 0), ("piece", -1), ("max_wait_s", 0.0), ("max_wait_s", math.nan), ("drain_s", -0.5)],
)
def test_a_limit_that_lets_nothing_through_is_named_and_no_key_is_shown(name: str, value: float) -> None:
    with pytest.raises(ValidationError, match=f"settings\n.* {name}: {value} is out of range") as raised:
        ReplicaArgs(settings={name: value, "keys": ["s3cr3t"]})  # type: ignore[arg-type]
    assert "s3cr3t" not in str(raised.value)


def test_settings_are_those_of_the_server_with_the_keys_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n# no key\ntwo\n", encoding="utf-8")
    given = {"max_rows": "4", "names": ["a", "b"], "limits": {"request_s": 2}, "keys": ["zero"]}
    settings = ReplicaArgs(api_key_file=file, settings=given).to_settings()  # type: ignore[arg-type]
    assert (settings.max_rows, settings.names, settings.limits.request_s) == (4, ("a", "b"), 2.0)
    assert settings.keys == ("zero", "one", "two")
    assert not settings.page
