"""The import table of the design, held by reading every module; and what `import guided` may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("special_tokens", "grammars", "guided")
STDLIB = sys.stdlib_module_names

#: room -> what its modules may import beside the standard library and themselves
ALLOWED = {
    "special_tokens": set(),
    "grammars": {
        "special_tokens",
        "lark",
        "msgpack",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "referencing",
        "jsonschema_specifications",
    },
    "guided": {"special_tokens", "grammars", "llguidance", "numpy"},
    "guided.hf": {"special_tokens", "grammars", "guided", "torch", "transformers", "numpy", "jinja2"},
    "guided.embedded": {"special_tokens", "guided", "torch", "transformers"},
    "guided.cli": {"special_tokens", "grammars", "guided", "typer", "rich"},
    "guided.cli.terminal": {"special_tokens", "grammars", "guided", "rich"},
    "guided.cli.demonstration": {"special_tokens", "guided", "torch", "rich", "pydantic"},
    "guided.cli.portfolio": {"special_tokens", "guided"},
    "guided.validation.validate": {"special_tokens", "grammars", "guided", "jsonschema_specifications"},
    "guided.validation.validate_python": {"grammars", "guided", "jsonschema", "jsonschema_specifications", "referencing"},
    "guided.validation.validate_rust": {"grammars", "guided"},
    "guided.validation.validate_rust_script": {"jsonschema_rs", "jsonschema_specifications"},
    "guided.output.message": {"special_tokens", "grammars", "guided"},
}

#: Modules at the edge: they may import the torch rooms of guided; the core may not.
EDGE = {"guided.hf", "guided.embedded", "guided.cli", "guided.cli.demonstration", "guided.cli.portfolio"}


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Imported module names, and whether the import stands inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or "", id(node) in inside


def room_of(module: str) -> str:
    fitting = [room for room in ALLOWED if module == room or module.startswith(room + ".")]
    return max(fitting, key=len)


@pytest.mark.parametrize(("module", "path"), [pytest.param(*m, id=m[0]) for m in modules()])
def test_every_module_imports_only_what_its_room_may(module: str, path: Path) -> None:
    room = room_of(module)
    package = module.split(".")[0]
    for name, inside in imports_of(path):
        top = name.split(".")[0]
        if top in STDLIB:
            continue
        assert top == package or top in ALLOWED[room], f"{module} imports {name}"
        if top in PACKAGES and inside:
            assert room_of(module) in EDGE, f"{module} imports {name} inside a function"
        if package == "guided" and room_of(module) not in EDGE and name.startswith("guided."):
            assert room_of(name) not in EDGE, f"the core module {module} imports {name}"


def test_there_are_no_cycles_between_modules() -> None:
    graph = {
        module: {name for name, inside in imports_of(path) if name.split(".")[0] in PACKAGES and not inside}
        for module, path in modules()
    }
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module in done or module not in graph:
            return
        for other in sorted(graph[module]):
            if other != module:
                visit(other, (*way, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_importing_guided_loads_no_torch() -> None:
    code = "import sys, guided, grammars, special_tokens; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = ast.literal_eval(done.stdout)
    assert {"guided", "llguidance"} <= set(loaded)
    for heavy in ("torch", "transformers", "vllm", "ray", "typer", "rich"):
        assert heavy not in loaded


def test_importing_the_left_rooms_loads_no_engine() -> None:
    code = "import sys, grammars.compose.compose; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert not loaded & {"llguidance", "numpy", "torch", "transformers", "guided"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_in_all_exists_and_is_sorted_out(package: str) -> None:
    module = __import__(package)
    for name in getattr(module, "__all__", ()):
        assert name in ("Guide", "demo") or hasattr(module, name), f"{package}.{name}"
