"""A data set as it is shown: read with its best root, and cut until it fits."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.agent.proposing.llm.data_block import ShownData, dataset_lines, read_data
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample


def of(file: Path, rows: Any) -> ShownData:
    lines = "\n".join(map(json.dumps, rows)) if isinstance(rows, list) else json.dumps(rows)
    file.write_text(lines + "\n")
    source = open_source(str(file))
    return read_data(source, draw_sample(source))


def anything(_: str) -> bool:
    return True


def test_an_object_is_read_with_its_best_root(tmp_path: Path) -> None:
    records = {f"doc-{n}": {"text": f"Text {n} of the set."} for n in range(30)}
    one = of(tmp_path / "set.json", records)
    assert (one.root, one.key) == ("*", "doc-0")
    assert [facts.path for facts in one.view.facts.paths] == ["$", "text"]
    block = dataset_lines(one, "redacted", anything, small=False)
    assert 'path ~; of the first "doc-0"' in block
    assert "doc-0" not in dataset_lines(one, "none", anything, small=False)


def test_texts_of_json_are_parsed(tmp_path: Path) -> None:
    rows = [{"chat": json.dumps([{"role": "user", "content": f"c{n}"}]), "n": n} for n in range(9)]
    one = of(tmp_path / "set.jsonl", rows)
    assert one.json_fields == ("chat",)
    block = dataset_lines(one, "redacted", anything, small=True)
    assert "Texts of JSON, already parsed here: chat" in block
    assert "chat[*].content: " in block


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> ShownData:
    rows = [{f"column {n}": f"word {n} " * 40 for n in range(100)} for _ in range(6)]
    return of(tmp_path_factory.mktemp("wide") / "w.jsonl", rows)


@pytest.mark.parametrize("most", [200, 12800])
@pytest.mark.parametrize("small", [True, False])
def test_it_fits_whatever_the_data(wide: ShownData, most: int, small: bool) -> None:
    block = dataset_lines(wide, "redacted", lambda t: len(t) <= most, small=small)
    assert len(block) <= most
    assert block.startswith("1 file(s): w.jsonl")


def test_richer_where_there_is_room(tmp_path: Path) -> None:
    rows = [
        {"id": n, "text": f"Number {n} is told here. " * 60, "m": [f"a{n}"] * 9} for n in range(40)
    ]
    one = of(tmp_path / "t.jsonl", rows)
    sizes = [
        len(dataset_lines(one, "raw", lambda text, most=most: len(text) <= most, small=False))
        for most in (400, 900, 1500, 3000)
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4


def test_the_same_data_is_shown_alike(tmp_path: Path) -> None:
    rows = [{"id": n, "text": f"Number {n} is told here. " * (n % 7)} for n in range(40)]
    one, again = of(tmp_path / "t.jsonl", rows), of(tmp_path / "t.jsonl", rows)
    assert dataset_lines(one, "raw", anything, small=False) == dataset_lines(
        again, "raw", anything, small=False
    )


@pytest.mark.parametrize("rows", [[{}], [{"a": None}], [[]], [1, 2], ["text"], [{"a": {"b": []}}]])
def test_odd_data_is_shown(tmp_path: Path, rows: Any) -> None:
    for share in ("none", "redacted", "raw"):
        assert "Inventory" in dataset_lines(
            of(tmp_path / "t.jsonl", rows), share, anything, small=False
        )


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=30),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.more
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(VALUES, min_size=1, max_size=8),
    share=st.sampled_from(["none", "redacted", "raw"]),
)
def test_any_rows_are_shown_and_fit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], share: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "t.jsonl"
    file.write_text("".join(json.dumps({"row": row}) + "\n" for row in rows))
    source = open_source(str(file))
    one = read_data(source, draw_sample(source))
    for small in (True, False):
        block = dataset_lines(one, share, lambda text: len(text) <= 1500, small=small)
        assert len(block) <= 1500
        assert all(char.isprintable() or char == "\n" or char.isspace() for char in block)
