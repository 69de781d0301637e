"""Finished results to export, made of rows by a real conversion."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source

SFT = {
    "version": 2,
    "messages": [
        {
            "each": "said[*]",
            "role": {"path": "role"},
            "content": "content",
            "loss_mask": "trained",
        }
    ],
    "system": "system",
    "tools": "tools",
}
PT = {"version": 2, "text": "text"}

Rows = Sequence[dict[str, Any]]
MakeResult = Callable[..., Path]
Said = Callable[..., dict[str, Any]]


def row_of(
    *turns: str, trained: str = "", system: str | None = None, tools: str | None = None
) -> dict[str, Any]:
    """A row from turns like `user: text`; `trained` has a letter per turn: T or F."""
    marks = trained or "".join("T" if turn.startswith("assistant") else "F" for turn in turns)
    messages = [
        {"role": role, "content": content, "trained": mark == "T"}
        for (role, _, content), mark in zip(
            (turn.partition(": ") for turn in turns), marks, strict=True
        )
    ]
    return {"said": messages, "system": system, "tools": tools}


@pytest.fixture
def said() -> Said:
    """`said("user: hi", "assistant: hello", trained="FT")` -> a row."""
    return row_of


@pytest.fixture
def make_result(tmp_path: Path) -> MakeResult:
    """`make_result(rows)` -> the folder of a finished result; `pt=True` for texts."""

    def make(
        rows: Rows, *, name: str = "result", pt: bool = False, records: str = "parquet"
    ) -> Path:
        raw = tmp_path / f"{name}.jsonl"
        raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ConvertOptions(records=records, source_name="chats", workers=1)
        mapping = bind(PT if pt else SFT, rows)
        convert(open_source(str(raw)), mapping, tmp_path / name, options)
        return tmp_path / name

    return make
