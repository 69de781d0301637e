"""docs/ctr.md: its tables are the rules, the schema, the code; every test it names exists."""

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.json_yaml import schema
from ingot.converters.recsys.ctr import build_dataloader
from ingot.converters.recsys.ctr.contract import METADATA_KEY, Profile, processed_schema
from ingot.converters.recsys.ctr.featuremap import load, parse
from ingot.converters.recsys.ctr.validation.findings import NOT_CHECKED, RULES
from ingot.converters.recsys.training.loader import ReadingOptions
from tests.converters.recsys.ctr.planting import violations
from tests.converters.recsys.ctr.right import make

TESTS = Path(__file__).resolve().parents[1]
TEXT = (TESTS.parent / "docs/ctr.md").read_text(encoding="utf-8")
CONFORMANCE = (TESTS.parent / "docs/conformance.md").read_text(encoding="utf-8")


def part(heading: str, text: str = TEXT) -> str:
    """The text under a heading, up to the next."""
    return re.split(rf"^#+ {re.escape(heading)}\n", text, flags=re.M)[1].split("\n#")[0]


def rows(heading: str, text: str = TEXT) -> Iterator[list[str]]:
    """The cells of the first table under a heading."""
    lines = part(heading, text).split("\n|", 1)[1].split("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_rules_are_those_that_are_checked():
    shown = [(number, wants) for number, wants in rows("The rules")]
    known = [(f"{one.number}{'*' * one.decided}", one.wants) for one in RULES]
    assert shown == known


def test_every_rule_is_shown_with_its_planted_violations():
    planted = Counter(one.rule for one in violations())
    shown = dict(rows("CTR data sets: violations that `validate` must find", CONFORMANCE))
    assert set(shown) == {one.number for one in RULES}
    for number, said in shown.items():
        assert len(said.split("; ")) == planted[number], number


def test_what_files_cannot_show_is_said():
    said = re.findall(r"^- (.*?)[,.]$", part("What files cannot show"), flags=re.M)
    assert [one.replace("`", "") for one in said] == list(NOT_CHECKED)


def test_every_test_that_is_named_exists():
    functions: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        found = re.findall(r"^\s*def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.M)
        functions.setdefault(path.stem, set()).update(found)
    named = re.findall(r"`(test_\w+)::(test_\w+)`", CONFORMANCE)
    assert len(named) > 25
    assert [f"{f}::{one}" for f, one in named if one not in functions.get(f, ())] == []
    beyond = rows("CTR data sets: statements that `validate` cannot check", CONFORMANCE)
    assert [cells for cells in beyond if "::test_" not in cells[-1]] == []


def keys(heading: str) -> dict[str, str]:
    return {cells[0].strip("`"): cells[1] for cells in rows(heading)}


def spelled(name: str, told: dict[str, Any], required: list[str]) -> str:
    """A default as the table begins its cell."""
    if name in required:
        return "required"
    default = told.get("default")
    if "default" not in told or default is None:
        return "none"
    text = default if isinstance(default, str) else json.dumps(default)
    return f"`{text}`"


FEATUREMAP = schema("featuremap")
OBJECTS = {
    "Keys of the featuremap": FEATUREMAP,
    "Keys of a feature": FEATUREMAP["$defs"]["feature"],
    "Keys of token_select": FEATUREMAP["$defs"]["token_select"],
    "Keys of table": FEATUREMAP["properties"]["table"],
}


@pytest.mark.parametrize("heading", OBJECTS)
def test_every_key_of_the_featuremap_stands_with_its_default(heading):
    shown, known = keys(heading), OBJECTS[heading]
    assert set(shown) == set(known["properties"])
    for name, told in known["properties"].items():
        if name == "token_select":
            continue  # refers to a table of its own
        wanted = spelled(name, told, known.get("required", []))
        assert shown[name].partition(": ")[0] == wanted, name


def test_the_featuremap_that_is_shown_is_one():
    (shown,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    bundled = {one.name: one for one in load("aliccp").features}
    for one in parse(shown, "docs/ctr.md").features:
        assert one == bundled[one.name]


def test_the_profile_that_is_shown_is_the_default():
    (shown,) = re.findall(r"^    (\{\"click_mask.*\})$", TEXT, flags=re.M)
    written = processed_schema(load("aliccp")).metadata[METADATA_KEY]
    assert shown == written.decode()
    assert Profile(**json.loads(shown)) == Profile()


def test_every_argument_of_the_loader_is_there():
    shown = {name for cells in rows("The DataLoader") for name in re.findall(r"`(\w+)`", cells[0])}
    assert shown == {
        *inspect.signature(build_dataloader).parameters,
        *ReadingOptions.__annotations__,
    } - {"reading"}


def test_every_key_of_stats_json_is_named(tmp_path):
    """Of those that the rules compare; what only the build can count is in its own tests."""
    root = make(tmp_path / "out")
    told = json.loads((root / "stats.json").read_bytes())
    split, vocab = told["splits"]["train"], told["vocab"]["f0_1"]
    named = set(re.findall(r"`(\w+)`", part("stats.json")))
    wanted = {*told, *told["rows"], *split, *split["features"]["f0_1"], *vocab}
    assert wanted <= named
    from ingot.converters.recsys.ctr.preprocess.encoder import TOKENS

    assert set(TOKENS) <= named


def test_the_python_that_is_shown_compiles():
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        compile(block, "docs/ctr.md", "exec")
