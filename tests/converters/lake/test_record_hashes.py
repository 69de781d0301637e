"""Hashes of records against an encoder in plain Python, written from the docstring."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.lake import record_hashes
from ingot.converters.records.readers import read_batches
from ingot.converters.records.schema import SFT_SCHEMA, RecordKind, to_batch
from ingot.converters.records.writers import RecordWriter

META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
NULL = b"\xff" * 8
FLAGS = {True: b"\x01", False: b"\x00", None: b"\xff"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "\0", "\0\0\0\0\0\0\0\0", "P", "S", "好" * 30]
)
TURNS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", ""]),
        "content": TEXTS,
        "loss_mask": st.booleans(),
    }
)
PT = st.fixed_dictionaries({"text": TEXTS, "meta": st.just(META)})
SFT = st.fixed_dictionaries(
    {
        "messages": st.lists(TURNS, max_size=4),
        "system": st.none() | TEXTS,
        "tools": st.none() | TEXTS,
        "meta": st.just(META),
    }
)


def text(value: str | None) -> bytes:
    if value is None:
        return NULL
    return len(value.encode()).to_bytes(8, "little") + value.encode()


def said(record: dict[str, Any]) -> bytes:
    if "text" in record:
        return b"P" + text(record["text"])
    messages = record["messages"]
    turns = [
        text(one["role"]) + text(one["content"]) + FLAGS[one["loss_mask"]] for one in messages or []
    ]
    count = NULL if messages is None else len(messages).to_bytes(8, "little")
    return b"S" + text(record["system"]) + text(record.get("tools")) + count + b"".join(turns)


def expected(record: dict[str, Any]) -> bytes:
    return hashlib.blake2b(said(record), digest_size=16).digest()


def hashed(batch: pa.RecordBatch) -> list[bytes]:
    found = record_hashes.hash_records(batch)
    assert found.shape == (batch.num_rows, 16)
    return [row.tobytes() for row in found]


@pytest.mark.more
@given(records=st.lists(PT, max_size=8) | st.lists(SFT, min_size=1, max_size=8), data=st.data())
def test_hashes_are_those_of_the_bytes_that_are_written_down(records: list, data: Any) -> None:
    kind: RecordKind = "sft" if records and "messages" in records[0] else "pt"
    batch = to_batch(records, kind, where="test")
    assert hashed(batch) == [expected(record) for record in records]
    start = data.draw(st.integers(0, len(records)))
    assert hashed(batch.slice(start, 3)) == [expected(one) for one in records[start : start + 3]]


def turn(role: str, content: str, mask: bool = False) -> dict[str, Any]:
    return {"role": role, "content": content, "loss_mask": mask}


def sft(*messages: dict[str, Any], system: str | None = None, tools: str | None = None) -> dict:
    return {"messages": list(messages), "system": system, "tools": tools, "meta": META}


def test_what_differs_for_a_model_has_another_hash() -> None:
    records = [
        sft(turn("user", "ab"), turn("assistant", "c", True)),
        sft(turn("user", "a"), turn("assistant", "bc", True)),
        sft(turn("user", "ab"), turn("assistant", "c", False)),
        sft(turn("usera", "b"), turn("assistant", "c", True)),
        sft(turn("user", "ab"), turn("assistant", "c", True), system=""),
        sft(turn("user", "ab"), turn("assistant", "c", True), tools=""),
        sft(turn("user", "ab"), turn("assistant", "c", True), system="x"),
        sft(turn("user", "ab"), turn("assistant", "c", True), tools="x"),
        sft(turn("assistant", "c", True), turn("user", "ab")),
        sft(),
    ]
    texts = [{"text": one, "meta": META} for one in ("", "\0", "S", "ab")]
    found = hashed(to_batch(records, "sft", where="")) + hashed(to_batch(texts, "pt", where=""))
    assert len(set(found)) == len(records) + len(texts)


def test_meta_is_not_said() -> None:
    other = {**META, "source": "elsewhere", "quality_score": 0.5}
    batch = to_batch([{"text": "a", "meta": META}, {"text": "a", "meta": other}], "pt", where="")
    assert len(set(hashed(batch))) == 1


def test_nulls_that_ingot_never_writes() -> None:
    turns = [{"role": None, "content": None, "loss_mask": None}, None]
    rows = [{"messages": None}, {"messages": turns}, {"messages": []}]
    batch = pa.RecordBatch.from_pylist(rows, SFT_SCHEMA)
    nothing = {"role": None, "content": None, "loss_mask": None}
    records = [{"messages": None}, {"messages": [nothing, nothing]}, {"messages": []}]
    assert hashed(batch) == [expected({"system": None, **record}) for record in records]


@pytest.mark.parametrize("kind", ["pt", "sft"])
def test_both_formats_hash_alike(kind: RecordKind, tmp_path: Path) -> None:
    made = {"pt": {"text": "a\0b", "meta": META}, "sft": sft(turn("user", "q"), turn("x", ""))}
    found = []
    for form in ("parquet", "jsonl"):
        with RecordWriter(tmp_path, kind=kind, format=form) as writer:
            writer.write([made[kind]] * 3)
        found += [one for batch in read_batches(writer.path) for one in hashed(batch)]
    assert found == [expected(made[kind])] * 6


def test_what_is_no_record_is_told() -> None:
    with pytest.raises(ConversionError, match="no ingot records"):
        record_hashes.hash_records(pa.RecordBatch.from_pylist([{"text": "a"}]))
