"""The fingerprint of a source: the same for other values, another for another shape."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.fingerprint import fingerprint
from ingot.converters.readers import open_source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.sample import draw

ROWS = [{"id": n, "turns": [{"from": "human", "value": f"say {n}"}]} for n in range(4)]


def of(tmp_path: Path, rows: list[Any], spec: SourceSpec = SourceSpec()) -> str:
    file = tmp_path / "raw.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(file), spec)
    return fingerprint(source, draw(source))


def test_other_values_and_key_order_are_the_same_shape(tmp_path: Path) -> None:
    other = [{"turns": [{"value": "x", "from": "gpt"}] * 3, "id": 9}]
    assert of(tmp_path, other) == of(tmp_path, ROWS)
    assert of(tmp_path, [*ROWS, {"id": None, "turns": []}]) == of(tmp_path, ROWS)


@pytest.mark.parametrize(
    "rows",
    [
        [{**ROWS[0], "new": 1}],
        [{**ROWS[0], "id": "text"}],
        [{"id": 1, "turns": [{"from": "human"}]}],
    ],
)
def test_another_shape_is_another_fingerprint(tmp_path: Path, rows: list[Any]) -> None:
    assert of(tmp_path, rows) != of(tmp_path, ROWS)


def test_the_facts_of_the_files_count(tmp_path: Path) -> None:
    assert of(tmp_path, ROWS, SourceSpec(format="jsonl")) != of(tmp_path, ROWS)
