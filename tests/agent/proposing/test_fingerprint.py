"""The shape of a source: the same for other values, another for another shape."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.fingerprint import fingerprint, shape_fingerprint, source_shape
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample

ROWS = [{"id": n, "turns": [{"from": "human", "value": f"say {n}"}]} for n in range(4)]


def shape_of(tmp_path: Path, rows: list[Any], spec: SourceSpec = SourceSpec()) -> dict[str, Any]:
    file = tmp_path / "raw.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(file), spec)
    found = source_shape(source, draw_sample(source))
    assert fingerprint(source, draw_sample(source)) == shape_fingerprint(found)
    return found


def of(tmp_path: Path, rows: list[Any], spec: SourceSpec = SourceSpec()) -> str:
    return shape_fingerprint(shape_of(tmp_path, rows, spec))


def test_a_shape_is_small_and_readable(tmp_path: Path) -> None:
    rows = [*ROWS, {"id": "x7", "turns": None, "note": "rare"}]
    assert shape_of(tmp_path, rows * 2) == {
        "weight": 10,
        "paths": {
            "$": "object",
            "id": "number|string",
            "turns": "list",
            "turns[*]": "object",
            "turns[*].from": "string",
            "turns[*].value": "string",
            "note": "string",
        },
        "mixed": {"id": {"number": 0.8, "string": 0.2}},
        "partly": {"turns[*]": 0.8, "turns[*].from": 0.8, "turns[*].value": 0.8, "note": 0.2},
        "roles": {"turns[*].from": ["human"]},
    }
    found = shape_of(tmp_path, [*ROWS * 3, {**ROWS[0], "id": True, "note": "rare"}])
    assert found["rare"] == {"id": "boolean", "note": "string"}
    assert "note" not in found["paths"]


def test_other_values_and_key_order_are_the_same_shape(tmp_path: Path) -> None:
    other = [{"turns": [{"value": "x", "from": "human"}] * 3, "id": 9.5}]
    assert of(tmp_path, other) == of(tmp_path, ROWS)
    assert of(tmp_path, [*ROWS, {"id": None, "turns": []}]) == of(tmp_path, ROWS)


def test_what_is_rare_does_not_count(tmp_path: Path) -> None:
    assert of(tmp_path, [*ROWS * 5, {**ROWS[0], "note": 1, "id": "x"}]) == of(tmp_path, ROWS)


@pytest.mark.parametrize(
    "rows",
    [
        [{**ROWS[0], "new": 1}],
        [{**ROWS[0], "id": "text"}],
        [{"id": 1, "turns": [{"from": "human"}]}],
        [{"id": 1, "turns": [{"from": "gpt", "value": "x"}]}],
    ],
)
def test_another_shape_is_another_fingerprint(tmp_path: Path, rows: list[Any]) -> None:
    assert of(tmp_path, rows) != of(tmp_path, ROWS)


def test_the_facts_of_the_files_count(tmp_path: Path) -> None:
    assert of(tmp_path, ROWS, SourceSpec(format="jsonl")) != of(tmp_path, ROWS)


@pytest.mark.parametrize(
    ("name", "values", "roles"),
    [
        ("from", ["human", "gpt"], ["gpt", "human"]),
        ("x", ["user", "assistant", "boss"], ["assistant", "boss", "user"]),
        ("speaker", ["user", "A", "B"], ["A", "B", "user"]),
        ("x", ["A", "B"], None),
        ("x", ["user", "red", "blue"], None),
        ("user", [f"user_{n}" for n in range(9)], None),
    ],
)
def test_names_of_speakers(
    tmp_path: Path, name: str, values: list[str], roles: list[str] | None
) -> None:
    rows = [{name: value, "text": "abc"} for value in values]
    found = shape_of(tmp_path, rows).get("roles", {})
    assert found.get(name) == roles


def test_a_wide_source_keeps_the_hash_alone(tmp_path: Path) -> None:
    row = {f"c{n}": n for n in range(500)}
    found = shape_of(tmp_path, [row, row])
    assert sorted(found) == ["sha256", "weight", "wide"]
    assert found["wide"] == 501
    assert found != shape_of(tmp_path, [{**row, "c499": "x"}] * 2)
    assert len(json.dumps(found)) < 200
