"""Headless Chromium, driven over its debugging pipe: no package is needed but the browser itself."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["CHROMIUM", "Tab", "tab"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

#: Seconds for an answer of the browser, and for what a page is waited for.
PATIENCE = 60.0


#: Chromium reads its pipe from file 3, and answers on file 4.
_START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Tab:
    """One tab.  ``problems`` are what its pages logged as errors."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser, and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            if answer.get("method") == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(answer["params"]["exceptionDetails"]))
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.problems.append(answer["params"]["entry"]["text"])
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._back, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"in vain: {script}\n{self.run('document.body.innerText')}"
            time.sleep(0.05)
        return value

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(address)})")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a named key; ``modifiers``: 2 is Control."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, "") if not modifiers else ""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key],
                modifiers=modifiers, **more,
            )  # fmt: skip

    def type(self, text: str) -> None:
        """Write text where the focus is."""
        self.call("Input.insertText", text=text)

    def view(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the scheme of colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def tab() -> Iterator[Tab]:
    """Start the browser, and yield a tab of it."""
    assert CHROMIUM is not None
    read, to = os.pipe()
    back, write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}",
        ]  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(read), str(write), CHROMIUM, *options],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        try:
            yield Tab(to, back)
        finally:
            os.close(to)  # the browser ends with its pipe
            os.close(back)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
