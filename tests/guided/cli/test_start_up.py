"""Modules that the command line loads, and where it reads and writes; in processes of their own, on made-up models."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guided
from tests.guided.hf.model.test_tokenizer_files import model

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
REQUEST = '{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}}'


Run = tuple[subprocess.CompletedProcess[str], set[str]]


def guided_cli(*arguments: object, given: str = "", cwd: Path = ROOT) -> Run:
    """A run of the command line, and the modules that it loaded."""
    code = f"""
import atexit, sys
sys.path.insert(0, {str(ROOT)!r})
from guided import cli
atexit.register(lambda: print("loaded:", *sys.modules, file=sys.stderr))
cli.main()
"""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=cwd, check=False)
    said, _, loaded = done.stderr.rpartition("loaded: ")
    done.stderr = said
    return done, set(loaded.split())


HEAVY = {"torch", "transformers"}
CORE = {"llguidance", "numpy", "lark", "jsonschema", "tokenizers"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["generate", "--help"],
        ["generate", "x", "--top-k", "many"],
        ["nothing"],
        ["generate", "x", "--schema", "nowhere.json"],
        ["generate", "x", "--model", "./nowhere"],
        ["generate", "x", "--choice", "a", "--regex", "b"],
    ],
)
def test_help_and_wrong_usage_load_nothing(arguments: list[str]) -> None:
    done, loaded = guided_cli(*arguments)
    is_usage = "many" in arguments or arguments == ["nothing"]
    assert done.returncode == (0 if arguments[-1].startswith("--") else 2 if is_usage else 1)
    assert "typer" in loaded
    assert loaded & (HEAVY | CORE | {"special_tokens.registry"}) == set()
    assert "pydantic" not in loaded or "--help" not in arguments  # typer loads it to read values
    assert len(loaded) < 450
    assert arguments != ["--version"] or done.stdout == f"guided {guided.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--schema", SCHEMA, "--effort", "low", "--model"],
        ["check", "--request", REQUEST, "--json", "--model"],
        ["check", "--schema", SCHEMA],
        ["tokens", "--json"],
    ],
)
def test_looking_before_writing_loads_no_torch(arguments: list[str], tmp_path: Path) -> None:
    folder = [model(tmp_path)] if arguments[0] == "tokens" or arguments[-1] == "--model" else []
    done, loaded = guided_cli(*arguments, *folder)
    assert done.returncode == 0, done.stderr
    assert not loaded & HEAVY
    if "--json" in arguments:
        json.loads(done.stdout)


def test_an_error_of_the_request_is_found_before_the_weights_are_loaded(tmp_path: Path) -> None:
    done, loaded = guided_cli("generate", "x", "--effort", "lots", "--model", model(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "unknown level 'lots'" in done.stderr
    assert not loaded & HEAVY


def test_a_minus_reads_standard_input(tmp_path: Path) -> None:
    done, _ = guided_cli("plan", "--schema", "-", "--json", "--model", model(tmp_path), given=SCHEMA)
    assert '"a"' in json.loads(done.stdout)["lark"]
    done, _ = guided_cli("check", "--schema", "-")
    assert done.returncode == 1
    assert "standard input is empty" in done.stderr


def test_a_class_of_a_module_in_this_folder_is_a_format(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("import typing\nclass Point(typing.TypedDict):\n    x: int\n", encoding="utf-8")
    done, _ = guided_cli("check", "--schema", "shapes:Point", "--json", cwd=tmp_path)
    assert [*map(type, json.loads(json.loads(done.stdout)["shortest"]).values())] == [int], done.stderr


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from guided.cli.inputs import load_json, read_text, resolve_model

    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s.json").write_text(SCHEMA, encoding="utf-8")
    assert load_json("~/s.json", "--schema") == json.loads(SCHEMA)
    assert read_text("~/s.json", "--lark") == SCHEMA
    assert resolve_model(f"~/{model(tmp_path / 'm').name}") == str(tmp_path / "m")
    assert resolve_model("owner/name") == "owner/name"


def events() -> list[Any]:
    call = [guided.ToolCallStart(0, "c", "f"), guided.ToolCallArguments(0, '{"a":'), guided.ToolCallArguments(0, "1}")]
    own = [guided.ToolCallStart(1, "d", "sql"), guided.ToolCallArguments(1, "select 1"), guided.ToolCallEnd(1)]
    return [guided.ReasoningDelta("Hm."), guided.ContentDelta("\x07é"), *call, guided.ToolCallEnd(0), *own]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_answer_alone_is_written_to_standard_output(is_terminal: bool) -> None:
    from io import StringIO

    from rich.console import Console

    from guided.cli.answer import EventPrinter

    out, aside = (Console(file=StringIO(), force_terminal=is_terminal, no_color=True) for _ in range(2))
    printer = EventPrinter(out, aside=aside)
    for event in events():
        printer(event)
    printer.close()
    written, siblings = out.file.getvalue(), aside.file.getvalue()  # type: ignore[attr-defined]
    assert "Hm." in siblings
    assert "Hm." not in written
    if is_terminal:
        assert [text in written for text in ("f(", '{"a":1}', "select 1")] == [True] * 3
    else:
        assert written == '\x07é\n{"name": "f", "arguments": {"a":1}}\n{"name": "sql", "arguments": "select 1"}\n'


def test_a_spinner_is_shown_on_a_terminal_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO
    from time import sleep

    from rich.console import Console

    from guided.cli import consoles

    monkeypatch.setattr(consoles, "PATIENCE_S", 0.05)
    shown = {}
    for kind, is_terminal, seconds in (("slow", True, 0.5), ("fast", True, 0.0), ("piped", False, 0.2)):
        monkeypatch.setattr(consoles, "err", Console(file=StringIO(), force_terminal=is_terminal))
        with consoles.waiting("Loading"):
            sleep(seconds)
        shown[kind] = "Loading ..." in consoles.err.file.getvalue()  # type: ignore[attr-defined]
    assert shown == {"slow": True, "fast": False, "piped": False}
