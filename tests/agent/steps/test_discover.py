"""What is found out before anybody is asked: places that cannot be written, unfit tokenizers."""

from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.state import Order
from ingot.agent.steps.discover import discover
from ingot.converters.errors import ConversionError, OutputError


@pytest.fixture
def order(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    return {"source": str(tmp_path / "a.jsonl"), "out": str(tmp_path / "new" / "out")}


def test_nothing_is_left_of_the_look(order: dict[str, Any], tmp_path: Path) -> None:
    assert discover({"order": Order(**order)}, Context())["source"].files == 1
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("place", ["a.jsonl/out", "a.jsonl", "n" * 300 + "/out"])
def test_a_place_that_cannot_be_written(order: dict[str, Any], tmp_path: Path, place: str) -> None:
    given = Order(**{**order, "out": str(tmp_path / place)})
    with pytest.raises(OutputError):
        discover({"order": given}, Context())


def test_a_tokenizer_that_is_none(order: dict[str, Any], tmp_path: Path) -> None:
    given = Order(**order, tokenizer=str(tmp_path / "a.jsonl"))
    with pytest.raises(ConversionError, match="not a tokenizer"):
        discover({"order": given}, Context())
    missing = Order(**order, tokenizer=str(tmp_path / "no.json"), dry_run=True)
    assert discover({"order": missing}, Context())["source"]
