"""Lines of JSONL records: which one is wrong, and what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.records import readers
from ingot.converters.records.readers import read_batches, read_records

NO_META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
PT: dict[str, Any] = {"text": "é", "meta": NO_META}
SAID = {"role": "user", "content": "hi", "loss_mask": False}
SFT: dict[str, Any] = {"messages": [SAID], "system": None, "meta": NO_META}


def written(folder: Path, *lines: object) -> Path:
    """A file of lines, which are bytes or values."""
    file = folder / "part-00000.jsonl"
    encoded = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    file.write_bytes(b"\n".join(encoded) + b"\n")
    return file


def problem(file: Path, rows: int = 1_000) -> str:
    with pytest.raises(ConversionError) as caught:
        list(read_batches(file, rows=rows))
    assert caught.value.where == str(file)
    assert caught.value.hint
    return caught.value.problem


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "empty"),
        (b" \r", "empty"),
        (b'{"text": "\xff"}', "not UTF-8 at byte 11"),
        (b'{"text": "a', "not JSON: unexpected control character in string, at character 12"),
        (b'{"text": "\\ud800"}', "not JSON: no low surrogate in string, at character 11"),
        (b"[" * 100_000, "not JSON: depth limit exceeded"),
        (None, "not an ingot record but null"),
        (7, "not an ingot record but a number"),
        ({"id": 1}, "not an ingot record, it has neither text nor messages"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: object, said: str) -> None:
    file = written(tmp_path, PT, PT, line, PT)
    assert problem(file).startswith(f"line 3: {said}")
    with pytest.raises(ConversionError, match="line 3: "):
        list(read_records(file))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"messages": [SAID], "meta": NO_META}, "system is missing"),
        (SFT | {"messages": None}, "messages is null, not a list"),
        (SFT | {"messages": "hi"}, "messages is a text, not a list"),
        (SFT | {"messages": [SAID, "hi"]}, "messages[1] is a text, not an object"),
        (SFT | {"messages": [{"role": "user", "content": ""}]}, "messages[0].loss_mask is missing"),
        (
            SFT | {"messages": [SAID | {"loss_mask": 1}]},
            "messages[0].loss_mask is a number, not true or false",
        ),
        (
            SFT | {"messages": [SAID, SAID | {"content": ["a"]}]},
            "messages[1].content is a list, not a text",
        ),
        (SFT | {"tools": [{"name": "f"}]}, "tools is a list, not a text"),
        (SFT | {"system": 7}, "system is a number, not a text"),
        (SFT | {"meta": None}, "meta is null, not an object"),
        (SFT | {"meta": {}}, "meta.source is missing"),
        (
            SFT | {"meta": NO_META | {"token_count": (1 << 63)}},
            "meta.token_count is a number, not a whole number of 64 bits",
        ),
        (
            SFT | {"meta": NO_META | {"quality_score": "high"}},
            "meta.quality_score is a text, not a number",
        ),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 1_000])
def test_a_record_that_does_not_fit_is_named(
    tmp_path: Path, record: dict[str, Any], said: str, rows: int
) -> None:
    file = written(tmp_path, SFT, SFT, SFT, record, SFT)
    told = problem(file, rows)
    assert told == f"line 4: a sft record that does not fit its schema: {said}"
    assert "Error" not in told


@pytest.mark.parametrize("rows", [1, 2, 1_000])
def test_the_first_record_tells_the_kind_of_a_file(tmp_path: Path, rows: int) -> None:
    assert problem(written(tmp_path, SFT, SFT, PT), rows) == (
        "line 3: a pt record in a file of sft records"
    )
    assert problem(written(tmp_path, PT, SFT), rows) == (
        "line 2: a sft record in a file of pt records"
    )


def test_lines_are_counted_over_batches_cut_by_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "READ_BYTES", 300)
    file = written(tmp_path, *[PT] * 6, PT | {"text": 7}, PT)
    assert problem(file) == (
        "line 7: a pt record that does not fit its schema: text is a number, not a text"
    )


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "part-00000.jsonl"
    line = json.dumps(PT).encode() + b"\n"
    file.write_bytes(b"\xef\xbb\xbf" + line * 2)
    assert list(read_records(file)) == [PT, PT]
    assert sum(batch.num_rows for batch in read_batches(file)) == 2
    file.write_bytes(b"\xef\xbb\xbf" + line + b"\xef\xbb\xbf" + line)
    assert list(read_records(file)) == [PT, PT]  # as `cat` joins files
    for nothing in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(nothing)
        assert list(read_batches(file)) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    with pytest.raises(ConversionError, match=r"loop\.jsonl: cannot be read"):
        list(readers.read_lines(tmp_path / "loop.jsonl", 1))
