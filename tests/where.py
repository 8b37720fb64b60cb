"""Print the test files of a module: ``python tests/where.py guided/state/mask.py``.

First the file of the module's own path and name, or those that `CLOSEST` names, then those that import it, then those
of its folder that import what uses it.  For a module that none of these finds, those that import the modules next to it
in the graph of imports.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

__all__ = ["files_for"]

ROOT = Path(__file__).resolve().parents[1]

#: The tests of large modules that no test imports, since they are reached through a plan or a guide.
CLOSEST = {
    "grammars/json_schema/grammar/emit.py": ("grammars/json_schema/grammar/test_property_order.py",),
    "grammars/json_schema/grammar/nonterminals.py": ("grammars/json_schema/grammar/test_property_order.py",),
    "grammars/json_schema/keywords/objects.py": ("grammars/json_schema/keywords/test_counts.py",),
    "grammars/json_schema/keywords/text.py": (
        "grammars/json_schema/keywords/test_pattern_readings.py",
        "grammars/json_schema/keywords/test_pattern_edges.py",
        "grammars/json_schema/keywords/test_pattern_flags.py",
    ),
    "grammars/json_schema/solver/semantics.py": ("grammars/json_schema/keywords/test_counts.py",),
    "grammars/prompt/messages.py": ("guided/hf/model/test_chat_template.py",),
    "grammars/text_grammars/structural_tag/builder.py": ("grammars/text_grammars/structural_tag/test_convert.py",),
    "guided/hf/generate/session.py": ("guided/hf/generate/reuse/test_reuse.py",),
    "guided/hf/guide.py": ("guided/hf/test_main_job.py", "guided/hf/generate/reuse/test_reuse.py"),
}


def _imports(file: Path) -> set[str]:
    """The dotted names that a file imports, members included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def files_for(module: str) -> list[str]:
    """Return the test files of ``module``, a path like ``guided/state/mask.py``, nearest first."""
    own = Path("tests", module).with_name(f"test_{Path(module).name}")
    tests, code = _graph()
    first = [str(own)] if (ROOT / own).exists() else [f"tests/{path}" for path in CLOSEST.get(module, ())]
    found = set(first)
    wanted, seen = {module.removesuffix(".py").replace("/", ".")}, set[str]()
    for distance in range(len(code)):
        near = {test for test, names in tests.items() if names & wanted}
        found |= near if not found else {test for test in near if not distance or Path(test).parent == own.parent}
        if (found and distance) or not wanted:
            break
        seen |= wanted
        wanted = {name for name, names in code.items() if names & wanted} - seen
    return first + sorted(found - set(first), key=lambda test: (Path(test).parent != own.parent, test))


@cache
def _graph() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return what each test file imports, and what each module does."""
    tests = {str(file.relative_to(ROOT)): _imports(file) for file in sorted((ROOT / "tests").rglob("test_*.py"))}
    code = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): _imports(file)
        for package in ("guided", "grammars", "special_tokens")
        for file in (ROOT / package).rglob("*.py")
    }
    return tests, code


if __name__ == "__main__":
    print("\n".join(files_for(sys.argv[1].replace(str(ROOT) + "/", ""))))
