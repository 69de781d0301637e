"""A run over a lake: what is new or changed is mapped, gated and converted; then the catalog."""

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from ingot import __version__
from ingot.agent.lake import finishing, ledger
from ingot.agent.lake.looking import Listed, list_files, look_at_all
from ingot.agent.lake.one_call import GONE
from ingot.agent.lake.order import HASHES, MAPPINGS, LakeOrder, key_of
from ingot.agent.lake.reviewing import files_key
from ingot.agent.lake.state import Kept
from ingot.agent.lake.turns import Turn, Turns, keys
from ingot.agent.lake.workers import Broken, Workers
from ingot.agent.lake.working import Done, Task, work
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.model.budget import Spent
from ingot.agent.nodes.discover import raw_data
from ingot.agent.redaction import redact
from ingot.agent.waiting import MAPPING
from ingot.converters.commit import finished, write_file, writing
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.lake.facts import SetFacts, as_text
from ingot.converters.lake.record_hashes import WIDTH
from ingot.converters.lake.survey import DataSet, Survey, survey
from ingot.converters.readers import Source
from ingot.converters.rows import Json

_ROOT: Final = "root"
_RAW: Final = "recognised"


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
        left_out: files that are not read: (name, why).
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
    listed = list_files(order)
    return _surveyed(order, listed, workers, listener), len(listed.entries)


def _surveyed(order: LakeOrder, listed: Listed, workers: Workers, listener: Listener) -> Survey:
    recognised = _Recognised(order)
    looked = look_at_all(order, listed.entries, workers, listener.looking)
    seen = sorted([*looked, *listed.lost], key=lambda one: one.entry.name)
    found = survey(order.root, seen, order.state.members(), recognised)
    recognised.keep()
    return replace(found, left_out=(*found.left_out, *listed.left_out))


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


def run(
    order: LakeOrder, listener: Listener, *, settle: float = 0.0, watching: bool = False
) -> Report:
    """Bring the lake's folder up to date with its data; a killed run is gone on with.

    Args:
        order: what is ordered.
        listener: is told how far it is.
        settle: data sets with a file that was changed in so many seconds before it was listed are
            left for the next run: somebody may still be writing it.
        watching: another run follows within the same budget, which `ledger.end_run` ends.

    Raises:
        SourceError: the lake cannot be listed.
        OutputError: its folder cannot be written, is another lake's, or is in use.
    """
    begun, now = time.monotonic(), time.time_ns()
    listed = list_files(order)
    with _held(order), Workers(order.jobs) as workers:
        found = _surveyed(order, listed, workers, listener)
        order.state.keep_note(_ROOT, _place_of(order))
        order.state.keep_note(MAPPINGS, str(order.mappings))
        order.state.keep_members(_members(found))
        ledger.begin_run(order.state)
        order.state.keep_note(GONE, None)
        written = {one.name for one in found.sets if _is_written(one, now, settle)}
        worked = _work(order, found, workers, listener, written)
        sets = _with_gone(order, found)
        told = _told_of(order, found, len(listed.entries))
        left_out = [(as_text(redact(one.name)), redact(one.why)) for one in found.all_left_out()]
        finishing.tell_left_out(order, left_out)
        sets = finishing.finish(order, sets, told, workers, listener.finishing)
        spent = (ledger.spent if watching else ledger.end_run)(order.state)
    return Report(
        sets=tuple(sets),
        worked=tuple(worked),
        left_out=tuple(left_out),
        files=len(listed.entries),
        spent=spent,
        seconds=time.monotonic() - begun,
    )


