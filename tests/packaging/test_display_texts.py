"""Hold that no decision hangs on a text made for people: kinds are values, texts are shown."""

import ast
from collections.abc import Iterator

import pytest

from tests.packaging.house import modules

# Fields whose values are sentences; whether there is one at all may be asked.
TEXTS = {"why", "hint", "note", "fallback", "detail", "problem", "advice", "got"}
METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count"}
METHODS |= {"partition", "rpartition"}
SEARCHES = {"match", "fullmatch", "search", "findall", "finditer"}


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a field made for people, or such a field in other letters."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("lower", "casefold", "strip") and is_text(node.func.value)
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def is_empty(node: ast.expr) -> bool:
    """Whether an expression is the empty text or None."""
    return isinstance(node, ast.Constant) and node.value in ("", None)


def branches_on_texts(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that compare or search a field made for people."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_text, sides)) and not any(map(is_empty, sides)):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.func.attr in METHODS and is_text(node.func.value)
            if asked or (node.func.attr in SEARCHES and any(map(is_text, node.args))):
                yield node.lineno
        elif isinstance(node, ast.Match) and is_text(node.subject):
            yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        'if "shape" in one.why: pass',
        'gone = turn.fallback.startswith("the model")',
        "same = fault.hint == LOADING",
        'found = re.search("a .*", one.detail)',
        'low = "space" in error.hint.lower()',
        "match one.why:\n    case 'x': pass",
        'cut = "cut off" in problem.got',
        'group = one.why.partition(": ")[0]',
    ],
)
def test_a_branch_on_a_text_is_found(code: str) -> None:
    assert list(branches_on_texts(ast.parse(code))) == [1]


@pytest.mark.parametrize("code", ["if one.why: pass", 'empty = one.why == ""', "x = f'{one.why}'"])
def test_showing_a_text_is_free(code: str) -> None:
    assert not list(branches_on_texts(ast.parse(code)))


def test_no_branch_reads_a_text_made_for_people() -> None:
    found = [
        f"{name}:{line}"
        for name, file in modules().items()
        for line in branches_on_texts(ast.parse(file.read_text("utf-8")))
    ]
    assert not found
