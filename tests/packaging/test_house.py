"""The tree stays within its budget and its rules; each measure and rule is shown to fail."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.packaging import house
from tests.packaging.entered import entered_by_commands

BUDGET = house.read_budget()
MOST_LINES, MOST_MODULES = 450, 12
FLAT = {"agent": 4, "converters": 7}  # modules that stand beside the packages of a folder
# Words that say nothing of what a function does.
EMPTY_NAMES = {
    *("told", "said", "one", "made", "found", "kept", "given", "held", "beside", "turned"),
    *("plainly", "together", "laid", "late", "bare", "crossed", "lumped", "borrowed"),
}
# Modules of the converters that may name options of the command line: they read or explain them.
WITH_FLAGS = {"ingot.converters.output.sharding"}


@pytest.fixture(scope="module")
def trees() -> house.Trees:
    return house.parse_modules()


# The budget.


def test_the_tree_stays_within_its_budget(trees: house.Trees) -> None:
    found = house.measure_tree(trees)
    most = BUDGET["tree"]
    assert house.new_circles(found.pop("circles"), most["circles"]) == []
    assert house.beyond(found, most) == {}


@pytest.mark.more
def test_commands_enter_no_more_modules_than_budgeted(tmp_path: Path) -> None:
    assert house.beyond(entered_by_commands(tmp_path), BUDGET["entered"]) == {}


def test_a_number_above_its_bound_is_refused() -> None:
    assert house.beyond({"modules": 11, "statements": 5}, {"modules": 10, "statements": 5}) == {
        "modules": "11, at most 10"
    }
    assert house.beyond({"lines": 1}, {"modules": 10}) == {"lines": "1, at most nothing"}


def test_the_printed_budget_is_the_one_that_is_read() -> None:
    tree = {"statements": 2, "modules": 1, "signatures": 0, "circles": [["a", "b"]]}
    text = house.budget_text(tree, {"run --tokenizer": 3})
    assert text.startswith(house.BUDGET.read_text("utf-8").partition("\n[")[0])
    assert house.tomllib.loads(text) == {"tree": tree, "entered": {"run --tokenizer": 3}}


def test_statements_are_counted_however_they_are_written() -> None:
    text = '"""Doc."""\n\ndef f(a):\n    """Doc."""\n    b = a\n    return b\n'
    assert house.count_statements(ast.parse(text)) == 3
    assert house.count_statements(ast.parse("def f(a): b = a; return b")) == 3


@pytest.mark.parametrize(
    ("signature", "loose"),
    [
        ("def f(a: Json) -> None: ...", True),
        ("def f(*, a: Mapping[str, Any]) -> None: ...", True),
        ("def f(**named: Any) -> None: ...", True),
        ("async def f() -> list[MappingDocument]: ...", True),
        ("class A:\n    def f(self, edit: 'Edit') -> None: ...", True),
        ("def f(a: str) -> Mapping: ...", False),
        ("def f(a: JsonPath, b) -> EditKind: ...", False),
    ],
)
def test_signatures_with_mapping_dicts_are_counted(signature: str, loose: bool) -> None:
    assert house.loose_signatures(ast.parse(signature)) == ["f"] * loose


LAZY = "if TYPE_CHECKING:\n    from p.b import Name\n"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"p.a": "import p.b", "p.b": "def f():\n    from p.a import x"}, [["p.a", "p.b"]]),
        ({"p.a": "from p import b", "p.b": "from p import c", "p.c": "import p.a"}, [[*"abc"]]),
        ({"p": LAZY, "p.a": "from p import Name", "p.b": "import p.a"}, [["p.a", "p.b"]]),
        ({"p.a": "import p.b", "p.b": "if TYPE_CHECKING:\n    import p.a"}, []),
        ({"p.a": "import p.b", "p.b": "import json"}, []),
    ],
)
def test_circles_of_modules_are_found(texts: Mapping[str, str], found: list[list[str]]) -> None:
    trees = {name: ast.parse(text) for name, text in texts.items()}
    wanted = [[name if "." in name else f"p.{name}" for name in circle] for circle in found]
    assert house.circles(house.imports(trees)) == wanted
    assert house.new_circles(wanted, [["p.a", "p.b", "p.z"]]) == [
        circle for circle in wanted if "p.c" in circle
    ]


# The rules.


def empty_names(tree: ast.Module) -> list[str]:
    """Return the functions that are called by a word that says nothing of what they do."""
    names = (function.name for function in house.functions(tree))
    return [name for name in names if name.strip("_") in EMPTY_NAMES]


def flags(tree: ast.Module) -> list[str]:
    """Return the texts, docstrings left out, that name an option of a command or a command."""
    return [
        text
        for text in _texts(tree)
        if re.search(r"(?<![\w/-])--[a-z]|\bingot (run|convert|tokens|ctr)\b", text)
    ]


def _texts(tree: ast.Module) -> Iterator[str]:
    docstrings = {
        id(child.value)
        for node in ast.walk(tree)
        if house.has_docstring(node)
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def too_long(lines: Mapping[str, int]) -> list[str]:
    """Return the modules with too many lines."""
    return [name for name, number in lines.items() if number > MOST_LINES]


def too_full(names: Iterable[str]) -> list[str]:
    """Return the packages below the top level with too many modules."""
    sizes = Counter(name.rpartition(".")[0] for name in names)
    return [name for name, size in sizes.items() if size > MOST_MODULES and name.count(".") > 1]


def flat_modules(folder: Path) -> list[str]:
    """Return the modules that stand in a folder beside its packages."""
    return sorted(file.name for file in folder.glob("*.py") if file.name != "__init__.py")


def test_functions_have_names_that_say_what_they_do(trees: house.Trees) -> None:
    assert {name: found for name, tree in trees.items() if (found := empty_names(tree))} == {}


def test_few_modules_of_the_converters_name_options(trees: house.Trees) -> None:
    named = {
        name
        for name, tree in trees.items()
        # Exports name the options of the trainers that read them.
        if name.startswith("ingot.converters.") and ".export." not in name and flags(tree)
    }
    assert named <= WITH_FLAGS


def test_modules_have_few_lines() -> None:
    files = house.modules()
    assert (
        too_long({name: len(file.read_text("utf-8").splitlines()) for name, file in files.items()})
        == []
    )


def test_packages_have_few_modules() -> None:
    assert too_full(name for name, file in house.modules().items() if file.stem != "__init__") == []


@pytest.mark.parametrize("folder", FLAT)
def test_few_modules_stand_beside_packages(folder: str) -> None:
    assert len(flat_modules(house.ROOT / folder)) <= FLAT[folder]


def test_an_empty_name_of_a_function_is_found() -> None:
    text = "def told(): ...\nclass A:\n    async def _one(self): ...\ndef tell(): ...\n"
    assert empty_names(ast.parse(text)) == ["told", "_one"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise E('give `--shard`')", ["give `--shard`"]),
        ("HINT = 'see ingot convert'", ["see ingot convert"]),
        ('def f():\n    """Read `--shard`."""', []),
        ("RULER = '-----'\nNAME = 'x--y'", []),
    ],
)
def test_a_named_option_is_found(text: str, found: list[str]) -> None:
    assert flags(ast.parse(text)) == found


def test_a_module_that_is_too_long_and_a_package_that_is_too_full_are_found() -> None:
    assert too_long({"a": MOST_LINES, "b": MOST_LINES + 1}) == ["b"]
    names = [f"ingot.agent.{place}.m{n}" for n in range(MOST_MODULES) for place in ("a", "b")]
    assert too_full([*names, "ingot.agent.b.more"]) == ["ingot.agent.b"]


def test_a_module_beside_packages_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("__init__.py", "loose.py", "inner/module.py"):
        (tmp_path / name).touch()
    assert flat_modules(tmp_path) == ["loose.py"]