def _told_of(order: LakeOrder, found: Survey, files: int) -> dict[str, Json]:
    """What the page says of the lake as a whole: nothing that another run would say otherwise."""
    return {
        "files": files,
        "left_out": len(found.all_left_out()),
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
    order: LakeOrder, found: Survey, workers: Workers, listener: Listener, written: set[str]
) -> list[str]:
    """Work at what is new or changed; the names of it."""
    kept = order.state.sets()
    todo = [
        one
        for one in sorted(found.sets, key=lambda one: -sum(f.bytes for f in one.source.files))
        if _is_due(order, one, kept.get(one.name)) and one.name not in written
    ]
    listener.found(len(found.sets), len(todo))
    turns, done, alike = Turns(todo), 0, Counter(map(keys, found.sets))
    while turns:
        tasks = [_task(order, one, alike) for one in turns.next()]
        ended: dict[str, str] = {}
        put_off: dict[str, str] = {}
        for task, result in workers.spread(work, tasks, jobs=1 if turns.one_by_one else None):
            facts = _kept(order, task, result)
            whose = put_off if facts is None else ended
            whose[task.data_set.name] = result.shape if isinstance(result, Done) else ""
            if facts is not None:
                done += 1
                listener.settled(facts, done, len(todo))
        turns.settle(ended, put_off)
    return [one.name for one in todo]


def _task(order: LakeOrder, turn: Turn, alike: Counter[frozenset[str]]) -> Task:
    one = turn.data_set
    return Task(
        order=order,
        data_set=one,
        has_mapping=order.mapping(one.name).is_file(),
        key=key_of(order, one),
        pending=turn.pending,
        after=turn.after,
        alone=alike[keys(one)] == 1,
    )


def _kept(order: LakeOrder, task: Task, result: Done | Broken) -> SetFacts | None:
    """The facts of a data set that has come to its end, kept; None where it was put off."""
    if isinstance(result, Broken):
        name = task.data_set.name
        facts = SetFacts(name=name, place=redact(task.data_set.place), status="failed")
        facts = replace(facts, why=redact(result.why), hint=_told(order, name, result.details))
        order.state.keep("", facts)
        return facts
    if result.facts is not None:
        key = "" if result.again else _key_after(order, task, result.facts)
        order.state.keep(_with_first(order, key, result.waits_for), result.facts)
        _keep_mapping(order, result.facts)
    return result.facts


def _key_after(order: LakeOrder, task: Task, facts: SetFacts) -> str:
    """The key under which a data set is left: that of the mapping which was executed.

    The mapping file itself may have been edited in the meantime, which is a change of its own.
    """
    if task.has_mapping or facts.status != "converted":
        return task.key
    return key_of(order, task.data_set, mapping=order.result(facts.name) / MAPPING)


def _with_first(order: LakeOrder, key: str, first: str) -> str:
    """The key of a data set that waits for the first of its shape: it changes with its mapping."""
    if not first:
        return key
    file = order.mapping(first)
    stamp = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return json.dumps([key, first, stamp])


def _keep_mapping(order: LakeOrder, facts: SetFacts) -> None:
    """The executed mapping as the approved one; one that is there already stays as it is.

    It comes last: a run that is killed before finds the data set not to have come to its end.
    """
    executed, file = order.result(facts.name) / MAPPING, order.mapping(facts.name)
    if facts.status != "converted" or file.exists():
        return
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, executed.read_bytes())


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
    if kept is None or not all(entry.tells_changes for entry in one.source.listing.entries):
        return True
    if kept.facts.status == "rejected" and not order.mapping(one.name).exists():
        return kept.key != files_key(one)
    first = json.loads(kept.key)[1] if kept.key.startswith("[") else ""
    if kept.key != _with_first(order, key_of(order, one), first):
        return True
    if kept.facts.status == "converted" and not _is_measured(order, kept.facts):
        return True
    return bool(kept.facts.result) and finished(order.result(one.name)) is None


def _is_measured(order: LakeOrder, facts: SetFacts) -> bool:
    """Whether the hashes of a data set's records are there, as far as their size tells."""
    file = order.hashes(facts.name)
    return file.is_file() and file.stat().st_size >= WIDTH * facts.figures.records


def _is_written(one: DataSet, listed: int, settle: float) -> bool:
    """Whether a file of a data set had changed so recently that it may still be written."""
    entries = one.source.listing.entries if settle else ()
    return any(abs(listed - (entry.mtime_ns or 0)) < settle * 1e9 for entry in entries)


def _with_gone(order: LakeOrder, found: Survey) -> list[SetFacts]:
    """The facts of all data sets; of those whose files are gone, what has a result."""
    there = {one.name for one in found.sets}
    sets = []
    for name, kept in order.state.sets().items():
        if name in there:
            sets.append(kept.facts)
        elif kept.facts.result and (order.out / kept.facts.result).is_dir():
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
