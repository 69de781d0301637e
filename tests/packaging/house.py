"""Measure the tree: the numbers that `tests/packaging/ratchet.json` holds and that only go down.

`python tests/packaging/house.py` prints them; `--write` writes those that went down.
"""

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RATCHET = Path(__file__).with_name("ratchet.json")
FOLDERS = ("agent", "converters", "ingot/cli")

BANNED = {
    *("told", "said", "one", "made", "found", "kept", "given", "held", "beside", "turned"),
    *("plainly", "together", "laid", "late", "bare", "crossed", "lumped", "borrowed"),
}
# Counts of a result that users read, and words that are nouns or adjectives of the field.
ALLOWED = {"converted", "rejected", "filtered"}
# The same word for like things: each target or trainer has its own.
LIKE = {"contract", "kernels", "settings", "job", "page", "options", "figures", "inputs", "build"}
LEAST_LINES, MOST_LINES = 60, 450
LEAST_MODULES, MOST_MODULES = 3, 12


def modules() -> dict[str, Path]:
    """Every product module by its dotted name; without generated ones and empty `__init__`s."""
    files = [
        ROOT / "ingot" / name for name in sorted(p.name for p in (ROOT / "ingot").glob("*.py"))
    ]
    for folder in FOLDERS:
        files += sorted((ROOT / folder).rglob("*.py"))
    return {dotted(file): file for file in files if not is_plain_init(file)}


def dotted(file: Path) -> str:
    """The name under which a file is imported."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "ingot" else ("ingot", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_plain_init(file: Path) -> bool:
    """Whether a file is an `__init__` that holds nothing but its docstring."""
    if file.name != "__init__.py":
        return False
    return all(isinstance(node, ast.Expr) for node in ast.parse(file.read_text("utf-8")).body)


def product_lines() -> int:
    """Lines of all product files, generated code left out."""
    files = {*modules().values()}
    for folder in FOLDERS:
        files |= set((ROOT / folder).rglob("*.py"))
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """For every module the product modules that it imports, also inside functions."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                inner = full & trees.keys()
                outer = {node.module} & trees.keys() if full - inner else set()
                found[name] |= (inner | outer) - {name}
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & trees.keys()
    return found


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_badly_named(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is called by a word that says nothing of what it does."""
    return function.name.strip("_") in BANNED - ALLOWED


def has_flags(tree: ast.Module) -> bool:
    """Whether a text of a module names an option of the command line or a command."""
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return any(re.search(r"(?<![\w-])--[a-z]|\bingot (run|convert|tokens|ctr)\b", t) for t in texts)


def package_sizes(names: set[str]) -> dict[str, int]:
    """How many modules every package below the top level has."""
    sizes = Counter(name.rpartition(".")[0] for name in names)
    return {package: size for package, size in sizes.items() if package.count(".") > 1}


def measure() -> dict[str, int]:
    """All numbers of the ratchet."""
    files = modules()
    trees = {name: ast.parse(file.read_text("utf-8")) for name, file in files.items()}
    lengths = {name: len(file.read_text("utf-8").splitlines()) for name, file in files.items()}
    importers = Counter(target for targets in imports(trees).values() for target in targets)
    plain = {name for name, file in files.items() if file.name != "__init__.py"}
    sizes = package_sizes(plain)
    names = Counter(name.rpartition(".")[2] for name in plain)
    uses_json = [n for n, tree in trees.items() if re.search(r"\bJson\b", ast.unparse(tree))]
    return {
        "lines": product_lines(),
        "modules": len(files),
        "modules with one importer": sum(importers[name] == 1 for name in plain),
        "modules under 60 lines": sum(lengths[name] < LEAST_LINES for name in plain),
        "modules over 450 lines": sum(lengths[name] > MOST_LINES for name in plain),
        "packages under 3 modules": sum(size < LEAST_MODULES for size in sizes.values()),
        "packages over 12 modules": sum(size > MOST_MODULES for size in sizes.values()),
        "module names that occur twice": sum(n > 1 for k, n in names.items() if k not in LIKE),
        "functions with a name that says nothing": sum(
            is_badly_named(function) for tree in trees.values() for function in functions(tree)
        ),
        "modules of the agent that use Json": sum(n.startswith("ingot.agent") for n in uses_json),
        "modules of the converters that use Json": sum(
            n.startswith("ingot.converters") for n in uses_json
        ),
        "modules of the converters that name flags": sum(
            has_flags(tree) for name, tree in trees.items() if name.startswith("ingot.converters")
        ),
    }


def main() -> None:
    """Print the numbers, or write them."""
    numbers = measure()
    if "--write" in sys.argv[1:]:
        RATCHET.write_text(json.dumps(numbers, indent=2) + "\n", "utf-8")
    sys.stdout.write(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
