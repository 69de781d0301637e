"""Gates on all rows: what stops a commit, what stays, and what an approval of counts commits."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.convert import plan, shard
from ingot.converters.convert.job import ConvertOptions, Result, convert
from ingot.converters.errors import CountsReviewNeeded, PartDone
from ingot.converters.mapping.bind import bind
from ingot.converters.output.sharding import parse_shard
from ingot.converters.sources import open_source

PAIRS = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer"},
    ],
}
PT = {"version": 2, "text": "answer"}


def write(raw: Path, marked: Mapping[int, dict[str, Any]], files: int = 3, size: int = 100) -> None:
    raw.mkdir(exist_ok=True)
    rows = [
        {"question": f"What is {n}?", "answer": f"It is number {n}."} | marked.get(n, {})
        for n in range(files * size)
    ]
    for part in range(files):
        lines = (json.dumps(row) + "\n" for row in rows[part * size : (part + 1) * size])
        (raw / f"{part}.jsonl").write_text("".join(lines))


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plan, "SHARD_BYTES", 1)  # every file is a shard
    image = {"question": "<image>\nWhat is it?"}
    write(tmp_path / "raw", {120: image, 121: image, 250: {"image": "scan/2.png"}})
    return tmp_path / "raw"


def run(
    raw: Path, approved: Mapping[str, int | None] | None, document: Any = PAIRS, **options: Any
) -> Result:
    settings = ConvertOptions(**{"workers": 1, "records": "jsonl", **options})
    source, mapping = open_source(str(raw)), bind(document, ())
    return convert(source, mapping, raw.parent / "out", settings, approved=approved)


def stop(raw: Path, approved: Mapping[str, int | None], **options: Any) -> CountsReviewNeeded:
    with pytest.raises(CountsReviewNeeded) as stopped:
        run(raw, approved, **options)
    assert not (raw.parent / "out").exists()
    return stopped.value


SIGN = {"media": {"rows": 3, "file": "1.jsonl", "row": 20, "what": ""}}


def test_counts_of_all_rows_stop_and_are_approved_as_they_are(
    raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = stop(raw, {})
    assert stopped.exit_code == 3
    assert stopped.counts == {"media": 3}
    assert "3 rows (limit: none)" in str(stopped)
    assert "1.jsonl row 20" in str(stopped)
    assert stop(raw, {"media": 2, "conversations": 9}).counts == {"media": 3}

    def convert_again(*_: object) -> None:
        raise AssertionError("a shard was read again")

    monkeypatch.setattr(shard, "_convert_rows", convert_again)
    done = run(raw, {"media": 3})
    assert done.manifest["warnings"]["signs"] == SIGN
    assert done.manifest["records"]["written"] == 300
    mapping = json.loads((raw.parent / "out" / "mapping.json").read_text())
    assert mapping["provenance"] == {"approved": {"media": 3}}


def test_who_answers_for_a_mapping_is_told(raw: Path) -> None:
    done = run(raw, None)
    assert done.manifest["warnings"]["signs"] == SIGN
    assert "provenance" not in json.loads((raw.parent / "out" / "mapping.json").read_text())


def test_what_the_sample_showed_is_settled_whatever_the_number(raw: Path) -> None:
    assert run(raw, {"media": None}).manifest["records"]["written"] == 300


def test_data_that_changed_needs_a_new_approval(raw: Path) -> None:
    stop(raw, {})
    write(raw, {n: {"question": "<image>\nWhat is it?"} for n in (1, 120, 121, 250)})
    assert stop(raw, {"media": 3}).counts == {"media": 4}


@pytest.mark.more
def test_counts_do_not_depend_on_who_does_the_work(raw: Path) -> None:
    one = run(raw, None).manifest
    shutil.rmtree(raw.parent / "out")
    two = run(raw, None, workers=2).manifest
    assert one == two
    again = run(raw, None, overwrite=True, language="en").manifest
    assert again["warnings"]["signs"] == SIGN


def test_parts_of_a_job_are_stopped_where_they_are_merged(raw: Path) -> None:
    for index in range(2):
        with pytest.raises(PartDone):
            run(raw, {}, shard=parse_shard(f"{index}/2"))
    merge = parse_shard("merge")
    assert stop(raw, {}, shard=merge).counts == {"media": 3}
    assert run(raw, {"media": 3}, shard=merge).manifest["warnings"]["signs"] == SIGN


def test_too_many_rejected_records_stop(tmp_path: Path) -> None:
    write(tmp_path / "raw", {n: {"answer": {"no": "text"}} for n in range(7)})
    assert stop(tmp_path / "raw", {}).counts == {"rejected": 7}
    assert run(tmp_path / "raw", {"rejected": 7}).manifest["records"]["rejected"] == 7


def test_rows_that_cannot_be_read_stop_beyond_their_limit(tmp_path: Path) -> None:
    write(tmp_path / "raw", {}, files=1)
    file = tmp_path / "raw" / "0.jsonl"
    file.write_text(file.read_text() + "{broken\n" * 50)
    assert stop(tmp_path / "raw", {}).counts == {"unreadable": 50}


def test_few_rejects_and_documents_that_are_conversations_pass(tmp_path: Path) -> None:
    talk = "Human: What is it?\nAssistant: A number.\nHuman: Why?"
    write(tmp_path / "raw", {n: {"answer": talk} for n in range(300)} | {3: {"answer": None}})
    done = run(tmp_path / "raw", {}, PT)
    assert done.manifest["warnings"]["signs"]["conversations"]["rows"] == 299
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "raw", {n: {"answer": talk} for n in range(100)})
    assert stop(tmp_path / "raw", {}, document=PT).counts == {"conversations": 100}


def test_shares_are_of_rows_however_many_records_rows_give(tmp_path: Path) -> None:
    talk = "Human: What is it?\nAssistant: A number.\nHuman: Why?"
    several = {"version": 2, "each": "answer[*]", "text": "$"}
    all_talks = {n: {"answer": [talk, f"{talk} {n}"]} for n in range(300)}
    write(tmp_path / "raw", all_talks)
    done = run(tmp_path / "raw", {}, several)
    assert done.manifest["records"]["written"] == 600
    assert done.manifest["warnings"]["signs"]["conversations"]["rows"] == 300


def test_a_group_counts_for_its_rows(tmp_path: Path) -> None:
    talk = "Human: What is it?\nAssistant: A number.\nHuman: Why?"
    grouped = {"version": 2, "group": {"by": ["key"]}, "text": "[*].answer"}
    write(tmp_path / "raw", {n: {"answer": talk, "key": n // 2} for n in range(300)})
    done = run(tmp_path / "raw", {}, grouped)
    assert done.manifest["rows"]["converted"] == 300
    assert done.manifest["warnings"]["signs"]["conversations"]["rows"] == 300
