"""The command line: results, exit codes, and messages; on the embedded model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import guided
from guided import cli

SCHEMA = json.dumps(
    {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"], "additionalProperties": False}
)


@pytest.fixture
def run(demo_guide: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(guided, "demo", lambda **_: demo_guide, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli.app, [str(a) for a in arguments])

    return call


def test_generate_streams_and_prints_the_validated_object(run: Any, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(SCHEMA)
    result = run("generate", "Alice is 31.", "--schema", tmp_path / "schema.json", "--temperature", 0, "-n", 40)
    assert result.exit_code == 0, result.output
    assert '{"age": ' in result.output
    assert "steps changed by guidance" in result.output


def test_generate_json_is_one_object(run: Any) -> None:
    result = run("generate", "Alice is 31.", "--schema", SCHEMA, "--temperature", 0, "-n", 40, "--json")
    data = json.loads(result.stdout)
    assert isinstance(data["parsed"]["age"], int)
    assert data["finish_reason"] == "stop"


def test_a_cut_answer_has_an_exit_code_of_its_own(run: Any) -> None:
    assert run("generate", "Alice is 31.", "--schema", SCHEMA, "-n", 2).exit_code == cli.EXIT_CUT


def test_plan_prints_the_lark_and_its_legend(run: Any) -> None:
    result = run("plan", "--choice", "yes", "--choice", "no", "--effort", "low")
    assert result.exit_code == 0
    assert '"yes" | "no"' in result.output
    for word in ("Legend", "region reasoning", "end of response", "256 tokens"):
        assert word in result.output


def test_plan_json_lists_its_parts(run: Any) -> None:
    data = json.loads(run("plan", "--regex", "[a-z]+", "--json").stdout)
    assert data["lark"].startswith("start:")
    assert data["ends"][0]["ids"]


def test_check_reports_a_schema(run: Any) -> None:
    result = run("check", "--schema", SCHEMA)
    assert result.exit_code == 0
    assert result.output.strip()


def test_tokens_shows_roles_and_ends(run: Any) -> None:
    result = run("tokens")
    assert "<think>" in result.output
    assert "<|im_end|>" in result.output
    data = json.loads(run("tokens", "--json").stdout)
    assert data["ends"][0]["text"] == "<|im_end|>"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["generate", "x", "--choice", "a", "--regex", "b"], "--regex and --choice together"),
        (["generate", "x", "--effort", "lots"], "unknown level 'lots'"),
        (["generate", "x", "--schema", "{"], "not JSON: Expecting property name"),
        (["generate", "x", "--schema", "nowhere.json"], "cannot read it"),
        (["plan", "--model", "nowhere/at/all"], "cannot load the tokenizer"),
        (["check"], "nothing to check"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_one(
    run: Any, arguments: list[str], match: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["guided", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == cli.EXIT_REFUSED
    assert match in " ".join(capsys.readouterr().err.split())


def test_wrong_usage_is_exit_code_two(run: Any) -> None:
    assert run("generate").exit_code == 2
    assert run("nothing").exit_code == 2


@pytest.mark.parametrize("command", ["generate", "plan", "check", "tokens"])
def test_every_command_explains_itself_with_an_example(run: Any, command: str) -> None:
    assert f"Example: guided {command}" in " ".join(run(command, "--help").output.split())


def test_help_loads_no_torch() -> None:
    code = """
import sys
from guided import cli
try:
    cli.app(["--help"])
except SystemExit:
    pass
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
