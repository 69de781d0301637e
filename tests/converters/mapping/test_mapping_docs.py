"""docs/mapping.md is the reference of the language: every example on the page is run here."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ingot.converters import json_yaml
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.rows.executor import REASONS, RowExecutor
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.rows import Batch
from ingot.converters.sources import SourceSpec, open_source

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mapping.md"
BLOCK = re.compile(r"^```\w+ (mapping|rows|records|rejects|file [^\n]+)\n(.*?)^```$", re.M | re.S)


class Example(NamedTuple):
    mapping: dict[str, Any]
    rows: list[Any]
    files: dict[str, str]
    records: list[Any]
    rejects: list[Any]


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def examples() -> Iterator[Example]:
    blocks: dict[str, str] = {}
    for kind, text in [*BLOCK.findall(PAGE.read_text(encoding="utf-8")), ("mapping", "")]:
        if kind == "mapping" and blocks:
            yield Example(
                json.loads(blocks["mapping"]),
                lines(blocks.get("rows", "")),
                {
                    name.removeprefix("file "): text
                    for name, text in blocks.items()
                    if name.startswith("file ")
                },
                lines(blocks["records"]),
                lines(blocks.get("rejects", "")),
            )
            blocks = {}
        blocks[kind] = text


EXAMPLES = list(examples())


def short(record: dict[str, Any]) -> dict[str, Any]:
    """A record as the page shows it: no nulls, no defaults, messages as lists."""
    shown = {key: value for key, value in record.items() if value is not None}
    if "messages" in shown:
        shown["messages"] = [
            [m["role"], m["content"]]
            + [m["loss_mask"]] * (m["loss_mask"] is not (m["role"] == "assistant"))
            for m in record["messages"]
        ]
    meta = {
        k: v for k, v in record["meta"].items() if v is not None and (k, v) != ("source", "rows")
    }
    return {**{k: v for k, v in shown.items() if k != "meta"}, **({"meta": meta} if meta else {})}


def batches(example: Example, folder: Path) -> list[Batch]:
    """The rows of an example; those of its files are read as its mapping says."""
    if not example.files:
        return [Batch(file="rows.jsonl", rows=range(len(example.rows)), values=example.rows)]
    for told, text in example.files.items():
        name, _, encoding = told.partition(" ")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(encoding or "utf-8"))
        if path.suffix == ".db":
            path.unlink()
            with closing(sqlite3.connect(path)) as base:
                base.executescript(text)
    spec = SourceSpec.from_document(example.mapping.get("source"))
    return list(open_source(str(folder), spec).batches())


def run(document: dict[str, Any], read: list[Batch]) -> tuple[list[Any], list[Any], int]:
    mapping = bind(document, [value for batch in read for value in batch.values])
    unifier = RowExecutor(mapping, source_name="rows")
    done = [unifier.batch(b) for b in (group_rows(read, mapping.group) if mapping.group else read)]
    rejects = [
        {k: v for k in ("row", "reason", "path", "found") if (v := getattr(reject, k)) is not None}
        for one in done
        for reject in one.rejects
    ]
    counted = sum(one.converted + one.rejected + one.filtered for one in done)
    return [short(record) for one in done for record in one.records], rejects, counted


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 22


def test_every_construct_has_an_example() -> None:
    said = "\n".join(json.dumps(example.mapping) for example in EXAMPLES)
    keys = set(re.findall(r'"(\w+)":', said))
    schema = json_yaml.schema("mapping")
    parts = [schema, *schema["$defs"].values()]
    named = {key for part in parts for key in part.get("properties", {})}
    assert named - keys - {"provenance"} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: json.dumps(e.mapping)[:60])
def test_example(example: Example, tmp_path: Path) -> None:
    read = batches(example, tmp_path)
    records, rejects, counted = run(example.mapping, read)
    assert records == example.records
    assert rejects == example.rejects
    assert counted == sum(len(batch.values) for batch in read)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: json.dumps(e.mapping)[:60])
def test_saved_as_version_2_it_means_the_same(example: Example, tmp_path: Path) -> None:
    read = batches(example, tmp_path)
    document = to_document(bind(example.mapping, [v for batch in read for v in batch.values]))
    assert document["version"] == 2
    assert to_document(bind(document)) == document
    assert run(document, read)[0] == example.records


def test_every_reject_reason_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [reason for reason in REASONS if f"`{reason}`" not in page] == []


def test_unify_fixture_counts(unify: Callable[..., Any]) -> None:
    done = unify({"version": 2, "each": "p[*]", "text": "t"}, [{"p": [{"t": "x"}, {"t": ""}]}, {}])
    assert (done.converted, done.rejected, done.filtered) == (1, 1, 0)
    assert [(r.row, r.element, r.reason, r.rows) for r in done.rejects] == [
        (0, 1, "empty_text", 0),
        (1, None, "empty_text", 1),
    ]
