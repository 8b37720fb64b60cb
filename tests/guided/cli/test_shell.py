"""Conversations in a file, and pictures of saved runs; on a guide that answers by rule, then on the embedded model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import guided
from guided import cli
from guided.cli.shell import ChatFile, talk
from guided.output.message import Message
from guided.output.parser import ContentDelta
from special_tokens.errors import RequestError


class Echo:
    """A guide whose answers count the messages that it was sent."""

    def stream(self, messages: list[Any], plan: Any, **sampling: Any) -> Any:
        if messages[-1]["content"] == "too long":
            raise RequestError("the prompt is too long", place="messages")
        text = f"{len(messages)}: {messages[-1]['content']}"

        class Written:
            message = Message(content=text)

            def __iter__(self) -> Any:
                return iter([ContentDelta(text)])

        return Written()


def test_a_chat_is_kept_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = type("Plan", (), {"response": None})()
    path = tmp_path / "chat.json"
    for given, system in (("hi\n\ntoo long\nmore\n/quit\nnever\n", "Be kind."), ("again", None)):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        talk(Echo(), plan, ChatFile.open(path, system), {})
    roles = [(message["role"], message["content"]) for message in json.loads(path.read_text())["messages"]]
    assert roles == [
        ("system", "Be kind."),
        ("user", "hi"),
        ("assistant", "2: hi"),
        ("user", "more"),
        ("assistant", "4: more"),
        ("user", "again"),
        ("assistant", "6: again"),
    ]
    assert capsys.readouterr().out == "2: hi\n4: more\n6: again\n"


def test_a_file_that_holds_no_chat_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    for text, why in (("[]", "no chat"), ("{", "not JSON"), ('{"messages": 1}', "no chat")):
        path.write_text(text)
        with pytest.raises(RequestError, match=why):
            ChatFile.open(path, None)
    path.write_text('{"messages": []}')
    with pytest.raises(RequestError, match="a system message for a chat that has begun"):
        ChatFile.open(path, "Be kind.")
    with pytest.raises(RequestError, match="cannot write"):
        ChatFile.open(tmp_path / "absent" / "chat.json", None)


def call(*arguments: Any, given: str = "") -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], input=given)


def test_a_run_is_saved(demo_guide: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guided, "demo", lambda **_: demo_guide, raising=False)
    run = tmp_path / "run.json"
    assert call("generate", "Is the sky blue?", "--choice", "yes", "-t", 0, "--trace", run).exit_code == 0
    saved = json.loads(run.read_text(encoding="utf-8"))
    assert "Is the sky blue?" in saved["prompt"]
    assert "SmolLM2-135M-Instruct" in saved["model"]
    assert len(saved["tokens"]) > 1
    assert all(token["seconds"] >= 0 for token in saved["tokens"])
    assert saved["tokens"][0]["seconds"] > 0  # the prompt's forward
    chat = tmp_path / "chat.json"
    assert call("shell", chat, "--choice", "yes", "-t", 0, given="Is it?\n").exit_code == 0
    assert [m["content"] for m in json.loads(chat.read_text())["messages"]] == ["Is it?", "yes"]
