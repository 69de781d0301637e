"""Docstrings name only what exists: each name in backticks stands in code, schemas or documents."""

import ast
import builtins
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.packaging.house import ROOT, Trees, functions, has_docstring, parse_modules

# Modules whose docstrings quote columns of data sets: only names with their path are checked.
QUOTING = (
    "ingot.agent.privacy.secrets",
    "ingot.agent.proposing.",
    "ingot.converters.recsys.ctr.draft.",
)
# What is named of other programs, and letters that stand for others.
FOREIGN = {
    *("BASE", "Executor", "HF_HOME", "TYPE", "_SUCCESS", "_999", "_1000"),
    *("inverted_cdf", "read_args"),
}
FOLDERS = ("agent", "converters", "ingot", "tests", "benchmarks")
NAME = re.compile(r"[A-Za-z_][\w./]*(?:\(\))?")
DATA = ("docs/*.md", "prompts/*.md", "schemas/**/*.json", "schemas/**/*.proto")


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield every docstring of a module."""
    for node in ast.walk(tree):
        if has_docstring(node):
            yield ast.get_docstring(node) or ""  # type: ignore[arg-type]


def words_of_code(tree: ast.Module) -> set[str]:
    """Return the words of all names and texts in a module, its docstrings and comments left out."""
    bare = ast.parse(ast.unparse(tree))
    for node in ast.walk(bare):
        if has_docstring(node):
            node.body[0] = ast.Pass()  # type: ignore[attr-defined]
    return {*re.findall(r"\w+", ast.unparse(bare))}


def gone_names(module: str, texts: Iterable[str], words: set[str], files: set[str]) -> list[str]:
    """Return the names in backticks of which a word, or the file, is not there any more."""
    quoted = (name for text in texts for name in re.findall(r"`([^`\n]+)`", text))
    return [
        name for name in quoted if NAME.fullmatch(name) and _is_gone(name, module, words, files)
    ]


def _is_gone(name: str, module: str, words: set[str], files: set[str]) -> bool:
    if name.endswith(".py"):
        return name.rpartition("/")[2] not in files
    if module.startswith(QUOTING) and not name.startswith("ingot."):
        return False
    return not {*re.findall(r"[A-Za-z_]\w*", name)} <= words


def known_words(trees: Trees) -> set[str]:
    """Return the words of the code, of what it is written in, and of what it documents."""
    words = {*dir(builtins), *sys.stdlib_module_names, *FOREIGN}
    for name, tree in trees.items():
        words |= {*name.split("."), *words_of_code(tree)}
    for pattern in DATA:
        for file in ROOT.glob(pattern):
            words |= {*re.findall(r"\w+", file.read_text("utf-8"))}
    return words


@pytest.mark.more
def test_docstrings_name_what_exists() -> None:
    trees = parse_modules()
    words = known_words(trees)
    files = {file.name for folder in FOLDERS for file in _files(folder)}
    gone = {name: gone_names(name, docstrings(tree), words, files) for name, tree in trees.items()}
    assert {name: found for name, found in gone.items() if found} == {}


def _files(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")


@pytest.mark.parametrize(
    ("module", "text", "gone"),
    [
        ("ingot.a", "Calls `gone_function()`.", ["gone_function()"]),
        ("ingot.a", "See `old.py` and `folder/new.py`.", ["old.py"]),
        ("ingot.a", "As `Reader.read` and `Reader.gone` say.", ["Reader.gone"]),
        ("ingot.a", "Data such as `--x y` and `{a}` are no names.", []),
        ("ingot.agent.proposing.a", "A column `answer_gpt`; `ingot.a.GONE`.", ["ingot.a.GONE"]),
    ],
)
def test_a_name_that_is_gone_is_found(module: str, text: str, gone: list[str]) -> None:
    tree = ast.parse(f'"""{text}"""\nclass Reader:\n    def read(self): return "ingot a"  # gone\n')
    assert gone_names(module, docstrings(tree), words_of_code(tree), {"new.py"}) == gone


SETTINGS = tomllib.loads(Path(__file__).with_name("docstrings.toml").read_text("utf-8"))
VERBS = {*SETTINGS["verbs"].split()}


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word is a verb; `Share of the rows` and its like are nouns."""
    words = docstring.split()
    return words[0] in VERBS and words[1:2] != ["of"]


def public_docstrings(trees: Trees) -> list[str]:
    """Return the docstrings of all functions and methods whose names do not begin with `_`."""
    return [
        ast.get_docstring(function) or "-"
        for tree in trees.values()
        for function in functions(tree)
        if not function.name.startswith("_") and has_docstring(function)
    ]


def test_most_docstrings_begin_with_a_verb() -> None:
    found = public_docstrings(parse_modules())
    share = sum(map(begins_with_verb, found)) / len(found)
    assert share >= SETTINGS["floor"], f"{share:.3f} of {len(found)} docstrings begin with a verb"


@pytest.mark.parametrize(
    ("docstring", "begins"),
    [
        ("Return the path.", True),
        ("Share the rows among processes.", True),
        ("Share of the rows.", False),
        ("Whether it is there.", False),
        ("The path.", False),
    ],
)
def test_a_noun_is_told_from_a_verb(docstring: str, begins: bool) -> None:
    assert begins_with_verb(docstring) is begins
