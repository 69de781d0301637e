"""The verdict: every reason with its level, on real replays of small data."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Readings
from ingot.agent.proposing.fingerprint import source_shape
from ingot.agent.review.changed_mappings import ChangedMapping
from ingot.agent.review.diff.change_rules import CLASSES, worst_class
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.agent.review.diff.normal_form import normal_form
from ingot.agent.review.golden_rows import GoldenFailure, GoldenResult
from ingot.agent.review.pinning.pin import pin_sample
from ingot.agent.review.pinning.pinned_sample import find_pinned
from ingot.agent.review.replay import Replay, SampleBasis, replay_mappings
from ingot.agent.review.revisions import Extent
from ingot.agent.review.verdict import LEVELS, Case, Reason, verdict_reasons, worst_level
from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample

ROWS = [{"id": n, "body": f"Text number {n}.", "same": "always"} for n in range(200)]
TEXT = {"version": 2, "text": "body"}
NONE = SampleBasis(kind="none", why="no sample")


@pytest.fixture
def raw(tmp_path: Path) -> str:
    place = tmp_path / "raw.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(place)


def read(document: dict[str, Any] | None) -> Mapping | None:
    return read_tree(document) if document else None


def case(old: dict[str, Any] | None, new: dict[str, Any] | None, ran: Replay, **given: Any) -> Case:
    """Two documents in normal form, and what they make of the sample."""
    status = "modified" if old and new else "added" if new else "removed"
    one = ChangedMapping(
        path="m.json", status=status, old=read(old), new=read(new), **given.pop("touched", {})
    )
    found = compare_mappings(normal_form(one.old), normal_form(one.new)) if old and new else ()
    known = {"kind": worst_class(found) if old and new else None, "changes": found, **given}
    return Case(touched=one, replay=ran, **known)


def judged(
    raw: str, old: dict[str, Any] | None, new: dict[str, Any], *, allow: bool = False, **given: Any
) -> list[Reason]:
    stand = SampleBasis(kind="source", place="the data", location=raw)
    return verdict_reasons(
        case(old, new, replay_mappings(stand, read(old), read(new)), **given), allow_breaking=allow
    )


def told(found: list[Reason]) -> set[tuple[str, str]]:
    return {(one.level, one.rule) for one in found}


def without(count: int) -> dict[str, Any]:
    return {**TEXT, "where": [{"path": "id", "not_in": list(range(count))}]}


def test_levels() -> None:
    assert worst_level(["pass", "block", "warn"]) == "block"
    assert worst_level([]) == "pass"
    assert LEVELS == ("pass", "warn", "block")
    assert CLASSES[-1] == "breaking"


@pytest.mark.parametrize(
    ("new", "level", "rule"),
    [
        (TEXT, "pass", "no_change"),
        ({**TEXT, "meta": {"original_id": "id"}}, "warn", "meta_original_id"),
        ({**TEXT, "text": ["id", "body"]}, "block", "text_path"),
    ],
)
def test_the_class_decides(raw: str, new: dict[str, Any], level: str, rule: str) -> None:
    found = judged(raw, TEXT, new)
    assert (level, rule) in told(found)
    assert worst_level(one.level for one in found) == level


def test_a_change_of_source_is_not_replayed_on_rows(raw: str, tmp_path: Path) -> None:
    source = open_source(raw)
    pin_sample(source, draw_sample(source), tmp_path / "m.sample")
    pinned = find_pinned(tmp_path / "m.sample")
    assert pinned is not None
    stand = SampleBasis(kind="pinned", place="m.sample", location=pinned.location, pinned=pinned)
    for facts, expected in (({}, False), ({"encoding": "utf-16"}, True)):
        new = {**TEXT, "source": facts} if facts else TEXT
        found = told(
            verdict_reasons(
                case(TEXT, new, replay_mappings(stand, read(TEXT), read(new))), allow_breaking=False
            )
        )
        assert (("pass", "source_not_replayed") in found) == expected
        assert (("block", "source_encoding") in found) == expected


def test_training_warns(raw: str) -> None:
    turns = [{"role": "user", "content": "id"}, {"role": "assistant", "content": "body"}]
    masked = [{**turns[0], "loss_mask": True}, turns[1]]
    found = judged(raw, {"version": 2, "messages": turns}, {"version": 2, "messages": masked})
    assert told(found) == {("warn", "loss_mask")}


@pytest.mark.parametrize(
    ("lost", "level", "text"),
    [
        (1, "warn", "records: 200 → 199 (-0.5 %)"),
        (2, "warn", "records: 200 → 198 (-1.0 %)"),
        (3, "block", "records: 200 → 197 (-1.5 %)"),
        (20, "block", "records: 200 → 180 (-10.0 %)"),
    ],
)
def test_lost_records(raw: str, lost: int, level: str, text: str) -> None:
    [reason] = [one for one in judged(raw, TEXT, without(lost)) if one.rule == "lost_records"]
    assert (reason.level, reason.text) == (level, text)
    allowed = judged(raw, TEXT, without(lost), allow=True)
    assert worst_level(one.level for one in allowed) == "warn"


def test_lost_records_are_not_made_up_for(raw: str) -> None:
    old = {**TEXT, "where": [{"path": "id", "not_in": [0, 1, 2, 3]}]}
    new = {**TEXT, "where": [{"path": "id", "not_in": [5, 6, 7]}]}
    [lost] = [one for one in judged(raw, old, new) if one.rule == "lost_records"]
    assert lost.text == "records: 196 → 197: 3 lost (1.5 %), 4 gained"
    assert lost.level == "block"
    assert ("pass", "gained_records") in told(judged(raw, without(9), TEXT))


@pytest.mark.more
def test_a_claim_that_the_sample_refutes(raw: str) -> None:
    other = {**TEXT, "text": ["id", "body"]}
    for kind in ("none", "additive", "meta", "training"):
        found = judged(raw, TEXT, other, kind=kind, changes=())
        assert ("block", "changed_records") in told(found)
        assert ("warn", "changed_records") in told(
            judged(raw, TEXT, other, kind=kind, changes=(), allow=True)
        )
    meta = {**TEXT, "meta": {"original_id": "id"}}
    for kind, refuted in (("none", True), ("additive", True), ("meta", False), ("training", False)):
        found = judged(raw, TEXT, meta, kind=kind, changes=())
        assert ("changed_records" in {one.rule for one in found}) is refuted


@pytest.mark.parametrize("allow", [True, False])
def test_failing_gates_block_whatever_is_allowed(raw: str, allow: bool) -> None:
    found = judged(raw, TEXT, {**TEXT, "text": "no_such"}, allow=allow)
    assert {("block", "unresolved_path"), ("block", "no_records")} <= told(found)
    [path] = [one for one in found if one.rule == "unresolved_path"]
    assert path.pointer == "/text"
    found = judged(raw, None, {**TEXT, "text": "no_such"}, allow=allow)
    assert ("block", "unresolved_path") in told(found)


def test_many_problems_are_cut(raw: str) -> None:
    paths = [f"no_{n}" for n in range(30)]
    found = judged(raw, None, {**TEXT, "text": ["body", *paths]})
    assert sum(one.level == "block" for one in found) == 11
    assert any("20 more problems" in one.text for one in found)


def test_gates_that_warn_anew_are_told(raw: str) -> None:
    constant = {**TEXT, "text": "same"}
    assert ("warn", "gate") in told(judged(raw, TEXT, constant))
    assert "gate" not in {one.rule for one in judged(raw, constant, constant)}


def test_coverage_that_falls_is_told(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    rows = [{"a": "x", "b": {"c": 1} if n == 7 else "y"} for n in range(100)]
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = judged(str(raw), {**TEXT, "text": "a"}, {**TEXT, "text": "b"})
    [fell] = [one for one in found if one.rule == "coverage_fell"]
    assert (fell.level, fell.text) == ("warn", "coverage: 100.0 % → 99.0 %")


def test_drift(raw: str, tmp_path: Path) -> None:
    data = Readings(location=raw).read(SourceSpec())
    kept = {**TEXT, "provenance": {"shape": source_shape(data.source, data.sample)}}
    assert "drift" not in {one.rule for one in judged(raw, TEXT, kept)}
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps({**row, "id": "x"}) + "\n" for row in ROWS))
    found = judged(str(other), TEXT, kept)
    [drift] = [one for one in found if one.rule == "drift"]
    assert (drift.level, drift.pointer) == ("block", "/provenance/shape")
    assert "id" in drift.text


def test_what_was_not_replayed(raw: str) -> None:
    found = verdict_reasons(case(TEXT, TEXT, Replay(stand=NONE)), allow_breaking=False)
    assert told(found) == {("warn", "not_replayed"), ("pass", "no_change")}
    nothing = {"version": 2, "text": None}
    found = verdict_reasons(case(nothing, nothing, Replay(stand=NONE)), allow_breaking=False)
    assert {one.level for one in found} == {"pass"}
    found = judged(raw, {**TEXT, "source": {"format": "parquet"}}, TEXT)
    assert ("warn", "old_not_replayed") in told(found)


def test_added_removed_broken() -> None:
    added = verdict_reasons(case(None, TEXT, Replay(stand=NONE)), allow_breaking=False)
    assert told(added) == {("pass", "added"), ("warn", "not_replayed")}
    removed = verdict_reasons(case(TEXT, None, Replay(stand=NONE)), allow_breaking=False)
    assert told(removed) == {("warn", "removed")}
    problems = tuple(Problem(f"/{n}", "schema", "x", "mail a@example.org") for n in range(12))
    one = ChangedMapping(path="m", status="broken", old=TEXT, problems=problems)
    broken = verdict_reasons(
        Case(touched=one, kind=None, changes=(), replay=Replay(stand=NONE)), allow_breaking=True
    )
    assert len(broken) == 11
    assert {one.level for one in broken} == {"block"}
    assert "a@example.org" not in "".join(one.text for one in broken)


@pytest.mark.more
def test_golden_rows(raw: str) -> None:
    good = GoldenResult(file="m.golden.jsonl", rows=2, failed=())
    assert ("pass", "golden") in told(judged(raw, TEXT, TEXT, golden=good))
    failed = GoldenResult(file="m", rows=2, failed=(GoldenFailure(line=2, why="text: other"),))
    [reason] = [
        one for one in judged(raw, TEXT, TEXT, golden=failed, allow=True) if one.rule == "golden"
    ]
    assert (reason.level, reason.text) == (
        "block",
        "golden rows: 1 of 2 pass; line 2: text: other",
    )
    assert ("block", "golden") in told(judged(raw, TEXT, TEXT, golden_fault="no row"))
    assert ("warn", "golden_removed") in told(judged(raw, TEXT, TEXT, golden_gone=True))


@pytest.mark.more
@pytest.mark.parametrize("name", ["sample", "golden"])
def test_proof_that_is_changed_along_is_told(raw: str, name: str) -> None:
    beside = {"touched": {"beside": frozenset([name])}}
    rule = f"{name}_changed"
    assert ("pass", rule) in told(judged(raw, TEXT, TEXT, **beside))
    assert ("warn", rule) in told(judged(raw, TEXT, {**TEXT, "text": "id"}, **beside))
    assert rule not in {one.rule for one in judged(raw, None, TEXT, **beside)}


@pytest.mark.parametrize(
    ("now", "rule", "text"),
    [
        (None, "sample_removed", "the pinned sample of 200 rows is gone"),
        ((1, 90), "sample_smaller", "the pinned sample has fewer rows: 200 → 1"),
        ((200, 40), "sample_smaller", "the pinned sample has fewer bytes: 90 → 40"),
        ((200, 80), "sample_changed", "the pinned sample was changed"),
    ],
)
def test_a_sample_that_shows_less_is_told(
    raw: str, now: tuple[int, int] | None, rule: str, text: str
) -> None:
    after = None if now is None else Extent(rows=now[0], size=now[1])
    extents = (Extent(rows=200, size=90), after)
    beside = {"touched": {"beside": frozenset(["sample"]), "samples": extents}}
    found = [one for one in judged(raw, TEXT, TEXT, **beside) if one.rule.startswith("sample_")]
    level = "pass" if rule == "sample_changed" else "warn"
    assert [(one.level, one.rule, one.text) for one in found] == [(level, rule, text)]


def test_the_gravest_come_first(raw: str) -> None:
    found = judged(raw, TEXT, {**without(1), "meta": {"original_id": "id"}})
    ranks = [LEVELS.index(one.level) for one in found]
    assert ranks == sorted(ranks, reverse=True)
    assert set(ranks) == {1, 2}


def test_reasons_are_redacted(raw: str) -> None:
    secret = {**TEXT, "text": ["body", {"literal": "write to ada@example.org"}]}
    assert "ada@example.org" not in "".join(one.text for one in judged(raw, TEXT, secret))


def test_values_under_a_star_are_told(tmp_path: Path) -> None:
    place = tmp_path / "raw.jsonl"
    turns = [{"by": name, "x": "q"} for name in ("Ann", "Pilot", "Tom")]
    place.write_text(json.dumps({"t": turns}) + "\n")
    table = {"Pilot": "assistant", "Ann": "user", "Tom": "user"}
    entry = {"each": "t[*]", "role": {"path": "by", "map": table}, "content": "x"}
    other = {**entry, "role": {"path": "by", "map": {"Pilot": "assistant", "*": "user"}}}
    found = judged(
        str(place), {"version": 2, "messages": [entry]}, {"version": 2, "messages": [other]}
    )
    [told_values] = [one for one in found if one.rule == "other_role_values"]
    assert (told_values.level, told_values.text) == (
        "pass",
        'role by by: 2 of 3 messages fall under "*" (user): Ann (1 times), Tom (1 times)',
    )
    assert ("pass", "role_map_value_added") in told(found)
