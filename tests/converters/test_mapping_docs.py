"""docs/mapping.md is the reference of the language: every example on the page is run here."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ingot.converters.group import grouped
from ingot.converters.mapping import bind, to_document
from ingot.converters.rows import Batch
from ingot.converters.unify import REASONS, Unifier

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mapping.md"
BLOCK = re.compile(r"^```jsonl? (mapping|rows|records|rejects)\n(.*?)^```$", re.M | re.S)


class Example(NamedTuple):
    mapping: dict[str, Any]
    rows: list[Any]
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
                lines(blocks["rows"]),
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


def run(document: dict[str, Any], rows: list[Any]) -> tuple[list[Any], list[Any], int]:
    mapping = bind(document, rows)
    batches: Any = [Batch(file="rows.jsonl", rows=range(len(rows)), values=rows)]
    unifier = Unifier(mapping, source_name="rows")
    done = [
        unifier.batch(b) for b in (grouped(batches, mapping.group) if mapping.group else batches)
    ]
    rejects = [
        {k: v for k in ("row", "reason", "path", "found") if (v := getattr(reject, k)) is not None}
        for one in done
        for reject in one.rejects
    ]
    counted = sum(one.converted + one.rejected + one.filtered for one in done)
    return [short(record) for one in done for record in one.records], rejects, counted


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 18


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: json.dumps(e.mapping)[:60])
def test_example(example: Example) -> None:
    records, rejects, counted = run(example.mapping, example.rows)
    assert records == example.records
    assert rejects == example.rejects
    assert counted == len(example.rows)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: json.dumps(e.mapping)[:60])
def test_saved_as_version_2_it_means_the_same(example: Example) -> None:
    document = to_document(bind(example.mapping, example.rows))
    assert document["version"] == 2
    assert to_document(bind(document)) == document
    assert run(document, example.rows)[0] == example.records


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
