#!/usr/bin/env python3
"""Writes the tables of docs pages from the code's own tables.

    python docs/tables.py            # writes them
    python docs/tables.py --check    # says whether they are current

A table stands between ``<!-- NAME: written by docs/tables.py -->`` and ``<!-- end -->``; ``TABLES`` names them all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grammars.compose import response  # noqa: E402
from grammars.reasoning.levels import ALIASES, LEVELS, NATIVE_BUDGETS  # noqa: E402
from grammars.reasoning.template import SHIPPED  # noqa: E402
from grammars.regular.syntax.parser import MAX_PATTERN  # noqa: E402
from grammars.requests.keys import CONSTRAINT_ALIASES, GUIDANCE, HARMLESS, PROMPT, SAMPLING, UNSUPPORTED  # noqa: E402
from grammars.text_grammars.lark.check import MAX_ATOMS, MAX_BYTES, MAX_DEFINITIONS, MAX_LEAST_LENGTH, MAX_NESTING  # noqa: E402
from grammars.text_grammars.lark.parser import MAX_COUNT, MAX_TOKENS  # noqa: E402
from grammars.text_grammars.structural_tag.builder import FORMATS  # noqa: E402
from grammars.tools.normalise import MAX_TOOLS  # noqa: E402

BLOCK = re.compile(r"(<!-- (?P<name>[\w ]+): written by docs/tables\.py -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def code(value: object) -> str:
    return f"`{value}`"


def codes(values: Iterable[object]) -> str:
    return ", ".join(map(code, values))


# -- reasoning


def levels() -> str:
    others = {level: [alias for alias, of in ALIASES.items() if of == level] for level in LEVELS}
    rows = []
    for level in LEVELS:
        budget = NATIVE_BUDGETS.get(level, "always a template")
        told = "what `max_tokens` leaves" if budget is None else budget
        rows.append([code(level), codes(others[level]), f"{told:,}" if isinstance(told, int) else told, shape(level)])
    return table(("level", "other names", "`native`: tokens of thought", "`structured`: shape of the thought"), rows)


def shape(level: str) -> str:
    """Return what the template of a level says of itself, and how its limits are scaled."""
    if level not in SHIPPED:
        return "none at all"
    file, scale = SHIPPED[level]
    text = (resources.files("grammars.reasoning") / "templates" / f"{file}.lark").read_text(encoding="utf-8")
    limits = [round(int(limit) * scale) for limit in re.findall(r"\$\(([0-9]+)\)", text)]
    if level != file and scale != 1:
        return f"that of {code(file)} with limits of {', '.join(f'{limit:,}' for limit in limits)} characters"
    return " ".join(text.splitlines()[0].removeprefix("// ").rstrip(".").split())


# -- constraints

_PYTHON = {
    "json": "a type, a dict, `guided.JsonSchema(schema)`",
    "regex": "`guided.Regex(pattern)`",
    "choice": "`guided.Choice([...])`",
    "lark": "`guided.Lark(text)`",
    "gbnf": "`guided.Gbnf(text)`",
    "llguidance": "`grammars.values.constraints.Llguidance(spec)`",
    "structural_tag": "`guided.StructuralTag(spec)`",
}


def kinds() -> str:
    rows = ([code(kind), what, _PYTHON[kind]] for kind, what in response.KINDS.items())
    return table(("kind", "the answer is", "in Python"), rows)


def tag_formats() -> str:
    only = {
        "any_text": {"max_tokens": "null"},
        "json_schema": {"any_order": "false", "excludes": "[]", "max_whitespace_cnt": "null", "style": '"json"'},
    }
    rows = ((kind, only.get(kind, {}), sorted(keys)) for kind, (_, keys) in sorted(FORMATS.items()))
    told = ((kind, [f"{key}: {values[key]}" if key in values else key for key in keys]) for kind, values, keys in rows)
    return ", ".join(f"{code(kind)} ({codes(keys)})" for kind, keys in told) + "."


def limits() -> str:
    rows = [
        ["rules and terminals of a grammar", MAX_DEFINITIONS],
        ["bytes of a grammar", MAX_BYTES],
        ["words and signs of a grammar", MAX_TOKENS],
        ["literals, names and operators of a grammar", MAX_ATOMS],
        ["nested parentheses, repeats and operators of a grammar (those around one thing do not count)", MAX_NESTING],
        ["characters of a regular expression", MAX_PATTERN],
        ["times of a counted repeat in a rule", MAX_COUNT],
        ["characters of a lexeme's shortest text", MAX_LEAST_LENGTH],
        ["choices", response.MAX_CHOICES],
        ["tools", MAX_TOOLS],
    ]
    return "; ".join(f"{what}: {most:,}" for what, most in rows) + "."


# -- composition


def composition() -> str:
    """Return what may be written, found by walking texts under the masks of composed plans."""
    from grammars.values.constraints import Regex
    from guided.engine.engine import Engine
    from tests.judges.plans import END, accepts, plan_of
    from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

    text = small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    engine = Engine(text, small_tokens(text))
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    texts = {
        "text": "Hello.",
        "the format": "12",
        "a call": call,
        "several calls": f"{call}\n{call}",
        "text, then a call": f"Hello.\n{call}",
    }
    tools = {"tools": [{"name": "f"}]}
    asked: dict[str, dict[str, object]] = {
        "nothing": {},
        "`response_format`": {"response_format": Regex("[0-9]+")},
        "`tools`": tools,
        '`tools`, `tool_choice="none"`': {**tools, "tool_choice": "none"},
        '`tools`, `tool_choice="required"` or a name': {**tools, "tool_choice": "required"},
        '`tools`, `tool_choice="required"`, `parallel_tool_calls=True`': {
            **tools, "tool_choice": "required", "parallel_tool_calls": True,
        },
        "`tools`, `parallel_tool_calls=False`": {**tools, "parallel_tool_calls": False},
        "`response_format` and `tools`": {"response_format": Regex("[0-9]+"), **tools},
        '`response_format` and `tools`, `tool_choice="required"`': {
            "response_format": Regex("[0-9]+"), **tools, "tool_choice": "required",
        },
    }  # fmt: skip
    rows = []
    for name, parts in asked.items():
        plan = plan_of(engine, **parts)
        has_format = "response_format" in parts
        marks = []
        for what, answer in texts.items():
            allowed = accepts(plan, engine, answer + END, "after")
            marks.append("-" if what == "the format" and not has_format else "yes" if allowed else "no")
        rows.append([name, *marks])
    return table(("asked for", *texts), rows)


# -- requests


def request_keys() -> str:
    return table(("key", "what it does"), ([code(key), what] for key, what in GUIDANCE.items()))


def aliases() -> str:
    fields = dict.fromkeys(CONSTRAINT_ALIASES.values())
    rows = (
        [codes(k for k, of in CONSTRAINT_ALIASES.items() if of == f), code(f"structured_outputs.{f}")] for f in fields
    )
    return table(("keys", "stand for"), rows)


def other_keys() -> str:
    neutral = (f"{code(key)} ({codes(values)})" if values else code(key) for key, values in UNSUPPORTED.items())
    rows = [
        ["what the model is given and how it travels: not read here", codes(PROMPT)],
        ["sampling, checked and handed to `guided.Sampling`", codes(SAMPLING)],
        ["without effect, listed in `plan.ignored`", codes(HARMLESS)],
        ["refused, but for the value that changes nothing", ", ".join(neutral)],
    ]
    return table(("keys that are", ""), rows)


# -- special tokens


def members(name: str) -> str:
    """The members of an enum of `special_tokens.roles` with the sentence on each."""
    text = (resources.files("special_tokens") / "roles.py").read_text(encoding="utf-8")
    body = text.split(f"class {name}(StrEnum)")[1].split("\nclass ")[0]
    return table(
        (name.lower(), "what it is"), ([code(v), what] for v, what in re.findall(r' = "(\w+)"  #: (.*)', body))
    )


TABLES: Mapping[str, Callable[[], str]] = {
    "levels": levels,
    "kinds": kinds,
    "tag formats": tag_formats,
    "limits": limits,
    "composition": composition,
    "request keys": request_keys,
    "aliases": aliases,
    "other keys": other_keys,
    "roles": lambda: members("Role"),
}


def filled(page: str) -> str:
    """The page with all of its tables as the code says them."""
    return BLOCK.sub(lambda m: f"{m[1]}{TABLES[m['name']]()}\n{m[4]}", page)


def pages() -> list[Path]:
    """The pages that have a table of ours."""
    return [page for page in sorted((ROOT / "docs").glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


def main() -> None:
    stale = []
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = filled(old)
        if new != old:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(stale)}: out of date, run docs/tables.py")
    print(f"{len(pages())} pages, {len(stale)} changed")


if __name__ == "__main__":
    main()
