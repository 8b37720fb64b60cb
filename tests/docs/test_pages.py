"""README, docs and examples run as they stand, on the embedded model."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guided
from tests.cases import slow_where
from tests.conftest import ROOT, load_script

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATES = re.compile(r"\.(chat|stream|generate)\(")
OF_A_MODEL = [path for path in PAGES if GENERATES.search(path.read_text(encoding="utf-8"))]


@pytest.fixture
def with_demo(demo_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`guided.demo()` gives the guide that is loaded already."""
    monkeypatch.setattr(guided, "demo", lambda **_: demo_guide, raising=False)


#: The embedded model takes seconds for each: one of them stands for the others in the default run.
@pytest.mark.parametrize("path", slow_where(lambda path: path.stem != "01_json", EXAMPLES), ids=lambda path: path.stem)
def test_example_runs(path: Path, with_demo: None, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
    text = path.read_text(encoding="utf-8")
    assert re.match(r'"""[^"]*You will see', text), "an example says what you will see"


@pytest.mark.parametrize("path", slow_where(lambda path: path in OF_A_MODEL, PAGES), ids=lambda path: path.name)
def test_every_block_of_the_page_runs(path: Path, with_demo: None, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text(encoding="utf-8")
    if "```python" not in text:
        pytest.skip("this page has no Python")
    runner = load_script("docs/fill_outputs.py")
    again = list(runner.BLOCK.finditer(runner.run_page(text)))
    for before, after in zip(runner.BLOCK.finditer(text), again, strict=True):
        if before["output"] is None:
            continue
        assert before["output"].strip(), "an output is missing: run docs/fill_outputs.py"
        assert _rounded(before["output"]) == _rounded(after["output"]), "an output is stale: run docs/fill_outputs.py"


def _rounded(output: str) -> str:
    """The output with one digit after each point: the last ones may differ from processor to processor."""
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", output)


def test_tables_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "tables.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    used = set(re.findall(r"<!-- ([\w ]+): written by docs/tables\.py -->", text))
    script = (ROOT / "docs" / "tables.py").read_text(encoding="utf-8")
    assert used == set(re.findall(r'^    "([\w ]+)": ', script.split("TABLES:")[1], re.MULTILINE))


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in PAGES if path.name != "README.md" and f"({path.name})" not in index] == []


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_that_the_page_of_the_architecture_names_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|docs|special_tokens|grammars|guided)/[\w/.]+)`", page)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


SHELL_PAGES = [*PAGES, ROOT / "CONTRIBUTING.md"]


def shell_blocks(page: Path) -> list[str]:
    return re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_lines_of_the_shell_can_be_pasted_into_zsh_too() -> None:
    lines = [line for page in SHELL_PAGES for block in shell_blocks(page) for line in block.splitlines()]
    assert lines
    assert [line for line in lines if re.search(r"(^|\s)#", line)] == []
