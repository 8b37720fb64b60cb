"""The command line: results, exit codes, and messages; on the embedded model."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import guided
from guided import cli
from guided.cli import commands
from guided.output.trace_records import Trace
from special_tokens.errors import RequestError
from tests.cases import slow_where

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


def test_a_landed_answer_says_so_and_a_cut_one_why(run: Any) -> None:
    asked = ("generate", "Alice is 31.", "--regex", "[a-z]{5,40} [a-z]{5,40}", "--temperature", 0)
    landed = run(*asked, "-n", 9)
    assert (landed.exit_code, "landed: from token" in landed.output) == (0, True)
    cut = run(*asked, "-n", 9, "--no-landing")
    assert (cut.exit_code, "landed" in cut.output) == (cli.EXIT_CUT, False)
    short = run(*asked, "-n", 3)
    assert (short.exit_code, "3 tokens cannot hold the shortest answer" in short.output) == (cli.EXIT_CUT, True)
    body = {"messages": [{"role": "user", "content": "Hi"}], "structured_outputs": {"regex": "[a-z]{90}"}}
    refused = run("generate", "--request", json.dumps({**body, "max_tokens": 5, "short_budget": "error"}))
    assert refused.exit_code != 0
    assert isinstance(refused.exception, RequestError)


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


RELAXED = json.dumps({"type": "string", "pattern": r"^(a|b)\1$"})
BODY = {
    "messages": [{"role": "user", "content": "Is the sky blue?"}],
    "structured_outputs": {"choice": ["yes", "no"]},
    "max_tokens": 30,
    "temperature": 0,
    "user": "somebody",
}


def test_check_reports_a_schema(run: Any) -> None:
    result = run("check", "--schema", '{"type": "boolean"}')
    assert result.exit_code == 0
    assert "one JSON value under a JSON schema" in result.output
    assert "Every keyword is enforced exactly." in result.output
    result = run("check", "--schema", RELAXED)
    assert "pattern" in result.output
    assert "relaxed" in result.output
    assert "(root)" in result.output
    rows = json.loads(run("check", "--schema", RELAXED, "--json").stdout)["report"]
    assert [(row["outcome"], row["pointer"]) for row in rows] == [("relaxed", "")]


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--regex", "[a-z]{3}", "text that a regular expression matches"),
        ("--choice", "yes", "exactly one of several texts"),
        ("--lark", 'start: "a" | "b"', "text of a Lark grammar"),
        ("--gbnf", 'root ::= "a"', "text of a GBNF grammar"),
        ("--llguidance", '{"grammars": [{"lark_grammar": "start: /a/"}]}', "llguidance's own form"),
        ("--structural-tag", '{"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {}}}', "tag"),
        ("--json-object", None, "one JSON value"),
    ],
)
def test_check_knows_every_kind(run: Any, tmp_path: Path, flag: str, value: str | None, said: str) -> None:
    if value is not None and flag in ("--lark", "--gbnf", "--llguidance"):
        (tmp_path / "grammar").write_text(value)
        value = str(tmp_path / "grammar")
    result = run("check", flag, *([] if value is None else [value]))
    assert result.exit_code == 0, result.exception
    assert said in result.output


def test_check_reads_a_whole_request(run: Any) -> None:
    result = run("check", "--request", json.dumps(BODY))
    assert result.exit_code == 0, result.exception
    for word in ("structured_outputs.choice", "max_tokens", "user"):
        assert word in result.output
    data = json.loads(run("check", "--request", json.dumps(BODY), "--json").stdout)
    assert (data["kind"], data["ignored"], data["max_tokens"]) == ("choice", ["user"], 30)
    odd = json.dumps(BODY | {"temprature": 1})
    assert "temprature" in json.loads(run("check", "--request", odd, "--ignore-unknown", "--json").stdout)["ignored"]


def test_generate_answers_a_whole_request(run: Any, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text(json.dumps(BODY))
    result = run("generate", "--request", tmp_path / "body.json", "--json")
    assert json.loads(result.stdout)["parsed"] in ("yes", "no")


def test_generate_stops_samples_and_draws_its_picture(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    options = ["--stop", ",", "--include-stop", "-t", 0.7, "--top-k", 3, "--seed", 5, "--logprobs", 2]
    result = run("generate", "Count: one, two", *options, "-n", 40, "--json", "--trace", page)
    data = json.loads(result.stdout)
    if data["stop_reason"] is not None:
        assert (data["stop_reason"], data["content"][-1]) == (",", ",")
    assert len(data["logprobs"][0]["top"]) == 2
    assert page.read_text().startswith("<!doctype html>")


def test_generate_shows_the_log_probabilities_that_were_asked_for(run: Any) -> None:
    """They were recorded, and shown with --json alone."""
    result = run("generate", "Is water wet?", "--choice", "yes", "--choice", "no", "-t", 0, "--logprobs", 2)
    head = next(line for line in result.stderr.splitlines() if "model's own" in line)
    assert "masked" in head
    first = next(line for line in result.stderr.splitlines() if "'no'" in line or "'yes'" in line)
    assert len(re.findall(r"-\d+\.\d\d", first)) == 4  # before, after, and the two best
    assert "model's own" not in run("generate", "Hi", "-t", 0, "-n", 2).output


def test_tokens_reads_a_tokenizers_config_alone(run: Any, tmp_path: Path) -> None:
    added = {"5": {"content": "<|stop|>", "special": True}, "6": {"content": "<think>"}}
    config = {"added_tokens_decoder": added, "eos_token": "<|stop|>", "chat_template": "{{ messages }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    data = json.loads(run("tokens", tmp_path / "tokenizer_config.json", "--json").stdout)
    assert {"categories", "sections", "format"} <= set(data)
    assert data["ends"][0] == {"id": 5, "text": "<|stop|>", "sources": ["tokenizer"]}
    assert 'id = "' in run("tokens", tmp_path / "tokenizer_config.json", "--family-file").stdout


def test_tokens_shows_the_anchors_that_a_guide_would_take(run: Any, tmp_path: Path, shared: Path) -> None:
    texts = ["<|im_end|>", "<tool_call>", "</tool_call>", "<|image_pad|>", "<|video_pad|>"]
    config: dict[str, Any] = {"added_tokens_decoder": {i: {"content": text} for i, text in enumerate(texts, 5)}}
    for name, rows in (("qwen3_coder", [(8, "</function>"), (9, "\n</parameter>")]), ("qwen3", [])):
        config["chat_template"] = (shared / "data" / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        path = tmp_path / "tokenizer_config.json"
        path.write_text(json.dumps(config))
        data = json.loads(run("tokens", path, "--json").stdout)
        assert [(row["id"], row["replaces"]) for row in data["anchors"]] == rows
        assert ("Anchors, with" in run("tokens", path).stdout) == bool(rows)


def test_a_template_s_file_that_is_no_utf_8_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(b"{{ messages }}\xff")
    monkeypatch.setattr(sys, "argv", ["guided", "tokens", str(path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == cli.EXIT_REFUSED
    assert "byte 14 is not valid UTF-8" in " ".join(capsys.readouterr().err.split())


def test_tokens_shows_roles_and_ends(run: Any) -> None:
    result = run("tokens")
    assert "<think>" in result.output
    assert "<|im_end|>" in result.output
    data = json.loads(run("tokens", "--json").stdout)
    assert data["ends"][0]["text"] == "<|im_end|>"


def test_tokens_says_of_each_part_how_it_is_known(run: Any, tmp_path: Path) -> None:
    from tests.made_up.templates import READABLE

    path = tmp_path / "chat_template.jinja"
    path.write_text(READABLE["other keys"], encoding="utf-8")
    known = json.loads(run("tokens", path, "--json").stdout)["evidence"]
    assert known == {"inputs": "rendering", "tool_calls": "rendering", "ends": "rendering"}
    table = " ".join(run("tokens", path).output.split())
    assert "call_start" in table
    assert "rendering" in table


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["generate", "x", "--choice", "a", "--regex", "b"], "--regex and --choice together"),
        (["generate", "x", "--effort", "lots"], "unknown level 'lots'"),
        (["generate", "x", "--schema", "{"], "not JSON: Expecting property name"),
        (["generate", "x", "--schema", "nowhere.json"], "cannot read the file"),
        (["plan", "--model", "nowhere/at/all"], "ModelError: no such file or folder: 'nowhere/at/all'"),
        (["tokens", "nowhere.jinja"], "no such file or folder: 'nowhere.jinja'"),
        (["generate", "x", "--lark", "nowhere.lark"], "cannot read the file: No such file or directory"),
        (["check", "--schema", "no_such_module:Thing"], "cannot import no_such_module:Thing: ModuleNotFoundError"),
        (["check", "--schema", "json:Thing"], "cannot import json:Thing: AttributeError"),
        (["generate", "x", "-t", "-1"], "temperature"),
        (["check"], "nothing to check"),
        (["check", "--effort", "low"], "checked as part of a request"),
        (["generate"], "there is no prompt"),
        (["check", "--request", '{"temprature": 1}'], "temprature"),
        (["check", "--request", '{"structured_outputs": {"regex": "("}}'], "structured_outputs.regex"),
        (["generate", "x", "--include-stop"], "there is no stop"),
        (["plan", "--regex", "a", "--strict"], "nothing to act on where: --strict expected: a format with a schema"),
        (["plan", "--one-call"], "nothing to act on where: --one-call expected: --tools FILE"),
        (["plan", "--schema", "{}", "--trusted"], "nothing to act on where: --trusted expected: --lark"),
        (["generate", "x", "--request", "{}", "--effort", "low"], "with options for reasoning_effort"),
        (["generate", "x", "--request", '{"messages": [{}]}'], "a prompt together with a request that has messages"),
        (["generate", "--request", '{"messages": [{"role": "usr", "content": "Hi"}]}'], "'usr' is not a role"),
        (["check", "--request", '{"stream_options": {"usage": true}}'], "unknown key 'usage'"),
        (["generate", "x", "--request", "[]"], "the request is not an object"),
        (["generate", "x", "--request", '{"max_tokens": 5}', "-n", "3"], "--max-tokens together with a request"),
        (["generate", "x", "--trace", "no/such/folder/t.html"], "there is no folder 'no/such/folder'"),
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


@pytest.mark.parametrize("way", ["format", "tool"])
def test_what_strict_refuses_is_a_table_with_every_row(
    run: Any, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unique = {"type": "array", "items": {"type": "array"}, "uniqueItems": True}
    backwards = {"type": "string", "pattern": "(a)\\1", "format": "hue"}
    schema = {"type": "object", "properties": {"a": unique, "b": backwards}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    asked = ["--schema", json.dumps(schema), "--strict"] if way == "format" else ["--request", json.dumps(body)]
    monkeypatch.setattr(sys, "argv", ["guided", "check", *asked])
    monkeypatch.setattr(commands, "err", Console(stderr=True, highlight=False, width=200))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == cli.EXIT_REFUSED
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().err.splitlines()]
    place = "/tools/f/parameters" if way == "tool" else ""
    found = {(row[0], row[1], row[2]) for row in rows if len(row) > 3}
    assert {
        (f"{place}/properties/a", "uniqueItems", "refused"),
        (f"{place}/properties/b", "pattern", "refused"),
    } <= found
    assert (f"{place}/properties/b", "format", "exact") in found
    assert not any("relaxed" in row for row in rows)


def test_wrong_usage_is_exit_code_two(run: Any) -> None:
    assert run("generate", "--top-k", "many").exit_code == 2
    assert run("nothing").exit_code == 2


@pytest.mark.parametrize("command", ["generate", "plan", "check", "tokens", "shell"])
def test_every_command_explains_itself_with_an_example(run: Any, command: str) -> None:
    assert f"Example: guided {command}" in " ".join(run(command, "--help").output.split())


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
OF_A_MODEL = [line for line in COMMANDS if line.startswith("guided generate")]


#: The embedded model takes seconds for each of its commands.
@pytest.mark.parametrize("line", slow_where(lambda line: line in OF_A_MODEL[1:], COMMANDS))
def test_every_command_of_the_page_runs(run: Any, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grammar.gbnf").write_text('root ::= "a" [0-9]+')
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / "yes.json").write_text(json.dumps(BODY))
    (tmp_path / "chat.json").write_text('{"messages": [{"role": "user", "content": "Hi."}]}')
    Trace((), 1).write(tmp_path / "run.json")
    program, *arguments = shlex.split(line)
    assert program == "guided"
    result = run(*arguments)
    may_be_cut = "-n" in arguments and "--stop" not in arguments  # F14: a stop that is shown is met
    assert result.exit_code in ((0, cli.EXIT_CUT) if may_be_cut else (0,)), result.exception
    assert result.output.strip()


def test_the_page_names_every_command_and_exit_code() -> None:
    names = {command.callback.__name__ for command in cli.app.registered_commands if command.callback is not None}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == names
    codes = {0, 2, cli.EXIT_REFUSED, cli.EXIT_CUT, cli.EXIT_FAILED}
    assert set(map(int, re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE))) == codes
