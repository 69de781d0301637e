"""Figures against plain Python, samples that hold no secret, hashes in the order of the records."""

import hashlib
import json
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.convert.job import finish_irrelevant
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.lake import statistics
from ingot.converters.lake.catalog import Figures
from ingot.converters.lake.statistics import measure_records
from ingot.converters.records.readers import read_records
from ingot.converters.records.writers import RecordWriter
from ingot.converters.sources import open_source
from tests.converters.lake.lake_results import SFT, made, write_lines

META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
TEXTS = st.sampled_from(["a", "b\0", "好" * 4, "word " * 16, "x" * 1023, "x" * 1024, "y" * 1025])
ROWS = st.lists(
    st.fixed_dictionaries({"text": TEXTS, "lang": st.sampled_from([None, "en", "zh", "x" * 50])}),
    min_size=1,
    max_size=30,
)


def plain(text: str) -> str:
    return text


def texts_of(record: dict[str, Any]) -> list[str]:
    if "text" in record:
        return [record["text"]]
    told = [record["system"], record.get("tools")]
    return [one for one in told if one] + [one["content"] for one in record["messages"]]


def least(length: int) -> int:
    found = 0
    for power in range(40):
        found = 2**power if length >= 2**power else found
    return found


def content(record: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in record.items() if key != "meta"})


@given(rows=ROWS)
@settings(max_examples=25)
def test_figures_are_those_of_a_plain_count(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict]
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    made(folder / "set", rows, records="jsonl" if len(rows) % 2 else "parquet")
    found = measure_records(folder / "set", folder / "hashes.npy", plain)
    records = list(read_records(folder / "set" / "records"))
    lengths = [sum(map(len, texts_of(record))) for record in records]
    assert found.records == len(rows)
    assert found.characters == sum(lengths)
    assert found.lengths == Counter(map(least, lengths))
    assert found.languages == Counter((row["lang"] or "")[:40] for row in rows)
    assert found.within == len(rows) - len(set(map(content, records)))
    assert sum(found.heard.values()) == min(
        len(set(map(content, records))), statistics.LANGUAGE_RECORDS
    )
    hashed = np.load(folder / "hashes.npy", mmap_mode="r")
    assert hashed.shape == (len(rows), 16)
    assert len({row.tobytes() for row in hashed}) == len(rows) - found.within
    assert decode(Figures, json.loads(json.dumps(encode(found)))) == found


def said(text: str) -> bytes:
    return b"P" + len(text.encode()).to_bytes(8, "little") + text.encode()


def test_chosen_are_the_smallest_hashes_of_different_records(tmp_path: Path) -> None:
    texts = [f"This is the text number {number % 700}, in plain English." for number in range(2500)]
    made(tmp_path / "set", [{"text": text} for text in texts])
    found = measure_records(tmp_path / "set", tmp_path / "h.npy", plain)
    by_hash = sorted(
        set(texts), key=lambda text: hashlib.blake2b(said(text), digest_size=16).digest()
    )
    assert [one["text"] for one in found.samples] == by_hash[:3]
    assert found.heard == {"en": 200}
    assert found.within == 1800


def test_languages_are_heard_in_texts_and_conversations(tmp_path: Path) -> None:
    made(tmp_path / "pt", [{"text": "这是一个中文句子，用来测试语言。"}, {"text": "1234"}])
    assert measure_records(tmp_path / "pt", tmp_path / "pt.npy", plain).heard == {"": 1, "zh": 1}
    turns = ["Wie spät ist es denn heute Abend?", "Es ist schon nach acht Uhr, glaube ich."]
    made(tmp_path / "sft", [{"turns": turns, "system": "x"}], SFT)
    found = measure_records(tmp_path / "sft", tmp_path / "sft.npy", plain)
    assert found.heard == {"de": 1}
    assert found.characters == sum(map(len, turns)) + 1
    assert [one["content"] for one in found.samples[0]["messages"]] == turns
    assert found.samples[0]["messages"][1]["loss_mask"] is True


def test_the_order_of_records_changes_hashes_alone(tmp_path: Path) -> None:
    rows = [{"text": f"text number {number % 40}", "lang": "en"} for number in range(60)]
    made(tmp_path / "one", rows)
    made(tmp_path / "two", rows[::-1], records="jsonl")
    one = measure_records(tmp_path / "one", tmp_path / "one.npy", plain)
    two = measure_records(tmp_path / "two", tmp_path / "two.npy", plain)
    told = [{**asdict(each), "samples": [s["text"] for s in each.samples]} for each in (one, two)]
    assert told[0] == told[1]
    assert (np.load(tmp_path / "one.npy") == np.load(tmp_path / "two.npy")[::-1]).all()


def test_a_result_without_records(tmp_path: Path) -> None:
    raw = write_lines(tmp_path / "raw.jsonl", [{"price": 1}])
    finish_irrelevant(open_source(str(raw)), tmp_path / "set", "it holds no text")
    assert measure_records(tmp_path / "set", tmp_path / "h.npy", plain) == Figures()
    assert np.load(tmp_path / "h.npy").shape == (0, 16)


def hide(text: str) -> str:
    return re.sub(r"SECRET-\w{8}", "[s]", text)


def test_samples_are_redacted_and_bounded(tmp_path: Path) -> None:
    long = "SECRET-abcdefgh " * 20_000
    made(tmp_path / "pt", [{"text": long, "id": "SECRET-abcdefgh", "lang": "en"}])
    (one,) = measure_records(tmp_path / "pt", tmp_path / "pt.npy", hide).samples
    assert "SECRET" not in json.dumps(one)
    assert one["text"].endswith("[s] …")
    assert len(one["text"]) <= statistics.TEXT_CHARS + 1
    assert one["meta"]["original_id"] == "[s]"
    made(tmp_path / "sft", [{"turns": [long] * 40, "system": long}], SFT)
    (one,) = measure_records(tmp_path / "sft", tmp_path / "sft.npy", hide).samples
    assert "SECRET" not in json.dumps(one)
    assert len(json.dumps(one)) < 20_000
    assert (len(one["messages"]), one["messages_left_out"]) == (12, 28)


@given(
    length=st.integers(0, 400),
    at=st.integers(0, 400),
    limit=st.integers(16, 60),
    short=st.booleans(),
)
@settings(max_examples=200)
def test_no_half_of_a_secret_is_shown(length: int, at: int, limit: int, short: bool) -> None:
    text = "." * at + "SECRET-abcdefgh" * (1 if not short else 12) + "." * length
    shown = statistics._redact_text(text[: 4 * limit + 1], limit, hide)
    assert "SECRET" not in shown


def test_languages_beyond_a_thousand_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "LANGUAGES", 5)
    made(tmp_path / "set", [{"text": "x", "lang": f"l{number}"} for number in range(9)])
    found = measure_records(tmp_path / "set", tmp_path / "h.npy", plain)
    assert found.languages == {**{f"l{number}": 1 for number in range(5)}, "*": 4}


def test_what_is_no_result_or_another_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="no finished result"):
        measure_records(tmp_path, tmp_path / "h.npy", plain)
    made(tmp_path / "set", [{"text": "x"}])
    with RecordWriter(tmp_path / "set" / "records", kind="pt", part=1) as writer:
        writer.write([{"text": "y", "meta": META}])
    with pytest.raises(ConversionError, match="holds 2 records, its manifest says 1"):
        measure_records(tmp_path / "set", tmp_path / "h.npy", plain)
    assert not (tmp_path / "h.npy").exists()
