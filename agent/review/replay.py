"""Run both mappings on the same sample: the pinned one, or one of the data if it is at hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ingot.agent.context import Context
from ingot.agent.judging.drift import (
    find_drift,
    mapping_changes,
    redacted_changes,
    stored_shape,
)
from ingot.agent.judging.trial import Trial, try_out
from ingot.agent.privacy import redact
from ingot.agent.proposing.fingerprint import source_shape
from ingot.agent.review.changed_mappings import ChangedMapping, Document
from ingot.agent.review.pinning.pinned_sample import ABOUT, find_pinned, pinned_folder
from ingot.agent.review.record_matching import (
    PlacedRecord,
    RecordMatch,
    count_sampled_rows,
    match_records,
    place_records,
)
from ingot.agent.review.revisions import Side, describe_odd_files, write_sidecars
from ingot.agent.state import Change, Order
from ingot.converters.errors import MappingError, Problem, SourceError, StorageError
from ingot.converters.json_yaml import encode
from ingot.converters.rows import Json

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
    place: str = ""
    why: str = ""
    location: str = ""
    source_name: str | None = None
    sha256: str | None = None
    folder: str = ""

    def hide_folder(self, text: str) -> str:
        """Return a message without secrets and without the temporary folder."""
        plain = text.replace(self.location, self.place) if self.location else text
        return redact(plain.replace(self.folder, self.place) if self.folder else plain)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRun:
    """A mapping run on the sample: the trial, and its records by place."""

    trial: Trial
    records: tuple[PlacedRecord, ...]

    def figures(self) -> dict[str, Json]:
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
    old: SampleRun | None = None
    new: SampleRun | None = None
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
            return SampleBasis(kind="none", why=f"{redact(source)} is not read with --offline")
        return SampleBasis(kind="source", place=redact(source), location=source)
    if (own := _pinned_basis(head, one.path, folder / "head")) is not None:
        return own
    found = _pinned_basis(base, one.old_path or one.path, folder / "base")
    if found is None or found.kind == "none":
        lacks = f"no pinned sample {pinned_folder(Path(one.path)).name} beside it, and no --source"
        return found or SampleBasis(kind="none", why=lacks)
    return replace(found, place=f"{found.place} of {redact(base.name)}")


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
    if _is_not_fetched(laid):
        return SampleBasis(kind="none", why=f"{shown} is kept by Git LFS and was not fetched")
    try:
        found = find_pinned(laid)
    except SourceError as error:
        said = str(error).replace(str(laid), shown)
        return SampleBasis(kind="none", why=redact(f"the pinned sample cannot be used: {said}"))
    if found is None:
        return None
    return SampleBasis(
        kind="pinned",
        place=shown,
        location=found.location,
        source_name=found.source_name,
        sha256=found.sha256,
        folder=str(laid),
    )


def _is_not_fetched(folder: Path) -> bool:
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(path.read_bytes()[:100].startswith(_POINTER_OF_LFS) for path in files)


def replay_mappings(stand: SampleBasis, old: Document | None, new: Document | None) -> Replay:
    """Run both mappings on the sample."""
    if stand.kind == "none" or new is None:
        return Replay(stand=stand)
    context = Context()
    after, problems, error = _run_mapping(context, stand, new)
    before, faults, old_error = (
        _run_mapping(context, stand, old) if old is not None else (None, (), None)
    )
    if stand.kind == "source" and error and (old is None or old_error):
        raise error
    return Replay(
        stand=stand,
        old=before,
        new=after,
        old_fault="; ".join(map(str, faults)) if before is None else "",
        problems=problems,
        matched=_match_runs(before, after),
        drift=_provenance_drift(new, after),
    )


def _run_mapping(
    context: Context, stand: SampleBasis, document: Document
) -> tuple[SampleRun | None, tuple[Problem, ...], SourceError | None]:
    """Run a mapping; if that fails return the problems, and the reader's error if it is one."""
    order = Order(source=stand.location, source_name=stand.source_name)
    try:
        trial = try_out(context, order, document, where="the mapping", show=0)
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
    return SampleRun(trial=trial, records=records), tuple(_trial_problems(trial)), None


def _trial_problems(trial: Trial) -> Iterator[Problem]:
    if not trial.report.rows:
        expected = "facts that the sample can be read by"
        yield Problem("/source", "unreadable", expected, "no row")
    yield from trial.report.problems


def _match_runs(old: SampleRun | None, new: SampleRun | None) -> RecordMatch | None:
    if old is None or new is None:
        return None
    rows = (count_sampled_rows(old.trial), count_sampled_rows(new.trial))
    return match_records(old.records, new.records, rows=rows)


def _provenance_drift(document: Document, ran: SampleRun | None) -> tuple[Change, ...]:
    kept = stored_shape(document)
    if kept is None or ran is None:
        return ()
    now = source_shape(ran.trial.source, ran.trial.sample)
    return mapping_changes(find_drift(kept, now), ran.trial.mapping)


def drift_json(changes: Sequence[Change]) -> list[dict[str, Json]]:
    """Return drift as plain JSON, redacted and cut."""
    return [encode(one) for one in redacted_changes(changes)]
