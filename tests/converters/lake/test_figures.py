"""Figures against plain Python, hashes in the order of the records."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.convert.job import ConvertOptions, stage_irrelevant
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.lake import statistics
from ingot.converters.lake.catalog import SetFigures
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


@pytest.mark.more
@given(rows=ROWS)
@settings(max_examples=25)
def test_figures_are_those_of_a_plain_count(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict]
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    made(folder / "set", rows, records="jsonl" if len(rows) % 2 else "parquet")
    found = measure_records(folder / "set", folder / "hashes.npy")
    records = list(read_records(folder / "set" / "records"))
    lengths = [sum(map(len, texts_of(record))) for record in records]
    assert found.records == len(rows)
    assert found.characters == sum(lengths)
    assert found.lengths == Counter(map(least, lengths))
    assert found.languages == Counter(
        "*" if row["lang"] == "x" * 50 else row["lang"] or "" for row in rows
    )
    assert found.within == len(rows) - len(set(map(content, records)))
    assert sum(found.heard.values()) == min(
        len(set(map(content, records))), statistics.LANGUAGE_RECORDS
    )
    hashed = np.load(folder / "hashes.npy", mmap_mode="r")
    assert hashed.shape == (len(rows), 16)
    assert len({row.tobytes() for row in hashed}) == len(rows) - found.within
    assert decode(SetFigures, json.loads(json.dumps(encode(found)))) == found


def test_languages_are_heard_in_different_records(tmp_path: Path) -> None:
    texts = [f"This is the text number {number % 700}, in plain English." for number in range(2500)]
    made(tmp_path / "set", [{"text": text} for text in texts])
    found = measure_records(tmp_path / "set", tmp_path / "h.npy")
    assert found.heard == {"en": 200}
    assert found.within == 1800


def test_languages_are_heard_in_texts_and_conversations(tmp_path: Path) -> None:
    made(tmp_path / "pt", [{"text": "这是一个中文句子，用来测试语言。"}, {"text": "1234"}])
    assert measure_records(tmp_path / "pt", tmp_path / "pt.npy").heard == {"": 1, "zh": 1}
    turns = ["Wie spät ist es denn heute Abend?", "Es ist schon nach acht Uhr, glaube ich."]
    made(tmp_path / "sft", [{"turns": turns, "system": "x"}], SFT)
    found = measure_records(tmp_path / "sft", tmp_path / "sft.npy")
    assert found.heard == {"de": 1}
    assert found.characters == sum(map(len, turns)) + 1


def test_the_order_of_records_changes_hashes_alone(tmp_path: Path) -> None:
    rows = [{"text": f"text number {number % 40}", "lang": "en"} for number in range(60)]
    made(tmp_path / "one", rows)
    made(tmp_path / "two", rows[::-1], records="jsonl")
    one = measure_records(tmp_path / "one", tmp_path / "one.npy")
    two = measure_records(tmp_path / "two", tmp_path / "two.npy")
    assert one == two
    assert (np.load(tmp_path / "one.npy") == np.load(tmp_path / "two.npy")[::-1]).all()


def test_a_result_without_records(tmp_path: Path) -> None:
    raw = write_lines(tmp_path / "raw.jsonl", [{"price": 1}])
    source = open_source(str(raw))
    with stage_irrelevant(source, tmp_path / "set", "it holds no text", ConvertOptions()) as staged:
        staged.commit({}, {})
    assert measure_records(tmp_path / "set", tmp_path / "h.npy") == SetFigures()
    assert np.load(tmp_path / "h.npy").shape == (0, 16)


def test_values_that_name_no_language_are_others(tmp_path: Path) -> None:
    told = ["en", "zh", "mix", None, "en-GB", "hunter2", "English"]
    made(tmp_path / "set", [{"text": "x", "lang": one} for one in told])
    found = measure_records(tmp_path / "set", tmp_path / "h.npy")
    assert found.languages == {"": 1, "*": 3, "en": 1, "mix": 1, "zh": 1}


def test_what_is_no_result_or_another_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="no finished result"):
        measure_records(tmp_path, tmp_path / "h.npy")
    made(tmp_path / "set", [{"text": "x"}])
    with RecordWriter(tmp_path / "set" / "records", kind="pt", part=1) as writer:
        writer.write([{"text": "y", "meta": META}])
    with pytest.raises(ConversionError, match="holds 2 records, its manifest says 1"):
        measure_records(tmp_path / "set", tmp_path / "h.npy")
    assert not (tmp_path / "h.npy").exists()
