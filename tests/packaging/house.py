"""Measure the tree: the numbers that `tests/packaging/budget.toml` bounds.

`python -m tests.packaging.house` prints that file as the tree is today, in about a minute.
"""

import ast
import gc
import re
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.packaging.entered import entered_by_commands

ROOT = Path(__file__).resolve().parents[2]
BUDGET = Path(__file__).with_name("budget.toml")
FOLDERS = ("agent", "converters", "ingot/cli")
LOOSE_TYPES = {"Any", "Edit", "Json", "MappingDocument"}

Trees = Mapping[str, ast.Module]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def product_files() -> list[Path]:
    """Return every Python file of agent, converters and ingot; generated code is elsewhere."""
    files = sorted((ROOT / "ingot").glob("*.py"))
    for folder in FOLDERS:
        files += sorted((ROOT / folder).rglob("*.py"))
    return files


def modules() -> dict[str, Path]:
    """Return every product module by its dotted name, without empty `__init__`s."""
    return {dotted(file): file for file in product_files() if not is_plain_init(file)}


def dotted(file: Path) -> str:
    """Return the name under which a file is imported."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "ingot" else ("ingot", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_plain_init(file: Path) -> bool:
    """Return whether a file is an `__init__` that holds nothing but its docstring."""
    if file.name != "__init__.py":
        return False
    return all(isinstance(node, ast.Expr) for node in ast.parse(file.read_text("utf-8")).body)


def parse_file(file: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(file.read_text("utf-8"))


def parse_modules() -> dict[str, ast.Module]:
    """Return the trees of all modules: hundreds of megabytes, which no module of tests may keep."""
    gc.disable()  # its rounds would walk over all trees there are so far
    try:
        return {name: parse_file(file) for name, file in modules().items()}
    finally:
        gc.enable()


def has_docstring(node: ast.AST) -> bool:
    """Return whether a node is a module, class or function with a docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def count_statements(tree: ast.Module) -> int:
    """Count the statements of a module; docstrings are left out."""
    nodes = list(ast.walk(tree))
    return sum(isinstance(node, ast.stmt) for node in nodes) - sum(map(has_docstring, nodes))


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield every function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def loose_signatures(tree: ast.Module) -> list[str]:
    """Return the functions whose parameters or result are typed as JSON or as a mapping dict."""
    return [function.name for function in functions(tree) if _is_loose(function)]


def _is_loose(function: Function) -> bool:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = [one.annotation for one in every if one is not None and one.annotation]
    words = " ".join(ast.unparse(kind) for kind in [*types, function.returns] if kind is not None)
    return not LOOSE_TYPES.isdisjoint(re.findall(r"\w+", words))


def imports(trees: Trees) -> dict[str, set[str]]:
    """Return for every module the modules that it imports when it runs, also inside functions.

    Imports for type checkers are left out. A name that a package re-exports leads to its module.
    """
    exports = {name: _exports(tree) for name, tree in trees.items()}
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in _running_nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    found[name].add(_module_of(node.module, alias.name, trees, exports))
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
    return {name: (targets & trees.keys()) - {name} for name, targets in found.items()}


def _module_of(
    module: str, name: str, trees: Trees, exports: Mapping[str, Mapping[str, str]]
) -> str:
    inner = f"{module}.{name}"
    return inner if inner in trees else exports.get(module, {}).get(name, module)


def _exports(tree: ast.Module) -> dict[str, str]:
    """Return where the names come from that a module shows to type checkers."""
    return {
        alias.asname or alias.name: node.module
        for block in ast.walk(tree)
        if _is_for_type_checkers(block)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not _is_for_type_checkers(child):
            yield child
            yield from _running_nodes(child)


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or by way of others."""
    reach = {name: _reachable(name, edges) for name in edges}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
        for name in edges
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(name: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges.get(name, ()))
    while waiting:
        target = waiting.pop()
        if target not in seen:
            seen.add(target)
            waiting += edges.get(target, ())
    return seen


def measure_tree(trees: Trees) -> dict[str, Any]:
    """Return all numbers of the budget but those of running commands."""
    loose = [
        function
        for name, tree in trees.items()
        if name.startswith("ingot.agent")
        for function in loose_signatures(tree)
    ]
    return {
        "statements": sum(map(count_statements, trees.values())),
        "modules": len(trees),
        "signatures": len(loose),
        "circles": circles(imports(trees)),
    }


def read_budget() -> dict[str, Any]:
    """Return the budget."""
    return tomllib.loads(BUDGET.read_text("utf-8"))


def beyond(found: Mapping[str, int], most: Mapping[str, int]) -> dict[str, str]:
    """Return the numbers that are above their bound, or have none."""
    return {
        name: f"{number}, at most {most.get(name, 'nothing')}"
        for name, number in found.items()
        if number > most.get(name, -1)
    }


def new_circles(found: Iterable[list[str]], known: Iterable[list[str]]) -> list[list[str]]:
    """Return the circles that are not within one that is known."""
    return [circle for circle in found if not any({*circle} <= {*one} for one in known)]


def budget_text(tree: Mapping[str, Any], entered: Mapping[str, int]) -> str:
    """Return the budget that holds these numbers, below the comments of the one that is there."""
    comment = "".join(
        line for line in BUDGET.read_text("utf-8").splitlines(keepends=True) if line.startswith("#")
    )
    numbers = "".join(f"{name} = {tree[name]}\n" for name in ("statements", "modules"))
    rows = "".join(
        "  [\n" + "".join(f'    "{name}",\n' for name in circle) + "  ],\n"
        for circle in tree["circles"]
    )
    commands = "".join(f'"{name}" = {number}\n' for name, number in entered.items())
    return (
        f"{comment}\n[tree]\n{numbers}signatures = {tree['signatures']}\n"
        f"circles = [\n{rows}]\n\n[entered]\n{commands}"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(
            budget_text(measure_tree(parse_modules()), entered_by_commands(Path(folder)))
        )
