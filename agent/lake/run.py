"""A run over a lake: what is new or changed is mapped, gated and converted; then the catalog."""

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from ingot import __version__
from ingot.agent.lake import finishing, ledger
from ingot.agent.lake.looking import list_files, look_at_all
from ingot.agent.lake.order import HASHES, MAPPINGS, LakeOrder, key_of
from ingot.agent.lake.reviewing import files_key
from ingot.agent.lake.state import Kept
from ingot.agent.lake.workers import Broken, Workers
from ingot.agent.lake.working import Done, Task, work
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.model.budget import Spent
from ingot.agent.nodes.discover import raw_data
from ingot.agent.redaction import redact
from ingot.agent.waiting import MAPPING
from ingot.converters.commit import finished, writing
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.lake.facts import SetFacts
from ingot.converters.lake.survey import DataSet, Survey, survey
from ingot.converters.readers import Source
from ingot.converters.rows import Json

_ROOT: Final = "root"
_RAW: Final = "recognised"
_RESULTS: Final = ("converted", "nothing")


class Listener(Protocol):
    """Is told how far a run over a lake is."""

    def looking(self, done: int, files: int) -> None:
        """So many of so many new files were looked at."""

    def found(self, sets: int, todo: int) -> None:
        """So many data sets there are, and so many of them are new or have changed."""

    def settled(self, facts: SetFacts, done: int, todo: int) -> None:
        """A data set has come to its end."""

    def finishing(self, what: str) -> None:
        """What is done at the end."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run over a lake did.

    Attributes:
        sets: all data sets by name, those of earlier runs too.
        worked: names of those that this run worked at.
        left_out: files that belong to no data set: (name, why).
        files: number of files in the lake.
        spent: what asking a model took.
        seconds: how long it took.
    """

    sets: tuple[SetFacts, ...]
    worked: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    files: int
    spent: Spent = field(default_factory=Spent)
    seconds: float = 0.0


def find_sets(order: LakeOrder, workers: Workers, listener: Listener) -> tuple[Survey, int]:
    """The data sets that lie in the lake, and the number of its files.

    Raises:
        SourceError: the lake cannot be listed.
        OutputError: its folder cannot be used.
    """
    entries = list_files(order)
    recognised = _Recognised(order)
    seen = look_at_all(order, entries, workers, listener.looking)
    found = survey(order.root, seen, order.state.members(), recognised)
    recognised.keep()
    return found, len(entries)


class _Recognised:
    """What another command reads: looked at once, and again where the files have changed."""

    def __init__(self, order: LakeOrder) -> None:
        self._state = order.state
        self._known = self._state.note(_RAW) or {}
        self._told: dict[str, Json] = {}

    def __call__(self, source: Source) -> Proposal | None:
        """The proposal to use that command, None for all else."""
        stamps = [[e.name, e.bytes, e.mtime_ns, e.etag] for e in source.listing.entries]
        digest = hashlib.sha256(json.dumps([__version__, stamps]).encode()).hexdigest()
        known = self._known.get(source.location)
        if known and known[0] == digest:
            self._told[source.location] = known
            return None if known[1] is None else Proposal.from_json(known[1])
        try:
            said = raw_data(source)
        except SourceError:  # what cannot be read is told by the data set it belongs to
            return None
        self._told[source.location] = [digest, said and said.to_json()]
        return said

    def keep(self) -> None:
        """Remember what was recognised, and what was not."""
        if self._told != self._known:
            self._state.keep_note(_RAW, self._told)


def run(order: LakeOrder, listener: Listener, *, settle: float = 0.0) -> Report:
    """Bring the lake's folder up to date with its data; a killed run is gone on with.

    Args:
        order: what is ordered.
        listener: is told how far it is.
        settle: data sets with a file that was changed in so many last seconds are left for the next
            run: somebody may still be writing it.

    Raises:
        SourceError: the lake cannot be listed.
        OutputError: its folder cannot be written, is another lake's, or is in use.
    """
    begun = time.monotonic()
    with _held(order), Workers(order.jobs) as workers:
        found, files = find_sets(order, workers, listener)
        order.state.keep_note(_ROOT, _place_of(order))
        order.state.keep_note(MAPPINGS, str(order.mappings))
        order.state.keep_members(_members(found))
        ledger.begin_run(order.state)
        worked = _work(order, found, workers, listener, settle)
        sets = _with_gone(order, found)
        told = _told_of(order, found, files)
        sets = finishing.finish(order, sets, told, workers, listener.finishing)
        resting = any(one.status == "resting" for one in sets)
        spent = ledger.spent(order.state) if resting else ledger.end_run(order.state)
    return Report(
        sets=tuple(sets),
        worked=tuple(worked),
        left_out=tuple((redact(one.name), redact(one.why)) for one in found.left_out),
        files=files,
        spent=spent,
        seconds=time.monotonic() - begun,
    )


def _told_of(order: LakeOrder, found: Survey, files: int) -> dict[str, Json]:
    """What the page says of the lake as a whole: nothing that another run would say otherwise."""
    return {
        "files": files,
        "left_out": len(found.left_out),
        "dedup": "exact" if order.dedup else None,
        "split": order.splits.to_json() if order.splits else None,
    }


def _members(found: Survey) -> dict[str, str]:
    """The data set of every file."""
    members: dict[str, str] = {}
    for one in found.sets:
        names = [*(file.name for file in one.source.files), *(bad.name for bad in one.faults)]
        members |= dict.fromkeys(names, one.name)
        if not one.source.files:
            members |= {entry.name: one.name for entry in one.source.listing.entries}
    return members


