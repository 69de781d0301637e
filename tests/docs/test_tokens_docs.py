"""docs/conformance.md: its options are those of the command, and every test it names exists."""

import re
from collections.abc import Iterator
from pathlib import Path

from ingot.cli.app import TOKENS

TESTS = Path(__file__).resolve().parents[1]
TEXT = (TESTS.parent / "docs/conformance.md").read_text(encoding="utf-8")
# Section 8 of the specification.
SECTION_8 = """
    input-dir pattern output-prefix text-cols recursive doc-boundary concat-sep tokenizer batch-size
    workers queue-cap dtype min-chars max-chars min-tokens max-tokens bos-id eos-id
    add-special-tokens keep-order resume fail-fast tmp-dir log-level progress metrics-exporter
    metrics-interval special-tokens-json strict-special-ids tok-parallel batch-shards
    rowgroup-parallel
"""


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table under a heading."""
    part = TEXT.split(f"### {heading}\n")[1].split("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def spelled(default: object, *, required: bool) -> str:
    """A default as the table begins its cell."""
    if required:
        return "required"
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    if default == "\n":
        return "a line break"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def test_every_option_of_the_document_is_there_with_its_default():
    shown = {
        cells[0].partition(",")[0].strip("`"): cells[1] for cells in rows("Options of section 8")
    }
    assert set(shown) == {f"--{name}" for name in SECTION_8.split()}
    command = TOKENS["build"].load("parquet2mbt")
    options = {param.opts[0]: param for param in command.params}
    for name, default in shown.items():
        value = options[name].default
        value = getattr(value, "value", value)
        words = getattr(options[name], "show_default", None)
        known = spelled(value, required=options[name].required)
        assert default.partition(":")[0].strip("`") in (words, known.strip("`")), name


def test_every_row_names_a_test_and_every_test_exists():
    functions: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        found = re.findall(r"^\s*def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.M)
        functions.setdefault(path.stem, set()).update(found)
    named = re.findall(r"`(test_\w+)::(test_\w+)`", TEXT)
    assert len(named) > 80
    missing = [f"{f}::{test}" for f, test in named if test not in functions.get(f, ())]
    assert missing == []
    for heading in ("Options of section 8", "Sections 3 to 12"):
        assert [cells for cells in rows(heading) if "::test_" not in cells[-1]] == []


def test_the_sections_of_the_specification_are_all_there():
    sections = [int(cells[0]) for cells in rows("Sections 3 to 12")]
    assert sections == sorted(sections)
    assert set(sections) == set(range(3, 13)) - {8}
