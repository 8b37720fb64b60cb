"""Check that docstrings, comments, error texts and pages are plain technical English (part of `make lint`).

CONTRIBUTING.md has the glossary.  Usage: ``python tests/plain_english.py [--count] [FILE or FOLDER ...]``; without
arguments the whole repository is checked.  Prints one line per finding and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("guided", "grammars", "special_tokens")
FOLDERS = (*PRODUCT, "tests", "benchmarks", "docs", "examples")

#: A docstring states what is true after the call ("Return ...", "Whether ..."); it does not ask.
QUESTION = re.compile(
    r"(Is|Are|Was|Does|Do|Did|Has|Have|Can|Could|May|Might|Must|Should|Would|Will|What|Which|Who|Where|When|How)\b"
)

#: Words that this code base once used in senses of its own, with what to write instead.
WORDS = {
    r"\bbehind\b": "after, following, next to",
    r"\bbeside\b": "next to, together with, sibling of, combined with",
    r"\bnobody\b": "no one, no caller, nothing",
    r"\bborne?\b|\bbears?\b": "accept, handle, withstand, carry",
    r"\bastray\b": "into a dead end",
    r"\btold\b": "detected, stated, passed, distinguished",
    r"\bat a loss\b": "cannot decide",
    r"\bheard?\b": "honoured, read",
    r"\bworn\b|\bwears?\b": "exhausted, used up",
    r"\bso many\b": "at most n, this many",
    r"\b(?-i:Who(ever)?) [a-z][^?]*$": "callers who ..., a model that ...",
    r"\bmend(s|ed|ing)?\b": "correct, replace, repair",
    r"\b(tells?|speaks?) of\b": "mention, state, depend on",
    r"\bkin\b": "name the others",
    r"\bfor want of\b": "for lack of",
}

#: Places where such a word has its ordinary sense: (file or "*", a part of the line).
ALLOWED: tuple[tuple[str, str], ...] = (
    ("tests/plain_english.py", ""),
    ("*", "look-behind"),
    ("*", "lookbehind"),
)


def texts_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line number, text and whether it begins a docstring, for every text in ``path`` that people read."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        fenced = False
        for number, line in enumerate(source.splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                yield number, line, False
        return
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(id(first.value))
                for i, line in enumerate(str(first.value.value).split("\n")):
                    yield first.lineno + i, line.strip(), i == 0
    if path.relative_to(ROOT).parts[0] in PRODUCT:  # messages of errors and notes
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.lineno, node.value, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def findings_in(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, line and what is wrong with it."""
    name = path.relative_to(ROOT).as_posix()
    allowed = tuple(part for place, part in ALLOWED if place in ("*", name))
    for number, text, begins in texts_of(path):
        if any(part in text for part in allowed):
            continue
        if begins and QUESTION.match(text):
            yield number, text, 'begins as a question; write "Whether ...", "Return ..." or a statement'
        for pattern, instead in WORDS.items():
            if found := re.search(pattern, text, re.IGNORECASE):
                yield number, text, f"{found[0]!r}; write {instead}"


def paths_of(arguments: list[str]) -> Iterator[Path]:
    """The files that the arguments name: all of the repository without any."""
    for argument in arguments or [*FOLDERS, "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]:
        path = (ROOT / argument).resolve()
        yield from sorted(p for p in path.rglob("*") if p.suffix in (".py", ".md")) if path.is_dir() else (path,)


def main(arguments: list[str]) -> int:
    """Print the findings (with ``--count`` their number per folder); 1 if there is one."""
    count = "--count" in arguments
    per_folder: Counter[str] = Counter()
    for path in paths_of([a for a in arguments if a != "--count"]):
        for number, text, wrong in findings_in(path):
            per_folder[str(path.relative_to(ROOT).parent)] += 1
            if not count:
                print(f"{path.relative_to(ROOT)}:{number}: {wrong}: {text.strip()[:100]}")
    for folder, number in sorted(per_folder.items()):
        if count:
            print(f"{number:5} {folder}")
    print(f"{sum(per_folder.values())} findings")
    return 1 if per_folder else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
