"""A generated lake from end to end, held against what is true of it by construction.

Nothing here asks ingot what is right: files, rows and records are the generator's, hashes, repeats
and splits are reckoned anew from the documented rules.
"""

import json
import os
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingot.agent.lake.lake_state import LakeState
from tests.agent.lake.truth import Lake, generated, records_in, run, said, script, snapshot

SPLITS = {"train": Fraction(8, 10), "valid": Fraction(2, 10)}
CORPUS = ("--dedup", "exact", "--split", "train=0.8,valid=0.2")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return generated(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def model(lake: Lake) -> Iterator[Any]:
    served = script("served")
    with served.serving(served.Model(lake.replies(), faults=0.2)) as model:
        yield model


@pytest.mark.more
def test_a_lake_from_nothing_then_again_then_with_a_change(lake, model, tmp_path):
    """One run serves many questions: it is the dear part."""
    out = tmp_path / "out"
    told = json.loads(run(lake, out, *CORPUS, "--json", "--jobs", "2", url=model.url).stdout)
    names = members_agree(lake, out, told)
    rows_add_up(lake, out, told, names)
    records_say_what_is_true(lake, out, names)
    approved_mappings_rule(lake, out, names)
    one_question_per_unsure_set(lake, model)
    corpus_is_the_records_without_repeats(out)
    catalog_and_page_agree(out, told)
    before, calls = snapshot(out), len(model.calls)
    again = json.loads(run(lake, out, *CORPUS, "--json", "--jobs", "2", url=model.url).stdout)
    assert (again["worked"], len(model.calls), snapshot(out)) == ([], calls, before)
    a_change_touches_one_set(lake, out, names, model, before)


def members_agree(lake: Lake, out: Path, told: dict[str, Any]) -> dict[str, str]:
    """Every file is in one set, or left out with a reason; gives the name of each true set."""
    members = {file.split("!")[0]: name for file, name in LakeState(out).members().items()}
    left_out = {one["name"]: one["why"] for one in told["left_out"]}
    beside = {one["name"] for facts in told["sets"] for one in facts["left_out"]}
    assert all(left_out.values())
    names: dict[str, str] = {}
    for key, true in lake.sets.items():
        found = {name for file in true["files"] for name in sets_of(file, members)}
        if "left out" in true["status"] and not found:
            assert all(file in left_out or file in beside for file in true["files"]), key
            continue
        assert len(found) == 1, (key, found)
        (names[key],) = found
        assert all(file in members or file in left_out or file in beside for file in true["beside"])
    assert len(set(names.values())) == len(names)
    assert {one["name"] for one in told["sets"]} == set(names.values())
    return names


def sets_of(file: str, members: dict[str, str]) -> set[str]:
    """The sets of a file, or of what is in it where it is an archive."""
    inside = f"{file}/"
    return {name for one, name in members.items() if one == file or one.startswith(inside)}


def rows_add_up(lake: Lake, out: Path, told: dict[str, Any], names: dict[str, str]) -> None:
    whole: Counter[str] = Counter()
    sets = {one["name"]: one for one in told["sets"]}
    for key, true in lake.sets.items():
        facts = sets.get(names.get(key, ""))
        if facts is None:
            continue
        assert facts["status"] in true["status"], (key, facts["status"], facts["why"])
        if facts["status"] != "converted":
            continue
        rows = json.loads((out / facts["result"] / "manifest.json").read_text())["rows"]
        assert rows["read"] == rows["converted"] + rows["rejected"] + rows["filtered"]
        if true["rows"] is not None:
            assert (rows["read"], rows["filtered"]) == (true["rows"], true["filtered"]), key
        whole.update(rows)
    assert {name: whole[name] for name in told["rows"]} == told["rows"]


def records_say_what_is_true(lake: Lake, out: Path, names: dict[str, str]) -> None:
    judged = 0
    for key, true in lake.sets.items():
        if true["status"] == ["converted"] and true["records"] is not None:
            found = Counter(said(one) for one in records_in(out / "sets" / names[key]))
            assert found == lake.records(key), key
            judged += 1
    assert judged > 15


def approved_mappings_rule(lake: Lake, out: Path, names: dict[str, str]) -> None:
    """A mapping that was there before is the one that ran, and is left as it was."""
    given = lake.folder / "mappings" / f"{names['filtered']}.json"
    assert (out / "mappings" / given.name).read_bytes() == given.read_bytes()


def one_question_per_unsure_set(lake: Lake, model: Any) -> None:
    """No sure rules confirm the answers, no person approved one: each data set is asked about.

    Others whose names leave something open may be asked about as well, once each.
    """
    first = Counter(call.marks for call in model.calls if call.first and call.answered)
    asked = Counter(true["asks"] for true in lake.sets.values() if true["asks"])
    assert {shape: first[f"{shape}_a"] for shape in asked} == asked
    assert first.total() <= len(lake.sets)
    assert max(model.told().values()) == 1


def digest(record: dict[str, Any]) -> bytes:
    """A record's hash, by the page that describes it."""

    def number(count: int) -> bytes:
        return struct.pack("<Q", count)

    def text(value: str | None) -> bytes:
        data = (value or "").encode()
        return number(2**64 - 1) if value is None else number(len(data)) + data

    if "text" in record:
        return blake2b(b"P" + text(record["text"]), digest_size=16).digest()
    head = b"S" + text(record["system"]) + text(record.get("tools"))
    turns = [
        text(one["role"]) + text(one["content"]) + (b"\1" if one["loss_mask"] else b"\0")
        for one in record["messages"]
    ]
    return blake2b(head + number(len(turns)) + b"".join(turns), digest_size=16).digest()


def split_of(key: bytes) -> str:
    share, end = Fraction(int.from_bytes(key[:8], "big"), 2**64), Fraction(0)
    for name, fraction in SPLITS.items():
        end += fraction
        if share < end:
            return name
    return name


def corpus_is_the_records_without_repeats(out: Path) -> None:
    seen: set[bytes] = set()
    expected: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    repeats = 0
    for folder in sorted((out / "sets").iterdir(), key=lambda one: one.name):
        if not (folder / "mapping.json").exists() or folder.name.endswith(".proposal"):
            continue
        for record in records_in(folder):
            key = digest(record)
            repeats += key in seen
            if key not in seen:
                expected[split_of(key), folder.name].append(key)
            seen.add(key)
    assert repeats > 0
    found = {
        (split, folder.name): [digest(one) for one in records_in(folder)]
        for split in SPLITS
        for folder in (out / "corpus" / split).iterdir()
    }
    assert {place: keys for place, keys in found.items() if keys} == expected
    manifests = [json.loads(one.read_text()) for one in out.glob("corpus/*/*/manifest.json")]
    assert sum(one["records"]["duplicates"] for one in manifests) == repeats


def catalog_and_page_agree(out: Path, told: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in pq.read_table(out / "catalog.parquet").to_pylist()}
    assert {name: row["status"] for name, row in rows.items()} == {
        one["name"]: one["status"] for one in told["sets"]
    }
    results = {one.parent.name: one for one in out.glob("sets/*/manifest.json")}
    for name, file in results.items():
        manifest = json.loads(file.read_text())
        assert {key: rows[name]["rows"][key] for key in manifest["rows"]} == manifest["rows"]
        assert rows[name]["records"]["written"] == manifest["records"]["written"]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    (held,) = re.findall(
        r'<script type="application/json" id="lake">(.*?)</script>', page, re.DOTALL
    )
    assert {one["name"] for one in json.loads(held)["sets"]} == set(rows)


def a_change_touches_one_set(
    lake: Lake, out: Path, names: dict[str, str], model: Any, before: dict[str, str]
) -> None:
    key = next(key for key, true in lake.sets.items() if true["files"][0].endswith(".jsonl"))
    file = lake.root / lake.sets[key]["files"][0]
    with file.open("ab") as data:
        data.write(file.read_bytes().splitlines(keepends=True)[0])
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 10**9))
    calls = len(model.calls)
    told = json.loads(run(lake, out, *CORPUS, "--json", "--jobs", "2", url=model.url).stdout)
    assert told["worked"] == [names[key]]
    assert len(model.calls) == calls
    after = snapshot(out)
    changed = {name for name in after | before if after.get(name) != before.get(name)}
    assert {name.split("/")[1] for name in changed if name.startswith("sets/")} == {names[key]}


@pytest.mark.long
def test_other_processes_make_the_same_bytes(lake, model, tmp_path):
    runs = []
    for jobs in ("1", "5"):
        out = tmp_path / jobs / "out"
        out.parent.mkdir()
        model.calls.clear()  # so that it fails as often
        run(lake, out, *CORPUS, "--jobs", jobs, url=model.url)
        runs.append(snapshot(out))
    assert runs[0] == runs[1]
