"""A mapping file converted without the graph: what forbids it, and what is only counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.session import convert_mapping
from ingot.agent.state import Order
from ingot.converters.errors import ConversionError
from ingot.converters.mapping.bind import read_tree

RARE = {"version": 2, "any_of": [{"text": "body"}, {"text": "story.text"}]}


def order(tmp_path: Path, rows: list[Any], mapping: dict[str, Any]) -> Order:
    file = tmp_path / "raw.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Order(
        source=str(file),
        out=str(tmp_path / "out"),
        mapper="file",
        mapping=read_tree(mapping),
        mapping_file="m.json",
        records="jsonl",
    )


def test_an_alternative_that_a_whole_sample_lacks_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"m\.json: .*/any_of/1/text: unresolved_path"):
        convert_mapping(order(tmp_path, [{"body": "Text."}] * 5, RARE), Context())
    assert not (tmp_path / "out").exists()


@pytest.mark.more
def test_an_alternative_may_be_for_rows_that_the_sample_lacks(tmp_path: Path) -> None:
    rows: list[Any] = [{"body": f"Text number {n}. " * 20} for n in range(4000)]
    rows[1234] = {"story": {"text": "The one story."}}
    state = convert_mapping(order(tmp_path, rows, RARE), Context())
    assert state["sample"].complete is False
    assert state["result"].manifest.records["written"] == 4000


@pytest.mark.parametrize("mapping", [{"version": 2, "text": ["body", "boody"]}, {"text": "boody"}])
def test_a_misspelt_part_is_not_left_out_in_silence(
    tmp_path: Path, mapping: dict[str, Any]
) -> None:
    with pytest.raises(ConversionError, match=r"Did you mean body\? In chat: set text body"):
        convert_mapping(order(tmp_path, [{"body": "Text."}] * 5, mapping), Context())


def test_a_mapping_that_maps_nothing_is_irrelevant(tmp_path: Path) -> None:
    state = convert_mapping(order(tmp_path, [{"a": 1}], {"version": 2, "text": None}), Context())
    assert state["outcome"].status == "irrelevant"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["decision"] == "irrelevant"
