"""The rules of the house, checked on every module: who may import whom, sizes of folders, names that exist once."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("special_tokens", "grammars", "guided")
EVERYTHING = (*PACKAGES, "tests", "benchmarks", "docs", "examples")
STDLIB = sys.stdlib_module_names

#: room -> what its modules may import apart from the standard library and their own package
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
    "guided": {"special_tokens", "grammars", "llguidance", "numpy", "typing_extensions"},
    "guided.hf": {"special_tokens", "grammars", "torch", "transformers", "numpy", "jinja2"}
    | {"tokenizers", "huggingface_hub", "typing_extensions"},
    "guided.embedded": {"special_tokens", "torch", "transformers"},
    "guided.cli": {"special_tokens", "grammars", "torch", "typer", "rich", "pydantic"},
    "guided.serve": {"special_tokens", "grammars", "torch", "starlette", "uvicorn", "prometheus_client"}
    | {"opentelemetry"},
    "guided.ray": {"special_tokens", "ray", "pydantic", "starlette", "prometheus_client"},
    "guided.vllm": {"special_tokens", "grammars", "vllm", "torch", "starlette"},
    "guided.validation": {"special_tokens", "grammars", "jsonschema", "jsonschema_specifications", "referencing"},
    "guided.output": {"special_tokens", "grammars", "typing_extensions"},
}

#: Rooms at the edge: they may import the rooms of guided that need torch; the core may not.
EDGE = {"guided.hf", "guided.embedded", "guided.cli", "guided.serve", "guided.ray", "guided.vllm"}

#: Packages whose ``__init__`` hands names on; all others hold a docstring only, so that no leaf drags a compiler along.
FACES = {"special_tokens", "guided", "guided.hf", "guided.cli"}

#: The one package file that holds a check: a foreign `special_tokens` would break each of its modules.
GUARDED = {"grammars"}

#: Modules in one folder, at most; package files do not count.
MAX_MODULES = 15

#: Lines of one module, at most: past about 400 it holds a second noun.
MAX_LINES = 430


@cache
def modules(folders: Sequence[str] = PACKAGES) -> Mapping[str, Path]:
    """Every module of the three packages, or of other folders, by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The names that a file imports: at its top, under ``TYPE_CHECKING`` and inside functions."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in known else module


@cache
def graph(folders: Sequence[str] = PACKAGES) -> Mapping[str, frozenset[str]]:
    """module -> the modules of ours that it imports."""
    known = modules(folders)
    return {
        module: frozenset(name for name in imports_of(path, known) if name in known) - {module}
        for module, path in known.items()
    }


def folder_of(module: str) -> str:
    """The room of a module for the graph of folders; modules in the root of a package are rooms of their own."""
    parent = module.rpartition(".")[0]
    if modules()[module].name == "__init__.py" or parent in FACES:
        return module
    return parent


def folder_graph() -> Mapping[str, set[str]]:
    """folder -> the folders that its modules import from."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for module, names in graph().items():
        for name in names:
            if folder_of(name) != folder_of(module):
                arrows[folder_of(module)].add(folder_of(name))
    return arrows


def circle_in(arrows: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A circle of the graph, or an empty tuple."""
    done: set[str] = set()

    def visit(node: str, way: tuple[str, ...]) -> tuple[str, ...]:
        if node in way:
            return (*way[way.index(node) :], node)
        if node not in done:
            for other in sorted(arrows.get(node, ())):
                if found := visit(other, (*way, node)):
                    return found
            done.add(node)
        return ()

    return next((found for node in sorted(arrows) if (found := visit(node, ()))), ())


def room_of(module: str) -> str:
    fitting = [room for room in ALLOWED if module == room or module.startswith(room + ".")]
    return max(fitting, key=len)


@pytest.mark.parametrize("module", modules())
def test_every_module_imports_only_what_its_room_may(module: str) -> None:
    room, package = room_of(module), module.split(".")[0]
    for name in imports_of(modules()[module], modules()):
        top = name.split(".")[0]
        assert top in STDLIB or top == package or top in ALLOWED[room], f"{module} imports {name}"
        if name in modules() and package == "guided" and room not in EDGE and module != "guided":
            assert room_of(name) not in EDGE, f"the core module {module} imports {name}"


