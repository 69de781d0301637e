"""docs/lake.md and the lake of examples/: what is said there is so."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot.agent.lake.lake_order import CORPUS, SETS
from ingot.cli.app import app
from ingot.cli.lake.review import _CHOICES
from ingot.converters.lake.catalog import SCHEMA, STATUSES
from ingot.converters.lake.survey import data_set_name, is_card, set_folder
from ingot.converters.output.sharding import LAKE_FOLDER as FOLDER
from ingot.converters.sources.storage.listing import Entry, LocalFile

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/lake"
TEXT = (ROOT / "docs/lake.md").read_text(encoding="utf-8")
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


def part(heading: str) -> str:
    """The text under a heading, up to the next."""
    return re.split(rf"^#+ {re.escape(heading)}\n", TEXT, flags=re.M)[1].split("\n#")[0]


def table(text: str) -> list[list[str]]:
    """The cells of the one table in a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_statuses_are_those_of_the_code() -> None:
    rows = table(part("Status of a data set"))
    assert {cells[0].strip("`"): cells[1] for cells in rows} == STATUSES


def test_columns_of_the_catalog() -> None:
    told = [
        name for cells in table(part("The catalog")) for name in re.findall("`(.*?)`", cells[0])
    ]
    assert sorted(told) == sorted(SCHEMA.names)


def test_folders_are_those_of_the_code() -> None:
    shown = part("The folder")
    for name in (f"{SETS}/NAME/", f"{CORPUS}/SPLIT/NAME/", f"{FOLDER}/", "catalog.parquet"):
        assert f"DIR/{name} " in shown


def test_parts_of_a_data_set_are_told_as_they_are() -> None:
    told = " ".join(part("How files become data sets").split("2. ")[0].split())
    alone, below = told.split("So are folders with less clear names")
    parts = re.findall("`(.*?)`", alone.split("Partition folders")[1])
    assert len(parts) == 7
    for name in parts:
        assert set_folder(f"forum/{name}/a.jsonl", frozenset()) == "forum"
        assert set_folder(f"{name}/a.jsonl", frozenset()) == "."
    for name in re.findall("`(.*?)`", below.split("but not directly")[0]):
        assert set_folder(f"forum/{name}/a.jsonl", frozenset()) == "forum"
        assert set_folder(f"{name}/a.jsonl", frozenset()) == name
    assert data_set_name("web", "forum") == "web--forum"


def test_cards_are_told_as_they_are() -> None:
    told = re.findall(r"`([\w.*]+)`", part("Cards"))[:4]
    assert len(told) == 4
    for name in (one.replace("*", "json") for one in [*told, "README.md"]):
        assert is_card(Entry(name=name, place=LocalFile(name), bytes=1))


def test_choices_of_a_review() -> None:
    told = re.findall(r"`(\w)`\s", part("Review").partition("Then it asks:")[2])
    assert told == list(_CHOICES)


# --- the example


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The lake of the example after the commands of its README, and what the runs reported."""
    root = tmp_path_factory.mktemp("example")
    (root / "examples").symlink_to(ROOT / "examples")
    first, review, second = re.findall(r"^    (ingot lake .*)$", README, flags=re.M)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("INGOT_HOME", str(root / "home"))
        before = run(first)
        shutil.copytree(root / "lake", root / "before")
        run(f"{review} --approve notebook")
        after = run(second)
    return root, before, after


def run(command: str) -> Any:
    done = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def by_name(report: Any) -> dict[str, Any]:
    return {one["name"]: one for one in report["sets"]}


@pytest.mark.more
def test_what_becomes_of_the_example(example: Any) -> None:
    _, before, _ = example
    told = {cells[0].strip("`"): cells[2] for cells in table(README)}
    found = by_name(before)
    assert sorted(told) == sorted(found)
    for name, said in told.items():
        kind = re.match(r"`?(\w+)", said)
        assert kind
        status, decision = found[name]["status"], found[name]["decision"]
        assert kind[1] in (status, decision, {"waiting": "waits"}.get(status))
    assert found["diary"]["rows"] == {}
    assert "ingot criteo preprocess" in found["clicks"]["hint"]
    assert (before["rows"]["read"], before["rows"]["converted"]) == (55, 52)
    assert before["records"]["written"] == 52
    assert found["kitchen"]["card"]["license"] == "cc0-1.0"
    assert (found["helpdesk_old"]["across"], found["helpdesk"]["across"]) == (3, 0)
    assert found["helpdesk_old"]["overlaps"] == {"helpdesk": 3}


def test_only_what_was_approved_is_done_again(example: Any) -> None:
    root, _, after = example
    assert [one for one in after["worked"] if one != "diary"] == ["notebook"]
    assert by_name(after)["notebook"]["status"] == "converted"
    for name in ("kitchen", "folktales", "letters", "helpdesk"):
        for file in (root / "before" / SETS / name).rglob("*"):
            if file.is_file():
                now = root / "lake" / file.relative_to(root / "before")
                assert now.read_bytes() == file.read_bytes()


def test_what_training_reads(example: Any) -> None:
    root, _, after = example
    parts = [
        pq.read_table(one) for one in sorted((root / "lake" / CORPUS).glob("*/*/records/*.parquet"))
    ]
    assert sum(one.num_rows for one in parts) == 52 + 10 - 3
    splits = [one for each in after["sets"] for one in each["splits"]]
    assert {one["name"] for one in splits} == {"train", "valid"}
    assert sum(one["records"] for one in splits) == 52 + 10 - 3
    assert sum(one["duplicates"] for one in splits) == 3


def test_what_a_readme_orders_is_not_done(example: Any) -> None:
    root, before, _ = example
    waits = by_name(before)["notebook"]
    assert waits["status"] == "waiting"
    mapping = json.loads((root / "lake" / "mappings" / "notebook.json").read_text())
    assert "AcmeCoin" not in json.dumps(mapping)
    assert "messages" not in mapping


def test_the_catalog_of_the_example(example: Any) -> None:
    root, _, after = example
    rows = pq.read_table(root / "lake" / "catalog.parquet").to_pylist()
    assert [one["name"] for one in rows] == sorted(by_name(after))
    assert sum((one["rows"] or {}).get("read", 0) for one in rows) == after["rows"]["read"]
    assert (root / "lake" / "index.html").stat().st_size > 10_000
