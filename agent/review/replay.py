"""Run both mappings on the same sample: the pinned one, or one of the data if it is at hand."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

from ingot.agent.context import Readings
from ingot.agent.judging.drift import find_drift, hide_changes, mapping_changes, stored_shape
from ingot.agent.judging.trial import Trial, shown_report, try_out
from ingot.agent.privacy import DIFFERS, EMPTY_TEXT, Safe, redact
from ingot.agent.proposing.fingerprint import source_shape
from ingot.agent.review.changed_mappings import ChangedMapping
from ingot.agent.review.pinning.pinned_sample import ABOUT, PinnedSample, find_pinned, pinned_folder
from ingot.agent.review.revisions import Side, describe_odd_files, write_sidecars
from ingot.agent.state import Change, Order
from ingot.converters.errors import MappingError, Problem, SourceError, StorageError
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.paths import Node
from ingot.converters.rows import Batch

Key = tuple[str, int, int]
Kind = Literal["changed", "lost", "gained"]


class SideFigures(TypedDict):
    """The counts of one side of a review, by what they count."""

    rows: int
    ok_rows: int
    records: int
    coverage: float
    failures: dict[str, int]
    roles: dict[str, int]
    chars: int
    trained_chars: int


class PlacedRecord(NamedTuple):
    """A record with its place.

    The key is its file, the number of its row among the sampled rows of the file, and the element
    of the row; `place` says the same in words, with the number of the row in the file if known.
    """

    key: Key
    place: str
    record: Record


class Difference(NamedTuple):
    """A place at which the records of both mappings are not the same."""

    kind: Kind
    place: str
    old: Record | None
    new: Record | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordMatch:
    """What became of the old mapping's records: `same` of `of` places have the same record.

    Records were matched by place, or else by their content. The differences are in the order of the
    sample.
    """

    by_place: bool
    same: int
    of: int
    differences: tuple[Difference, ...]

    def count(self, kind: Kind) -> int:
        """Count the differences of one kind."""
        return sum(one.kind == kind for one in self.differences)


def place_records(trial: Trial, *, source_name: str) -> list[PlacedRecord]:
    """Return the records that a mapping makes of its sample, in order."""
    unifier = RowExecutor(trial.mapping, source_name=source_name)
    if trial.mapping.kind == "irrelevant":
        return []
    seen: Counter[str] = Counter()
    found: list[PlacedRecord] = []
    for batch in sample_batches(trial.sample, trial.mapping):
        for at, node in enumerate(row_nodes(batch)):
            found += _row_records(unifier, node, batch, at, seen[batch.file] + at)
        seen[batch.file] += len(batch.rows)
    return found


def _row_records(
    unifier: RowExecutor, node: Node, batch: Batch, at: int, number: int
) -> Iterator[PlacedRecord]:
    """Yield the records of one row; elements that gave none keep their number."""
    records, failed = unifier.row(node)
    without = {element for element, _ in failed}
    elements = [n for n in range(len(records) + len(failed)) if n not in without]
    several = len(records) + len(failed) > 1
    for element, record in zip(elements, records, strict=False):
        place = f"{batch.file} row {batch.rows[at]}" if batch.rows[at] >= 0 else batch.file
        shown = f"{place}, element {element}" if several else place
        yield PlacedRecord((batch.file, number, element), shown, record)


def match_records(
    old: Sequence[PlacedRecord],
    new: Sequence[PlacedRecord],
    *,
    rows: tuple[Counter[str], Counter[str]],
) -> RecordMatch:
    """Compare the records of two mappings."""
    return _match_by_place(old, new) if rows[0] == rows[1] else _match_by_content(old, new)


def count_sampled_rows(trial: Trial) -> Counter[str]:
    """Count the rows, or groups of rows, of each file that a mapping is run on."""
    counts: Counter[str] = Counter()
    for batch in sample_batches(trial.sample, trial.mapping):
        counts[batch.file] += len(batch.rows)
    return +counts


def _match_by_place(old: Sequence[PlacedRecord], new: Sequence[PlacedRecord]) -> RecordMatch:
    before, after = ({one.key: one for one in side} for side in (old, new))
    files = {file: n for n, file in enumerate(dict.fromkeys(one.key[0] for one in (*old, *new)))}
    keys = sorted({*before, *after}, key=lambda key: (files[key[0]], *key[1:]))
    unlike = []
    for key in keys:
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            unlike.append(Difference("gained", now.place, None, now.record))
        elif was is not None and now is None:
            unlike.append(Difference("lost", was.place, was.record, None))
        elif was is not None and now is not None and was.record != now.record:
            unlike.append(Difference("changed", now.place, was.record, now.record))
    same = len(keys) - len(unlike)
    return RecordMatch(by_place=True, same=same, of=len(keys), differences=tuple(unlike))


def _match_by_content(old: Sequence[PlacedRecord], new: Sequence[PlacedRecord]) -> RecordMatch:
    before, after = (Counter(map(_record_text, side)) for side in (old, new))
    same = (before & after).total()
    lost = [Difference("lost", *one[1:], None) for one in _surplus_records(old, after)]
    gained = [
        Difference("gained", one.place, None, one.record) for one in _surplus_records(new, before)
    ]
    unlike = (*lost, *gained)
    return RecordMatch(by_place=False, same=same, of=same + len(unlike), differences=unlike)


def _record_text(one: PlacedRecord) -> str:
    return json.dumps(one.record, sort_keys=True)


def _surplus_records(side: Iterable[PlacedRecord], other: Counter[str]) -> Iterator[PlacedRecord]:
    """Yield the records that the other side does not have, or not as often."""
    left = Counter(other)
    for one in side:
        if left[_record_text(one)]:
            left[_record_text(one)] -= 1
        else:
            yield one


def match_trials(order: Order, old: Trial, new: Trial, share: str = "redacted") -> RecordMatch:
    """Match the records of two trials; its differences are shown as redacted rows have them."""
    name = order.source_name or new.source.name
    real = _match_samples(old, new, name)
    samples = [one.reading.show_sample(order, share) for one in (old, new)]
    if samples[0] is old.sample and samples[1] is new.sample:
        return real
    shown: tuple[Difference, ...] = ()
    if samples[0] and samples[1]:
        hidden = replace(old, sample=samples[0]), replace(new, sample=samples[1])
        shown = _match_samples(*hidden, name).differences
    if [one[:2] for one in shown] != [one[:2] for one in real.differences]:
        shown = tuple(map(_hide_difference, real.differences))
    return replace(real, differences=shown)


def _match_samples(old: Trial, new: Trial, name: str) -> RecordMatch:
    sides = (place_records(one, source_name=name) for one in (old, new))
    return match_records(*sides, rows=(count_sampled_rows(old), count_sampled_rows(new)))


def _hide_difference(one: Difference) -> Difference:
    """The kind of a difference alone: which rows it is in may say what is hidden."""
    told: Record = {"text": DIFFERS, "meta": {}}
    return Difference(one.kind, "", one.old and told, one.new and told)


_POINTER_OF_LFS = b"version https://git-lfs"


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleBasis:
    """What mappings are run on.

    Attributes:
        kind: `pinned`, `source`, or `none`.
        place: its name for people, "" if there is none.
        source_name: default of `meta.source`, None = the name of the location.
        sha256: of a pinned sample's files, else None.
    """

    kind: Literal["pinned", "source", "none"]
    place: Safe = EMPTY_TEXT
    why: Safe = EMPTY_TEXT
    location: str = ""
    source_name: str | None = None
    sha256: str | None = None
    folder: str = ""
    pinned: PinnedSample | None = None

    def hide_folder(self, text: str) -> Safe:
        """Return a message without secrets and without the temporary folder."""
        plain = text.replace(self.location, self.place) if self.location else text
        return redact(plain.replace(self.folder, self.place) if self.folder else plain)


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedMapping:
    """A mapping run on the sample: the trial, and its records by place."""

    trial: Trial
    records: tuple[PlacedRecord, ...]

    def figures(self) -> SideFigures:
        """Return the counts of one side of the review document, without its paths."""
        report = self.trial.report
        roles: Counter[str] = Counter()
        for one in self.records:
            roles.update(message["role"] for message in one.record.get("messages", ()))
            roles.update(["system"] * bool(one.record.get("system")))
        return {
            "rows": report.rows,
            "ok_rows": report.ok_rows,
            "records": report.records,
            "coverage": report.coverage,
            "failures": dict(sorted(report.failures.items())),
            "roles": dict(sorted(roles.items())),
            "chars": report.content.chars,
            "trained_chars": report.content.trained_chars,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What both mappings make of the sample.

    Attributes:
        old, new: None if there is no such mapping, no sample, or it cannot be run.
        old_fault: why the old one cannot be run, "" if it can.
        problems: problems of the new mapping on the sample; each is a failed gate.
        matched: None if not both were run.
        drift: of the sample against the shape that the new mapping was made for.
    """

    stand: SampleBasis
    old: TriedMapping | None = None
    new: TriedMapping | None = None
    old_fault: str = ""
    problems: tuple[Problem, ...] = ()
    matched: RecordMatch | None = None
    drift: tuple[Change, ...] = ()