def test_there_are_no_circles_between_modules() -> None:
    circle = circle_in(graph(EVERYTHING))
    assert not circle, " -> ".join(circle)


def test_there_are_no_circles_between_folders() -> None:
    assert not circle_in(folder_graph()), " -> ".join(circle_in(folder_graph()))


def test_a_circle_is_found() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ("b", "c", "b")
    assert circle_in({"a": {"b", "c"}, "b": {"c"}}) == ()


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_folder_is_a_crowd(package: str) -> None:
    files = subprocess.run(
        ["git", "ls-files", f"{package}/*.py"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.split() or [str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")]
    crowds = Counter(Path(file).parent.as_posix() for file in files if Path(file).name != "__init__.py")
    assert not {folder: number for folder, number in crowds.items() if number > MAX_MODULES}


def test_no_module_is_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in modules().items()}
    assert not {module: length for module, length in lengths.items() if length > MAX_LINES}


@pytest.mark.parametrize(
    "module", [m for m, path in modules().items() if path.name == "__init__.py" and m not in FACES | GUARDED]
)
def test_a_package_file_holds_a_docstring_only(module: str) -> None:
    body = tree_of(modules()[module]).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)


def _type_names(tree: ast.Module) -> Iterator[str]:
    """The public classes of a module, wherever they are, and its type aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id[:1].isupper() and not target.id.isupper():
            yield target.id


def test_no_public_type_name_exists_twice() -> None:
    """In tests and examples that nothing imports, names may repeat each other: they are types of a caller."""
    imported = set().union(*graph(EVERYTHING).values())
    places: dict[str, list[str]] = defaultdict(list)
    local: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(EVERYTHING).items():
        is_local = module.split(".")[0] in ("tests", "examples") and module not in imported
        for name in _type_names(tree_of(path)):
            if not name.startswith("_"):
                (local if is_local else places)[name].append(module)
    assert not {name: found for name, found in places.items() if len(found) > 1}
    assert not {name: (*places[name], *found) for name, found in local.items() if name in places}


def test_importing_guided_loads_no_torch() -> None:
    loaded = loaded_by("guided, grammars, special_tokens; guided.GuidanceState, guided.Parts, guided.Message")
    assert {"guided", "llguidance"} <= loaded
    assert not loaded & {"torch", "transformers", "vllm", "ray", "typer", "rich"}
    assert not loaded & {"guided.serve", "starlette", "uvicorn", "prometheus_client"}


def test_the_names_of_guided_are_imported_from_where_type_checkers_see_them() -> None:
    """The table that the run time reads, and the imports that type checkers and editors read."""
    import guided

    tree = ast.parse((ROOT / "guided" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        (node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {(module, name) for module, names in guided._HOMES.items() for name in names}
    assert {name for _, name in seen} <= set(guided.__all__) <= set(dir(guided))
    with pytest.raises(AttributeError, match="module 'guided' has no attribute 'nothing'"):
        _ = guided.nothing


def test_importing_guided_alone_loads_no_engine() -> None:
    loaded = loaded_by("guided.cli")
    assert not loaded & {"llguidance", "numpy", "lark", "jsonschema", "grammars.compose.compose"}


def test_importing_the_left_rooms_loads_no_engine() -> None:
    assert not loaded_by("grammars.compose.compose") & {"llguidance", "numpy", "torch", "transformers", "guided"}


def loaded_by(names: str) -> set[str]:
    """The modules that a fresh process has loaded after importing ``names``."""
    code = f"import sys, {names}; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(ast.literal_eval(done.stdout))


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "grammars"])
def test_every_name_in_all_exists(package: str) -> None:
    module = __import__(package)
    assert module.__all__
    for name in module.__all__:
        assert name in ("Guide", "demo") or hasattr(module, name), f"{package}.{name}"