def _work(
    order: LakeOrder, found: Survey, workers: Workers, listener: Listener, settle: float
) -> list[str]:
    """Work at what is new or changed; the names of it."""
    kept = order.state.sets()
    todo = [
        one
        for one in sorted(found.sets, key=lambda one: -sum(f.bytes for f in one.source.files))
        if _is_due(order, one, kept.get(one.name)) and not _is_written(one, settle)
    ]
    listener.found(len(found.sets), len(todo))
    waiting, done, jobs = list(todo), 0, order.jobs
    shapes = Counter(map(_shape, found.sets))
    alone = False  # where all wait for each other also one by one, nobody waits
    while waiting:
        pending = frozenset(() if alone else (one.name for one in waiting))
        tasks = [
            Task(
                order=order,
                data_set=one,
                has_mapping=order.mapping(one.name).is_file(),
                key=key_of(order, one),
                pending=pending,
                alone=shapes[_shape(one)] == 1,
            )
            for one in waiting
        ]
        waiting = []
        for task, result in workers.spread(work, tasks, jobs=jobs):
            facts = _kept(order, task, result)
            if facts is None:
                waiting.append(task.data_set)
            else:
                done += 1
                listener.settled(facts, done, len(todo))
        stuck = len(waiting) == len(tasks)
        alone, jobs = stuck and jobs == 1, 1 if stuck else order.jobs
    return [one.name for one in todo]


def _shape(one: DataSet) -> frozenset[str]:
    """What is known of the shape of a data set's rows before they are read."""
    return frozenset(name for file in one.source.files for name in file.facts.shape)


def _kept(order: LakeOrder, task: Task, result: Done | Broken) -> SetFacts | None:
    """The facts of a data set that has come to its end, kept; None where it was put off."""
    if isinstance(result, Broken):
        name = task.data_set.name
        facts = SetFacts(name=name, place=redact(task.data_set.place), status="failed")
        facts = replace(facts, why=redact(result.why), hint=_told(order, name, result.details))
        order.state.keep("", facts)
        return facts
    if result.facts is not None:
        order.state.keep("" if result.again else _key_after(order, task), result.facts)
    return result.facts


def _key_after(order: LakeOrder, task: Task) -> str:
    """The key under which a data set is left: that of the mapping which was executed.

    The mapping file itself may have been edited in the meantime, which is a change of its own.
    """
    executed = order.result(task.data_set.name) / MAPPING
    if task.has_mapping or not order.mapping(task.data_set.name).is_file():
        return task.key
    return key_of(order, task.data_set, mapping=executed if executed.is_file() else None)


def _told(order: LakeOrder, name: str, details: str) -> str:
    """Where the traceback of a mistake lies."""
    if not details:
        return ""
    file = order.state.folder / "mistakes" / f"{name}.txt"
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(details, encoding="utf-8")
    return f"please report it with {file}"


def _is_due(order: LakeOrder, one: DataSet, kept: Kept | None) -> bool:
    """Whether a data set is new, has changed, or has lost its result."""
    if kept is None:
        return True
    if kept.facts.status == "rejected" and not order.mapping(one.name).exists():
        return kept.key != files_key(one)
    if kept.key != key_of(order, one):
        return True
    return bool(kept.facts.result) and finished(order.result(one.name)) is None


def _is_written(one: DataSet, settle: float) -> bool:
    """Whether a file of a data set was changed so recently that it may still be written."""
    now, entries = time.time_ns(), one.source.listing.entries if settle else ()
    return any(abs(now - (entry.mtime_ns or 0)) < settle * 1e9 for entry in entries)


def _with_gone(order: LakeOrder, found: Survey) -> list[SetFacts]:
    """The facts of all data sets; of those whose files are gone, what has a result."""
    there = {one.name for one in found.sets}
    sets = []
    for name, kept in order.state.sets().items():
        if name in there:
            sets.append(kept.facts)
        elif kept.facts.result:
            gone = "its files are not there any more; its result is kept"
            facts = replace(kept.facts, status="gone", why=gone, hint="")
            order.state.keep("", facts)
            sets.append(facts)
        else:
            order.state.drop(name)
    return sets


@contextmanager
def _held(order: LakeOrder) -> Iterator[None]:
    """Hold the lake's folder for one run; the operating system frees it when the process dies.

    Raises:
        OutputError: another run holds it, it is another lake's, or it cannot be written.
    """
    folder = order.state.folder
    with writing(order.out):
        (folder / HASHES).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "wait for it or choose another folder"
            raise OutputError(str(order.out), "another run is working there", hint) from error
        _check_root(order)
        yield
    finally:
        os.close(descriptor)


def _check_root(order: LakeOrder) -> None:
    known = order.state.note(_ROOT)
    if known not in (None, _place_of(order)):
        problem = f"is the folder of another lake: {known}"
        raise OutputError(str(order.out), problem, "choose another folder for this one")


def _place_of(order: LakeOrder) -> str:
    """Where the lake lies, however its root was named."""
    local = "://" not in order.root
    return str(Path(order.root).expanduser().resolve()) if local else order.root.rstrip("/")


def counted(sets: Sequence[SetFacts]) -> Counter[str]:
    """Data sets by status."""
    return Counter(one.status for one in sets)