def choose_sample(
    one: ChangedMapping, base: Side, head: Side, folder: Path, *, source: str | None, offline: bool
) -> SampleBasis:
    """Choose what a changed mapping is tried on."""
    if one.new is None:
        return SampleBasis(kind="none")
    if source is not None:
        if offline and "://" in source and not source.startswith("file://"):
            return SampleBasis(kind="none", why=redact(f"{source} is not read with --offline"))
        return SampleBasis(kind="source", place=redact(source), location=source)
    if (own := _pinned_basis(head, one.path, folder / "head")) is not None:
        return own
    found = _pinned_basis(base, one.old_path or one.path, folder / "base")
    if found is None or found.kind == "none":
        lacks = f"no pinned sample {pinned_folder(Path(one.path)).name} beside it, and no --source"
        return found or SampleBasis(kind="none", why=redact(lacks))
    return replace(found, place=redact(f"{found.place} of {base.name}"))


def _pinned_basis(side: Side, path: str, folder: Path) -> SampleBasis | None:
    """Return the pinned sample beside a mapping of one side, None if there is none."""
    place = pinned_folder(Path(path)).as_posix()
    if odd := describe_odd_files(side, path):
        said = redact(f"the pinned sample cannot be used: {side.shown(odd)}")
        return SampleBasis(kind="none", why=said)
    if f"{place}/{ABOUT}" not in side.files:
        return None
    shown = side.shown(place)
    laid = pinned_folder(write_sidecars(side, path, folder))
    files = (one for one in laid.rglob("*") if one.is_file())
    if any(one.read_bytes()[:100].startswith(_POINTER_OF_LFS) for one in files):
        return SampleBasis(
            kind="none", why=redact(f"{shown} is kept by Git LFS and was not fetched")
        )
    try:
        found = find_pinned(laid)
    except SourceError as error:
        why = f"the pinned sample cannot be used: {str(error).replace(str(laid), shown)}"
        return SampleBasis(kind="none", why=redact(why))
    if found is None:
        return None
    return SampleBasis(
        pinned=found,
        kind="pinned",
        place=redact(shown),
        location=found.location,
        source_name=found.source_name,
        sha256=found.sha256,
        folder=str(laid),
    )


