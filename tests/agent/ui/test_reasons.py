"""Every reason that the page shows has a Chinese form: texts of the modules against the table."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "agent"
STATIC = ROOT / "ui" / "static"
MODULES = [
    *(ROOT / "judging" / f"{name}.py" for name in ("policy", "sample_gates", "source_gates")),
    *(ROOT / "judging" / f"{name}.py" for name in ("model_gates", "model_only_choices")),
    *sorted((ROOT / "proposing" / "doubts").glob("*.py")),
]
_NAMES = {"answer key", "rated elements"}  # of doubts
_PATTERN = re.compile(r".*[\\^].*", re.DOTALL)  # a regular expression


def table() -> dict[str, str]:
    """The table of reasons.js, which is JSON."""
    text = (STATIC / "reasons.js").read_text("utf-8")
    start = text.index("REASONS = {") + len("REASONS = ")
    found: dict[str, str] = json.JSONDecoder().raw_decode(text[start:])[0]
    return found


def gate_names() -> set[str]:
    """The names of gates that words.js has in Chinese."""
    text = (STATIC / "words.js").read_text("utf-8")
    found = re.findall(r'(?:"([^"]+)"|(\w+)): "[^"]*[\u4e00-\u9fff]', text)
    return {quoted or bare for quoted, bare in found}


def reasons_of(module: Path) -> Iterator[str]:
    """The texts of several words that a module makes, with 7 for each of their figures."""
    nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
    other = {id(one.value) for one in nodes if isinstance(one, ast.Expr)}  # docstrings
    other |= {id(key) for one in nodes if isinstance(one, ast.Dict) for key in one.keys}
    other |= {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
    other |= {id(one.value) for one in nodes if isinstance(one, ast.FormattedValue)}
    for one in nodes:  # names of doubts
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Doubt":
            other.add(id(one.args[0]))
    for node in nodes:
        if id(node) in other or not isinstance(node, ast.JoinedStr | ast.Constant | ast.Call):
            continue
        text = "".join(map(text_of, node.values if isinstance(node, ast.JoinedStr) else [node]))
        if re.search("[a-z7] .*[a-z]|[a-z].* 7", text.strip()) and not _PATTERN.match(text):
            yield text.strip()


def text_of(node: ast.expr) -> str:
    """A part of a text: constants as they are, counts with their noun, 7 for other figures."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    made = node.value if isinstance(node, ast.FormattedValue) else node
    if isinstance(made, ast.Call) and ast.unparse(made.func) == "count_text":
        return f"7 {ast.literal_eval(made.args[1])}s"
    return "7" if isinstance(node, ast.FormattedValue) else ""


def is_told(text: str, patterns: list[re.Pattern[str]]) -> bool:
    return any(one.fullmatch(text) for one in patterns)


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.stem)
def test_every_reason_has_a_chinese_form(module: Path) -> None:
    patterns = [
        re.compile(".*?".join(map(re.escape, re.split(r"\{\d\}", one))), re.DOTALL)
        for one in table()
    ]
    names = gate_names() | _NAMES
    lacking = [
        text
        for text in reasons_of(module)
        if not any(re.fullmatch(text.replace("7", ".*"), one) for one in names)
        and not is_told(text, patterns)
        and not is_told(f"7 {text}", patterns)  # a reason that follows its figure
    ]
    assert lacking == []  # give them a Chinese form in reasons.js, or in words.js those of gates


def test_both_forms_have_the_same_places() -> None:
    found = table()
    assert len(found) > 150
    for english, chinese in found.items():
        places = re.findall(r"\{\d\}", english)
        assert places == sorted(places), english  # they are counted from the left
        wanted = {one for one in places if not re.search(rf"\w{re.escape(one)}(\W|$)", english)}
        assert wanted <= set(re.findall(r"\{\d\}", chinese)) <= set(places), english
        assert re.search("[\u4e00-\u9fff]", chinese), english
