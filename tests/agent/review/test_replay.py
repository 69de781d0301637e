"""Both mappings on one sample: rows matched by place or by what they say, faults, drift."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Readings
from ingot.agent.proposing.fingerprint import source_shape
from ingot.agent.review.changed_mappings import ChangedMapping
from ingot.agent.review.pinning.pin import pin_sample
from ingot.agent.review.replay import Replay, SampleBasis, choose_sample, replay_mappings
from ingot.agent.review.revisions import Side, file_side
from ingot.converters.errors import SourceError
from ingot.converters.mapping.bind import read_tree
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample

TEXT = {"version": 2, "text": "body"}
ROWS = [{"id": n, "body": f"Text number {n}.", "parts": ["a", f"b{n}"]} for n in range(20)]


def lines(path: Path, rows: list[Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(location: str, old: dict[str, Any] | None, new: dict[str, Any]) -> Replay:
    stand = SampleBasis(kind="source", place="the data", location=location)
    return replay_mappings(stand, read_tree(old) if old else None, read_tree(new))


def counts(ran: Replay) -> tuple[int, int, int, int, int]:
    found = ran.matched
    assert found is not None
    kinds = [found.count(kind) for kind in ("changed", "lost", "gained")]
    return (found.same, found.of, kinds[0], kinds[1], kinds[2])


def places(ran: Replay, kind: str) -> list[str]:
    assert ran.matched is not None
    return [one.place for one in ran.matched.differences if one.kind == kind]


@pytest.fixture
def raw(tmp_path: Path) -> str:
    return lines(tmp_path / "raw.jsonl", ROWS)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (TEXT, (20, 20, 0, 0, 0)),
        ({**TEXT, "text": ["id", "body"]}, (0, 20, 20, 0, 0)),
        ({**TEXT, "where": [{"path": "id", "in": [1, 2, 3]}]}, (3, 20, 0, 17, 0)),
        ({**TEXT, "meta": {"original_id": "id"}}, (0, 20, 20, 0, 0)),
        ({"text": None}, (0, 20, 0, 20, 0)),
        ({"version": 2, "each": "parts[*]", "text": "$"}, (0, 40, 20, 0, 20)),
    ],
)
def test_records_by_place(raw: str, new: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert counts(run(raw, TEXT, new)) == expected


def test_elements_that_give_nothing_keep_their_number(raw: str) -> None:
    each = {"version": 2, "each": "parts[*]", "text": "$"}
    fewer = {**each, "where": [{"path": "$", "not_in": ["a"]}]}
    ran = run(raw, each, fewer)
    assert counts(ran) == (20, 40, 0, 20, 0)
    assert places(ran, "lost")[:2] == ["raw.jsonl row 0, element 0", "raw.jsonl row 1, element 0"]
    assert counts(run(raw, fewer, each)) == (20, 40, 0, 0, 20)


def test_another_root_with_as_many_rows_is_matched_by_order(tmp_path: Path) -> None:
    place = tmp_path / "raw.json"
    place.write_text(json.dumps({"a": [{"body": f"a{n}"} for n in range(5)], "b": ROWS[:5]}))
    facts = ({**TEXT, "source": {"root": root}} for root in ("a[*]", "b[*]"))
    assert counts(run(str(place), *facts)) == (0, 5, 5, 0, 0)


def test_other_rows_are_matched_by_what_they_say(tmp_path: Path) -> None:
    for name, some in (("a", ROWS[:12]), ("b", ROWS[12:])):
        lines(tmp_path / f"raw/{name}.jsonl", some)
    wide = {**TEXT, "source": {"files": ["*.jsonl"]}}
    narrow = {**TEXT, "source": {"files": ["b.jsonl"]}}
    ran = run(str(tmp_path / "raw"), wide, narrow)
    assert ran.matched is not None
    assert not ran.matched.by_place
    assert counts(ran) == (8, 20, 0, 12, 0)
    assert counts(run(str(tmp_path / "raw"), narrow, wide)) == (8, 20, 0, 0, 12)


def test_groups_are_matched_by_what_they_say(tmp_path: Path) -> None:
    rows = [{"of": n // 2, "who": ("user", "assistant")[n % 2], "what": f"{n}"} for n in range(10)]
    raw = lines(tmp_path / "raw.jsonl", rows)
    said = {"each": "[*]", "role": {"path": "who"}, "content": "what"}
    grouped = {"version": 2, "group": {"by": ["of"]}, "messages": [said]}
    fewer = {**grouped, "where": [{"path": "[0].of", "not_in": [0]}]}
    assert counts(run(raw, grouped, fewer)) == (4, 5, 0, 1, 0)
    assert counts(run(raw, {"version": 2, "text": "what"}, grouped)) == (0, 15, 0, 10, 5)


@pytest.mark.more
def test_rows_whose_number_is_not_known_are_matched_too(tmp_path: Path) -> None:
    rows = [{"id": n, "body": f"{n} " + "x" * 400} for n in range(30_000)]
    raw = lines(tmp_path / "raw.jsonl", rows)
    ran = run(raw, TEXT, {**TEXT, "text": ["id", "body"]})
    assert counts(ran) == (0, 200, 200, 0, 0)
    assert "raw.jsonl" in places(ran, "changed")


def test_figures_of_a_side(raw: str) -> None:
    turns = [{"role": "user", "content": "body"}, {"role": "assistant", "content": "parts[1]"}]
    ran = run(raw, None, {"version": 2, "messages": turns, "system": "parts[0]"}).new
    assert ran is not None
    told = ran.figures()
    assert told["roles"] == {"assistant": 20, "system": 20, "user": 20}
    assert (told["rows"], told["ok_rows"], told["records"]) == (20, 20, 20)
    assert told["trained_chars"] == sum(len(row["parts"][1]) for row in ROWS)


def test_a_new_mapping_that_cannot_read_the_sample(raw: str) -> None:
    ran = run(raw, TEXT, {**TEXT, "source": {"format": "parquet"}})
    assert ran.old is not None
    assert ran.new is None
    [problem] = ran.problems
    assert (problem.pointer, problem.code) == ("/source", "unreadable")
    assert raw not in str(problem)


def test_an_old_mapping_that_cannot_read_the_sample(raw: str) -> None:
    ran = run(raw, {**TEXT, "source": {"format": "parquet"}}, TEXT)
    assert ran.old is None
    assert ran.new is not None
    assert "unreadable" in ran.old_fault
    assert ran.matched is None


def test_data_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        run(str(tmp_path / "none"), TEXT, TEXT)


def test_drift_against_the_shape_of_the_new_mapping(raw: str, tmp_path: Path) -> None:
    data = Readings(location=raw).read(SourceSpec())
    kept = {**TEXT, "provenance": {"shape": source_shape(data.source, data.sample)}}
    assert run(raw, TEXT, kept).drift == ()
    other = lines(tmp_path / "other.jsonl", [{**row, "id": str(row["id"])} for row in ROWS])
    [change] = run(other, TEXT, kept).drift
    assert (change.path, change.what, change.stops) == ("id", "type", True)
    assert run(other, kept, TEXT).drift == ()


# --- what it stands on


def side(files: dict[str, bytes]) -> Side:
    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        return {path: files[path] for path in paths if len(files[path]) <= most}

    return Side(name="x", files=dict.fromkeys(files, "1"), others={}, contents=contents)


def stand(base: Side, head: Side, folder: Path, **given: Any) -> SampleBasis:
    one = ChangedMapping(path="new.json", old_path="old.json", status="renamed", old=TEXT, new=TEXT)
    return choose_sample(one, base, head, folder, **{"source": None, "offline": False, **given})


@pytest.fixture
def pinned(raw: str, tmp_path: Path) -> dict[str, bytes]:
    """The files of a pinned sample beside `new.json`."""
    source = open_source(raw)
    pin_sample(source, draw_sample(source), tmp_path / "new.sample")
    found = file_side(tmp_path / "new.json")
    return found.contents(list(found.files), 1 << 20)


def test_the_sample_of_the_new_side_serves_first(pinned: dict[str, bytes], tmp_path: Path) -> None:
    old = {path.replace("new.", "old."): data for path, data in pinned.items()}
    found = stand(side(old), side(pinned), tmp_path / "1")
    assert (found.kind, found.place, found.source_name) == ("pinned", "new.sample", "raw")
    ran = replay_mappings(found, read_tree(TEXT), read_tree(TEXT))
    assert counts(ran) == (20, 20, 0, 0, 0)
    found = stand(side(old), side({}), tmp_path / "2")
    assert (found.kind, found.place) == ("pinned", "old.sample of x")
    found = stand(side({}), side({}), tmp_path / "3")
    assert (found.kind, "new.sample" in found.why) == ("none", True)


def test_a_sample_of_rows_is_read_without_the_source_but_keeps_its_shape(
    raw: str, pinned: dict[str, bytes], tmp_path: Path
) -> None:
    data = Readings(location=raw).read(SourceSpec())
    shape = source_shape(data.source, data.sample)
    stated = {"encoding": "utf-16"}  # the original is not at hand to be read so
    kept = {**TEXT, "source": stated, "provenance": {"shape": {**shape, "facts": stated}}}
    found = stand(side({}), side(pinned), tmp_path / "1")
    ran = replay_mappings(found, read_tree(TEXT), read_tree(kept))
    assert counts(ran) == (20, 20, 0, 0, 0)
    assert ran.drift == ()
    paths = {**shape["paths"], "id": "string"}
    other = {**kept, "provenance": {"shape": {**shape, "facts": stated, "paths": paths}}}
    [change] = replay_mappings(found, read_tree(TEXT), read_tree(other)).drift
    assert (change.path, change.what) == ("id", "type")


@pytest.mark.parametrize("path", ["new.sample", "new.sample/data/link"])
def test_a_sample_with_a_link_is_none(pinned: dict[str, bytes], tmp_path: Path, path: str) -> None:
    head = replace(side(pinned), others={path: "a symbolic link"})
    old = {path.replace("new.", "old."): data for path, data in pinned.items()}
    found = stand(side(old), head, tmp_path / "1")
    assert found.kind == "none"
    assert found.why == f"the pinned sample cannot be used: {path} is a symbolic link"


def test_a_damaged_sample_is_none(pinned: dict[str, bytes], tmp_path: Path) -> None:
    found = stand(side({}), side({**pinned, "new.sample/sample.json": b"{"}), tmp_path / "1")
    assert found.kind == "none"
    assert "new.sample/sample.json: no JSON" in found.why
    assert str(tmp_path) not in found.why
    [data] = [path for path in pinned if "/data/" in path]
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    found = stand(side({}), side({**pinned, data: pointer}), tmp_path / "2")
    assert (found.kind, "Git LFS" in found.why) == ("none", True)


@pytest.mark.parametrize(
    ("source", "offline", "kind"),
    [
        ("x.jsonl", True, "source"),
        ("file:///x.jsonl", True, "source"),
        ("s3://bucket/x", False, "source"),
        ("s3://bucket/x", True, "none"),
        ("hf://datasets/a/b", True, "none"),
    ],
)
def test_named_data_go_first(
    pinned: dict[str, bytes], tmp_path: Path, source: str, offline: bool, kind: str
) -> None:
    found = stand(side({}), side(pinned), tmp_path / "1", source=source, offline=offline)
    assert found.kind == kind
    assert bool(found.why) == (kind == "none")