def replay_mappings(stand: SampleBasis, old: Mapping | None, new: Mapping | None) -> Replay:
    """Run both mappings on the sample."""
    if stand.kind == "none" or new is None:
        return Replay(stand=stand)
    order = Order(source=stand.location, source_name=stand.source_name)
    readings = Readings(location=stand.location)
    after, problems, error = _run_mapping(readings, order, stand, new)
    before, faults, old_error = (
        _run_mapping(readings, order, stand, old) if old is not None else (None, (), None)
    )
    if stand.kind == "source" and error and (old is None or old_error):
        raise error
    matched = None
    if before is not None and after is not None:
        matched = match_trials(order, before.trial, after.trial)
    return Replay(
        stand=stand,
        old=before,
        new=after,
        old_fault="; ".join(map(str, faults)) if before is None else "",
        problems=problems,
        matched=matched,
        drift=_provenance_drift(new, after, order, stand),
    )


def _run_mapping(
    readings: Readings, order: Order, stand: SampleBasis, mapping: Mapping
) -> tuple[TriedMapping | None, tuple[Problem, ...], SourceError | None]:
    """Run a mapping; if that fails return the problems, and the reader's error if it is one."""
    mapping = stand.pinned.fit_mapping(mapping) if stand.pinned else mapping
    try:
        trial = try_out(readings, order, mapping, where="the mapping", show=0)
    except StorageError:
        raise
    except SourceError as error:
        said = stand.hide_folder(error.problem)
        unread = Problem("/source", "unreadable", "facts that the sample can be read by", said)
        return None, (unread,), error
    except MappingError as error:
        return None, error.problems, None
    name = order.source_name or trial.source.name
    records = tuple(place_records(trial, source_name=name))
    problems = shown_report(order, trial, show=0).problems
    if not trial.report.rows:
        expected = "facts that the sample can be read by"
        problems = (Problem("/source", "unreadable", expected, "no row"), *problems)
    return TriedMapping(trial=trial, records=records), problems, None


def _provenance_drift(
    mapping: Mapping,
    ran: TriedMapping | None,
    order: Order,
    stand: SampleBasis,
) -> tuple[Change, ...]:
    kept = stored_shape(mapping)
    if kept is None or ran is None:
        return ()
    now = source_shape(ran.trial.source, ran.trial.sample)
    changes = mapping_changes(find_drift(kept, now), ran.trial.mapping)
    if stand.pinned and stand.pinned.lines:  # its rows lie in files of another format
        changes = tuple(one for one in changes if one.what != "fact")
    hidden = ran.trial.reading.show_sample(order) is None
    return hide_changes(changes) if hidden else changes
