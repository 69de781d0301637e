"""Both mappings run on the same sample: the pinned one, or one of the data where it is at hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ingot.agent.context import Context
from ingot.agent.drift import MOST_TOLD, Change, drift, for_mapping, kept_shape
from ingot.agent.fingerprint import shape
from ingot.agent.pinning.samples import ABOUT, pinned, pinned_folder
from ingot.agent.redaction import redact, redacted
from ingot.agent.review.matching import Matched, Placed, matched, placed, sampled_rows
from ingot.agent.review.revisions import Side, laid_out
from ingot.agent.review.sidecars import strange
from ingot.agent.review.touched import Document, Touched
from ingot.agent.state import Order
from ingot.agent.trial import Trial, facts, try_out
from ingot.converters.errors import MappingError, Problem, SourceError, StorageError
from ingot.converters.rows import Json

_POINTER_OF_LFS = b"version https://git-lfs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stand:
    """What mappings are run on.

    Attributes:
        kind: `pinned`, `source`, or `none`.
        place: how people call it, "" where there is none.
        why: why there is none.
        location: what is opened.
        source_name: default of `meta.source`, None = the name of the location.
        sha256: of a pinned sample's files, else None.
        folder: where it was laid out; a part of messages that says nothing to people.
    """

    kind: Literal["pinned", "source", "none"]
    place: str = ""
    why: str = ""
    location: str = ""
    source_name: str | None = None
    sha256: str | None = None
    folder: str = ""

    def said(self, text: str) -> str:
        """A message about it without secrets and without where it was laid out."""
        plain = text.replace(self.location, self.place) if self.location else text
        return redact(plain.replace(self.folder, self.place) if self.folder else plain)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A mapping run on the sample: the trial, and its records by place."""

    trial: Trial
    records: tuple[Placed, ...]

    def figures(self) -> dict[str, Json]:
        """The counts of one side of the review document but its paths."""
        report = self.trial.report
        return {
            "rows": report.rows,
            "ok_rows": report.ok_rows,
            "records": report.records,
            "coverage": report.coverage,
            "failures": dict(sorted(report.failures.items())),
            "roles": dict(sorted(self._roles().items())),
            "chars": report.content.chars,
            "trained_chars": report.content.trained_chars,
        }

    def _roles(self) -> Counter[str]:
        roles: Counter[str] = Counter()
        for one in self.records:
            roles.update(message["role"] for message in one.record.get("messages", ()))
            roles.update(["system"] * bool(one.record.get("system")))
        return roles

    def counts(self) -> dict[str, Json]:
        """What the gates are judged by."""
        return facts(self.trial.report)


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What both mappings make of the sample.

    Attributes:
        stand: the sample.
        old, new: None where there is no such mapping, no sample, or it cannot be run.
        old_fault: why the old one cannot be run, "" if it can.
        problems: of the new mapping on the sample; each is a failed gate.
        matched: None where not both were run.
        drift: of the sample against the shape that the new mapping was made for.
    """

    stand: Stand
    old: Ran | None = None
    new: Ran | None = None
    old_fault: str = ""
    problems: tuple[Problem, ...] = ()
    matched: Matched | None = None
    drift: tuple[Change, ...] = ()


def stand_of(
    one: Touched, base: Side, head: Side, folder: Path, *, source: str | None, offline: bool
) -> Stand:
    """What a changed mapping can be tried on.

    Args:
        one: the mapping.
        base: the side of the old one.
        head: the side of the new one.
        folder: an empty folder to lay pinned samples out in.
        source: where the data are, None = only a pinned sample serves.
        offline: whether data of another machine are out of reach.
    """
    if one.new is None:
        return Stand(kind="none")
    if source is not None:
        if offline and "://" in source and not source.startswith("file://"):
            return Stand(kind="none", why=f"{redact(source)} is not read with --offline")
        return Stand(kind="source", place=redact(source), location=source)
    if (own := _pinned(head, one.path, folder / "head")) is not None:
        return own
    found = _pinned(base, one.old_path or one.path, folder / "base")
    if found is None or found.kind == "none":
        return found or _no_sample(one.path)
    return replace(found, place=f"{found.place} of {redact(base.name)}")


def _no_sample(path: str) -> Stand:
    lacks = f"no pinned sample {pinned_folder(Path(path)).name} beside it, and no --source"
    return Stand(kind="none", why=lacks)


def _pinned(side: Side, path: str, folder: Path) -> Stand | None:
    """The pinned sample beside a mapping of one side, None where there is none."""
    place = pinned_folder(Path(path)).as_posix()
    if odd := strange(side, path):
        said = redact(f"the pinned sample cannot be used: {side.shown(odd)}")
        return Stand(kind="none", why=said)
    if f"{place}/{ABOUT}" not in side.files:
        return None
    shown = side.shown(place)
    laid = pinned_folder(laid_out(side, path, folder))
    if _not_fetched(laid):
        return Stand(kind="none", why=f"{shown} is kept by Git LFS and was not fetched")
    try:
        found = pinned(laid)
    except SourceError as error:
        said = str(error).replace(str(laid), shown)
        return Stand(kind="none", why=redact(f"the pinned sample cannot be used: {said}"))
    if found is None:
        return None
    return Stand(
        kind="pinned",
        place=shown,
        location=found.location,
        source_name=found.source_name,
        sha256=found.sha256,
        folder=str(laid),
    )


def _not_fetched(folder: Path) -> bool:
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(path.read_bytes()[:100].startswith(_POINTER_OF_LFS) for path in files)


def replay(stand: Stand, old: Document | None, new: Document | None) -> Replay:
    """Run both mappings on the sample.

    Args:
        stand: the sample; of kind `none` nothing is run.
        old: the old mapping, None where there is none.
        new: the new mapping, None where there is none.

    Raises:
        SourceError: the data that the user named cannot be read.
        StorageError: their storage cannot be reached.
    """
    if stand.kind == "none" or new is None:
        return Replay(stand=stand)
    context = Context()
    after, problems, error = _run(context, stand, new)
    before, faults, old_error = _run(context, stand, old) if old is not None else (None, (), None)
    if stand.kind == "source" and error and (old is None or old_error):
        raise error
    return Replay(
        stand=stand,
        old=before,
        new=after,
        old_fault="; ".join(map(str, faults)) if before is None else "",
        problems=problems,
        matched=_matched(before, after),
        drift=_drift(new, after),
    )


def _run(
    context: Context, stand: Stand, document: Document
) -> tuple[Ran | None, tuple[Problem, ...], SourceError | None]:
    """A mapping on the sample; or why it cannot be run, as problems, and the reader's error."""
    order = Order(source=stand.location, source_name=stand.source_name)
    try:
        trial = try_out(context, order, document, where="the mapping", show=0)
    except StorageError:
        raise
    except SourceError as error:
        said = stand.said(error.problem)
        unread = Problem("/source", "unreadable", "facts that the sample can be read by", said)
        return None, (unread,), error
    except MappingError as error:
        return None, error.problems, None
    name = order.source_name or trial.source.name
    records = tuple(placed(trial, source_name=name))
    return Ran(trial=trial, records=records), tuple(_problems(trial)), None


def _problems(trial: Trial) -> Iterator[Problem]:
    """What the check found, and that nothing was read where that is so."""
    if not trial.report.rows:
        expected = "facts that the sample can be read by"
        yield Problem("/source", "unreadable", expected, "no row")
    yield from trial.report.problems


def _matched(old: Ran | None, new: Ran | None) -> Matched | None:
    if old is None or new is None:
        return None
    rows = (sampled_rows(old.trial), sampled_rows(new.trial))
    return matched(old.records, new.records, rows=rows)


def _drift(document: Document, ran: Ran | None) -> tuple[Change, ...]:
    """What the mapping's provenance tells of the data that is not so in the sample."""
    kept = kept_shape(document)
    if kept is None or ran is None:
        return ()
    now = shape(ran.trial.source, ran.trial.sample)
    return for_mapping(drift(kept, now), ran.trial.mapping)


def drift_json(changes: Sequence[Change]) -> list[dict[str, Json]]:
    """Drift as plain JSON, redacted, cut where it is long."""
    return [{**one.to_json(), **redacted(one.texts())} for one in changes[:MOST_TOLD]]
