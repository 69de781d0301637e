"""Hold that no decision hangs on a text made for people: kinds are values, texts are shown."""

import ast
from collections.abc import Iterator

import pytest

from tests.packaging.house import modules

# Fields and variables that hold sentences; whether there is one at all may be asked.
TEXTS = {"why", "hint", "note", "fallback", "detail", "problem", "advice", "got", "how"}
TEXTS |= {"form_text", "end_text"}
# Where a word of these is the name of a value: how an answer refers to an option (`key`, `place0`).
VALUES = {"how": "ingot.agent.proposing."}
METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count"}
METHODS |= {"partition", "rpartition"}
SEARCHES = {"match", "fullmatch", "search", "findall", "finditer"}


def text_name(node: ast.expr) -> str:
    """Return the name of a field or variable made for people, "" of others."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        same = node.func.attr in ("lower", "casefold", "strip")  # the text in other letters
        return text_name(node.func.value) if same else ""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name if name in TEXTS else ""


def is_empty(node: ast.expr) -> bool:
    """Whether an expression is the empty text or None."""
    return isinstance(node, ast.Constant) and node.value in ("", None)


def asked_texts(node: ast.AST) -> list[ast.expr]:
    """Return what a node compares or searches."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return [] if any(map(is_empty, sides)) else sides
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        asked = [node.func.value] if node.func.attr in METHODS else []
        return [*asked, *(node.args if node.func.attr in SEARCHES else [])]
    return [node.subject] if isinstance(node, ast.Match) else []


def branches_on_texts(tree: ast.Module, module: str = "") -> Iterator[int]:
    """Yield the lines that compare or search a text made for people."""
    for node in ast.walk(tree):
        names = set(map(text_name, asked_texts(node))) - {""}
        if any(not module.startswith(VALUES.get(name, "no module")) for name in names):
            yield node.lineno  # type: ignore[attr-defined]


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
        # Decisions that stood in the tree, and those of variables.
        'if problem and ("comes" in problem or not elements): pass',
        'flags = re.findall("--[a-z]+", problem)[:1]',
        "is_data = why == DANGLING_LINK and suffix",
        r'shown = hint if "\n" in hint else why',
        'cause = death.how.removeprefix("ended by ")',
        'if how.startswith("place"): pass',
        "advice_for = [text for kind, text in rows if re.search(kind, file.form_text)]",
        'page = file.form_text == "an HTML page"',
        "found = KIND.fullmatch(why)",
        "match hint:\n    case 'x': pass",
        'low = "space" in problem.casefold()',
    ],
)
def test_a_branch_on_a_text_is_found(code: str) -> None:
    assert list(branches_on_texts(ast.parse(code))) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "if one.why: pass",
        'empty = one.why == ""',
        "x = f'{one.why}'",
        "if why and not hint: pass",
        "missing = problem is None",
        "shown = shorten(why.strip())",
        'line = one.why.split("\\n")[0]',
        "kind = verdict.kind == 'hidden'",
        "told = [problem for problem in problems if problem.code in CODES]",
    ],
)
def test_showing_a_text_is_free(code: str) -> None:
    assert not list(branches_on_texts(ast.parse(code)))


def test_a_value_may_have_the_name_of_a_text_where_it_is_listed() -> None:
    code = ast.parse('if cast.how == "key" and one.why == "x": pass\nif cast.how == "key": pass')
    assert list(branches_on_texts(code, "ingot.agent.proposing.rules")) == [1]
    assert sorted(branches_on_texts(code, "ingot.agent.chat")) == [1, 1, 2]


def test_no_branch_reads_a_text_made_for_people() -> None:
    found = [
        f"{name}:{line}"
        for name, file in modules().items()
        for line in branches_on_texts(ast.parse(file.read_text("utf-8")), name)
    ]
    assert not found
