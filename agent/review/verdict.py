"""Reach the verdict on a changed mapping: every reason with its level, and the worst of them.

The class of the change is only a claim; what both mappings made of the sample counts too.
docs/review.md is the reference.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ingot.agent.judging.drift import first_changes
from ingot.agent.judging.sample_gates import ProblemsByCode, sample_gates
from ingot.agent.judging.trial import report_facts
from ingot.agent.privacy import Safe, redact
from ingot.agent.review.changed_mappings import ChangedMapping
from ingot.agent.review.diff.change_rules import RULES, Change
from ingot.agent.review.golden_rows import GoldenResult
from ingot.agent.review.replay import Replay, TriedMapping
from ingot.agent.review.revisions import shrunken_sample
from ingot.agent.state import Gate
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.rows.executor import Record

Level = Literal["pass", "warn", "block"]
LEVELS: tuple[Level, ...] = ("pass", "warn", "block")

MOST_LOST = 0.01  # of the old mapping's records on the sample
_SHOWN = 160
_MOST_PROBLEMS = 10
_OF_CLASS: dict[str, Level] = {
    "none": "pass",
    "additive": "pass",
    "meta": "warn",
    "training": "warn",
    "breaking": "block",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One reason for a verdict: its level, its rule, redacted words, and where in the new file."""

    level: Level
    rule: str
    text: Safe
    pointer: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What a verdict rests on.

    Attributes:
        kind: class of the change, None if there is nothing to compare.
        unclear: why two mappings cannot be compared, "" if they can.
        golden: the result of the golden rows, None if there are none.
        golden_fault: why the golden rows could not be run, "" if they could.
    """

    touched: ChangedMapping
    kind: str | None
    changes: tuple[Change, ...]
    replay: Replay
    unclear: str = ""
    golden: GoldenResult | None = None
    golden_fault: str = ""
    golden_gone: bool = False


def worst_level(levels: Iterable[Level]) -> Level:
    """Return the worst of some levels, `pass` if there are none."""
    return max(levels, key=LEVELS.index, default="pass")


def verdict_reasons(case: Case, *, allow_breaking: bool) -> list[Reason]:
    """Return every reason for a verdict, the worst first."""
    heavy: Level = "warn" if allow_breaking else "block"
    reasons = [*_status_reasons(case.touched)]
    if case.touched.new is not None:
        reasons += _change_reasons(case, heavy)
        reasons += _sidecar_reasons(case)
        reasons += _replay_reasons(case, heavy)
        reasons += _golden_reasons(case)
    return sorted(reasons, key=lambda one: -LEVELS.index(one.level))


def _status_reasons(touched: ChangedMapping) -> Iterator[Reason]:
    if touched.status == "broken":
        for one in touched.problems[:_MOST_PROBLEMS]:
            yield _make_reason("block", "broken", f"the file is not a mapping: {one}", one.pointer)
        if (remaining := len(touched.problems) - _MOST_PROBLEMS) > 0:
            yield _make_reason("block", "broken", f"{remaining} more problems in the file")
    levels: dict[str, tuple[Level, str]] = {
        "removed": ("warn", "the mapping was removed"),
        "added": ("pass", "the mapping is new: there is no older one to compare it with"),
        "renamed": ("pass", f"the file was {touched.old_path} before"),
    }
    if touched.status in levels:
        level, text = levels[touched.status]
        yield _make_reason(level, touched.status, text)


def _make_reason(level: Level, rule: str, text: str, pointer: str | None = None) -> Reason:
    return Reason(level=level, rule=rule, text=redact(text), pointer=pointer)


# --- what the mapping says


def _change_reasons(case: Case, heavy: Level) -> Iterator[Reason]:
    if case.unclear:
        yield _make_reason(
            "warn", "not_compared", f"the mappings cannot be compared: {case.unclear}"
        )
    if case.kind == "none":
        yield _make_reason("pass", "no_change", "the mapping means what it meant before")
    for one in case.changes:
        level = heavy if one.kind == "breaking" else _OF_CLASS[one.kind]
        text = f"{one.target}: {_change_text(one)}. {RULES[one.rule][1]}"
        yield _make_reason(level, one.rule, text, change_place(one))


def _change_text(change: Change) -> str:
    """Show what a change puts in place of what: `body → title + body`."""
    if change.old is None:
        return f"added: {_shorten(change.new or '')}"
    if change.new is None:
        return f"removed: {_shorten(change.old)}"
    return f"{_shorten(change.old)} → {_shorten(change.new)}"


def _shorten(text: str) -> str:
    return shorten_text(text, _SHOWN, "...")


def change_place(change: Change) -> str:
    """Return where a change stands in the new file; of what is gone the place around it."""
    return change.pointer.rpartition("/")[0] if change.new is None else change.pointer


def _sidecar_reasons(case: Case) -> Iterator[Reason]:
    """Yield changes of what proves the mapping right, made with it or alone."""
    touched = case.touched
    if touched.old is None:
        return
    with_mapping = case.kind != "none"
    level: Level = "warn" if with_mapping else "pass"
    suffix = " too" if with_mapping else ""
    if "sample" in touched.beside:
        if shrunk := shrunken_sample(*touched.samples):
            yield _make_reason("warn", *shrunk)
        else:
            yield _make_reason(level, "sample_changed", f"the pinned sample was changed{suffix}")
    if case.golden_gone:
        yield _make_reason("warn", "golden_removed", "the golden rows were removed")
    elif "golden" in touched.beside:
        yield _make_reason(level, "golden_changed", f"the golden rows were changed{suffix}")


# --- what it does to the sample


def _replay_reasons(case: Case, heavy: Level) -> Iterator[Reason]:
    replay = case.replay
    if replay.stand.kind == "none":
        new = case.touched.new
        idle = new is None or (new.kind == "irrelevant" and not new.any_of)
        reason = "the mapping converts nothing" if idle else replay.stand.why
        yield _make_reason("pass" if idle else "warn", "not_replayed", f"not replayed: {reason}")
        return
    for problem in replay.problems[:_MOST_PROBLEMS]:
        yield _make_reason("block", problem.code, f"on the sample: {problem}", problem.pointer)
    if (remaining := len(replay.problems) - _MOST_PROBLEMS) > 0:
        yield _make_reason("block", "check", f"on the sample: {remaining} more problems")
    yield from _source_reasons(case.touched, replay)
    if replay.old_fault:
        text = f"the old mapping cannot run on the sample: {replay.old_fault}"
        yield _make_reason("warn", "old_not_replayed", text)
    if replay.old and replay.new:
        yield from _record_reasons(replay, replay.old, replay.new, heavy)
        yield from _claim_reasons(case, heavy)
    if replay.new:
        for text in replay.new.trial.report.others:
            yield _make_reason("pass", "other_role_values", text)
        yield from _gate_reasons(replay.old, replay.new)
    yield from _drift_reasons(replay)


def _source_reasons(touched: ChangedMapping, replay: Replay) -> Iterator[Reason]:
    """Say if a change of `source` cannot be replayed: a sample of rows is read without it."""
    before, after = (one and one.source for one in (touched.old, touched.new))
    if replay.old and replay.stand.pinned and replay.stand.pinned.lines and before != after:
        text = "the pinned sample holds rows, so the change of source is judged by its rule alone"
        yield _make_reason("pass", "source_not_replayed", text, "/source")


def _record_reasons(
    replay: Replay, old: TriedMapping, new: TriedMapping, heavy: Level
) -> Iterator[Reason]:
    before, after = old.trial.report.records, new.trial.report.records
    lost, gained = _count_lost_and_gained(replay, before, after)
    counts = f"records: {before} → {after}"
    if lost:
        share = lost / before
        net = f" ({-100 * share:.1f} %)" if not gained else f": {lost} lost ({100 * share:.1f} %)"
        also = f", {gained} gained" if gained else ""
        level = heavy if share > MOST_LOST else "warn"
        yield _make_reason(level, "lost_records", f"{counts}{net}{also}")
    elif gained:
        yield _make_reason("pass", "gained_records", f"{counts} ({gained} gained)")
    shares = old.trial.report.coverage, new.trial.report.coverage
    if shares[1] < shares[0]:
        text = f"coverage: {100 * shares[0]:.1f} % → {100 * shares[1]:.1f} %"
        yield _make_reason("warn", "coverage_fell", text)


def _count_lost_and_gained(replay: Replay, before: int, after: int) -> tuple[int, int]:
    """Count records without a counterpart; by their number if places say nothing."""
    matched = replay.matched
    if matched is None or not matched.by_place:
        return max(0, before - after), max(0, after - before)
    return matched.count("lost"), matched.count("gained")


def _claim_reasons(case: Case, heavy: Level) -> Iterator[Reason]:
    """Check the class of the change against the sample."""
    matched = case.replay.matched
    if matched is None or not matched.by_place or case.kind in (None, "breaking"):
        return
    kind = case.kind or ""
    pairs = [(one.old, one.new) for one in matched.differences]
    unlike = [
        1
        for old, new in pairs
        if old and new and _comparable_record(old, kind) != _comparable_record(new, kind)
    ]
    if unlike:
        text = f"{len(unlike)} of {matched.of} sampled records differ though the change is "
        claim = {"none": "none", "additive": "additive"}.get(kind, f"only {kind}")
        yield _make_reason(heavy, "changed_records", f"{text}{claim}")


def _comparable_record(record: Record, kind: str) -> Record:
    """Drop from a record what a change of this class may touch."""
    reduced = {**record}
    if kind in ("meta", "training"):
        reduced.pop("meta", None)
    if kind == "training" and "messages" in reduced:
        reduced["messages"] = [
            {key: value for key, value in one.items() if key != "loss_mask"}
            for one in reduced["messages"]
        ]
    return reduced


def _gate_reasons(old: TriedMapping | None, new: TriedMapping) -> Iterator[Reason]:
    """Yield the gates that warn of the new mapping, and did not of the old one."""
    known = {gate.name for gate in _warning_gates(old)} if old else set()
    for gate in _warning_gates(new):
        if gate.name not in known:
            yield _make_reason("warn", "gate", f"{gate.name}: {gate.figure}, limit: {gate.limit}")


def _warning_gates(ran: TriedMapping) -> list[Gate]:
    if ran.trial.mapping.kind == "irrelevant":
        return []
    return [
        gate
        for gate in sample_gates(report_facts(ran.trial.report), ProblemsByCode([]))
        if gate.state == "warn"
    ]


def _drift_reasons(replay: Replay) -> Iterator[Reason]:
    levels: dict[Level, bool] = {"block": True, "warn": False}
    for level, stops in levels.items():
        if changes := [one for one in replay.drift if one.stops == stops]:
            problem = "the sample does not have the shape that the mapping was made for"
            text = f"{problem}: {first_changes(changes)}"
            yield _make_reason(level, "drift", text, "/provenance/shape")


def _golden_reasons(case: Case) -> Iterator[Reason]:
    if case.golden_fault:
        yield _make_reason("block", "golden", f"golden rows: {case.golden_fault}")
    if case.golden is None:
        return
    rows, failed = case.golden.rows, case.golden.failed
    passed = f"golden rows: {rows - len(failed)} of {rows} pass"
    if not failed:
        yield _make_reason("pass", "golden", passed)
        return
    first = f"line {failed[0].line}: {_shorten(failed[0].why)}"
    yield _make_reason("block", "golden", f"{passed}; {first}")
