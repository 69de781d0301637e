"""Run over a lake: map, gate and convert what is new or changed, then write the catalog."""

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
from ingot.agent.lake import finish, shared_model
from ingot.agent.lake.data_set import SetResult, SetTask, work_on_set
from ingot.agent.lake.file_scan import Counted, LakeListing, list_files, scan_files
from ingot.agent.lake.lake_order import HASHES, MAPPINGS, LakeOrder, data_set_key, files_key
from ingot.agent.lake.lake_state import KnownSet
from ingot.agent.lake.shared_model import GONE, QueuedSet, TurnQueue, shape_keys
from ingot.agent.model.budget import Spent
from ingot.agent.nodes.discover import raw_data_proposal
from ingot.agent.privacy import redact
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.reporting.proposal_folder import MAPPING
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.lake.catalog import SetFacts, encodable_value
from ingot.converters.lake.record_hashes import WIDTH
from ingot.converters.lake.survey import DataSet, Survey, survey_lake
from ingot.converters.output.commit import find_finished
from ingot.converters.output.files import LockedError, output_errors, take_lock, write_file
from ingot.converters.output.worker_pool import TaskFailure, Workers
from ingot.converters.rows import Json
from ingot.converters.sources import Source

_ROOT: Final = "root"
_RAW: Final = "recognised"


class LakeListener(Protocol):
    """Shows the progress of a run over a lake."""

    def show_scan(self, done: int, files: int) -> None:
        """Show how many of the new files were inspected."""

    def show_sets(self, sets: int, todo: int) -> None:
        """Show how many data sets there are, and how many of them are new or have changed."""

    def show_done(self, facts: SetFacts, done: int, todo: int) -> None:
        """Show a data set that is done."""

    def show_step(self, what: str) -> None:
        """Show which step at the end begins."""


@dataclass(frozen=True, kw_only=True)
class LakeReport:
    """What a run over a lake did.

    `sets` are all data sets by name, also those of earlier runs, `worked` the names of those that
    this run worked on, `left_out` the files that are not read (name, why).
    """

    sets: tuple[SetFacts, ...]
    worked: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    files: int
    spent: Spent = field(default_factory=Spent)
    seconds: float = 0.0


def find_sets(order: LakeOrder, workers: Workers, hear: Counted) -> tuple[Survey, int]:
    """Find the data sets of the lake, and count its files."""
    listed = list_files(order)
    return _survey_files(order, listed, workers, hear), len(listed.entries)


def _survey_files(order: LakeOrder, listed: LakeListing, workers: Workers, hear: Counted) -> Survey:
    recognised = _RawDataRecognizer(order)
    looked = scan_files(order, listed.entries, workers, hear)
    seen = sorted([*looked, *listed.lost], key=lambda one: one.entry.name)
    found = survey_lake(order.root, seen, order.state.members(), recognised)
    recognised.keep()
    return replace(found, left_out=(*found.left_out, *listed.left_out))


class _RawDataRecognizer:
    """Recognises what another command reads; looks again only where the files have changed."""

    def __init__(self, order: LakeOrder) -> None:
        self._state = order.state
        self._known = self._state.note(_RAW) or {}
        self._told: dict[str, Json] = {}

    def __call__(self, source: Source) -> Proposal | None:
        stamps = [[e.name, e.bytes, e.mtime_ns, e.etag] for e in source.listing.entries]
        digest = hashlib.sha256(json.dumps([__version__, stamps]).encode()).hexdigest()
        known = self._known.get(source.location)
        if known and known[0] == digest:
            self._told[source.location] = known
            return None if known[1] is None else decode(Proposal, known[1])
        try:
            said = raw_data_proposal(source)
        except SourceError:  # what cannot be read is told by the data set it belongs to
            return None
        self._told[source.location] = [digest, said and encode(said)]
        return said

    def keep(self) -> None:
        """Remember what was recognised, and what was not."""
        if self._told != self._known:
            self._state.keep_note(_RAW, self._told)


def run_lake(
    order: LakeOrder, listener: LakeListener, *, settle: float = 0.0, watching: bool = False
) -> LakeReport:
    """Bring the lake's folder up to date with its data; an interrupted run is resumed."""
    begun, now = time.monotonic(), time.time_ns()
    listed = list_files(order)
    with _lock_folder(order), Workers(order.jobs) as workers:
        found = _survey_files(order, listed, workers, listener.show_scan)
        order.state.keep_note(_ROOT, _lake_place(order))
        order.state.keep_note(MAPPINGS, str(order.mappings))
        order.state.keep_members(_set_by_file(found))
        shared_model.begin_run(order.state)
        order.state.keep_note(GONE, None)
        written = {one.name for one in found.sets if _is_written(one, now, settle)}
        worked = _work_through(order, found, workers, listener, written)
        sets = _facts_with_gone(order, found)
        told = {
            "files": len(listed.entries),
            "left_out": len(found.all_left_out()),
            "dedup": "exact" if order.dedup else None,
            "split": order.splits.to_json() if order.splits else None,
        }
        left_out = [
            (encodable_value(redact(one.name)), redact(one.why)) for one in found.all_left_out()
        ]
        finish.write_left_out(order, left_out)
        sets = finish.finish_run(order, sets, told, workers, listener.show_step)
        spent = (shared_model.count_spending if watching else shared_model.end_run)(order.state)
    return LakeReport(
        sets=tuple(sets),
        worked=tuple(worked),
        left_out=tuple(left_out),
        files=len(listed.entries),
        spent=spent,
        seconds=time.monotonic() - begun,
    )


def _set_by_file(found: Survey) -> dict[str, str]:
    members: dict[str, str] = {}
    for one in found.sets:
        names = [*(file.name for file in one.source.files), *(bad.name for bad in one.faults)]
        members |= dict.fromkeys(names, one.name)
        if not one.source.files:
            members |= {entry.name: one.name for entry in one.source.listing.entries}
    return members


def _work_through(
    order: LakeOrder, found: Survey, workers: Workers, listener: LakeListener, written: set[str]
) -> list[str]:
    """Work on what is new or changed, and return its names."""
    kept = order.state.sets()
    todo = [
        one
        for one in sorted(found.sets, key=lambda one: -sum(f.bytes for f in one.source.files))
        if _is_due(order, one, kept.get(one.name)) and one.name not in written
    ]
    listener.show_sets(len(found.sets), len(todo))
    turns, done, alike = TurnQueue(todo), 0, Counter(map(shape_keys, found.sets))
    while turns:
        tasks = [_make_task(order, one, alike) for one in turns.next()]
        ended: dict[str, str] = {}
        put_off: dict[str, str] = {}
        for task, result in workers.spread(
            work_on_set, tasks, jobs=1 if turns.runs_alone else None
        ):
            facts = _keep_result(order, task, result)
            whose = put_off if facts is None else ended
            whose[task.data_set.name] = result.shape if isinstance(result, SetResult) else ""
            if facts is not None:
                done += 1
                listener.show_done(facts, done, len(todo))
        turns.settle(ended, put_off)
    return [one.name for one in todo]


def _make_task(order: LakeOrder, turn: QueuedSet, alike: Counter[frozenset[str]]) -> SetTask:
    one = turn.data_set
    return SetTask(
        order=order,
        data_set=one,
        has_mapping=order.mapping(one.name).is_file(),
        key=data_set_key(order, one),
        pending=turn.pending,
        after=turn.after,
        alone=alike[shape_keys(one)] == 1,
    )


def _keep_result(
    order: LakeOrder, task: SetTask, result: SetResult | TaskFailure
) -> SetFacts | None:
    """Keep and return the facts of a data set that is done; None if it was put off."""
    if isinstance(result, TaskFailure):
        name = task.data_set.name
        facts = SetFacts(name=name, place=redact(task.data_set.place), status="failed")
        facts = replace(
            facts, why=redact(result.why), hint=_write_traceback(order, name, result.details)
        )
        order.state.keep("", facts)
        return facts
    if result.facts is not None:
        key = "" if result.again else _key_after(order, task, result.facts)
        order.state.keep(_key_with_first(order, key, result.waits_for), result.facts)
        _keep_mapping(order, result.facts)
    return result.facts


def _key_after(order: LakeOrder, task: SetTask, facts: SetFacts) -> str:
    """Return the key of the mapping that was executed.

    The mapping file itself may have been edited in the meantime, which is a change of its own.
    """
    if task.has_mapping or facts.status != "converted":
        return task.key
    return data_set_key(order, task.data_set, mapping=order.result(facts.name) / MAPPING)


def _key_with_first(order: LakeOrder, key: str, first: str) -> str:
    """Extend the key of a data set by the mapping of the one that it waits for."""
    if not first:
        return key
    file = order.mapping(first)
    stamp = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return json.dumps([key, first, stamp])


def _keep_mapping(order: LakeOrder, facts: SetFacts) -> None:
    """Keep the executed mapping as the approved one, unless there is one.

    It comes last: a data set of a run that is killed before is not done.
    """
    executed, file = order.result(facts.name) / MAPPING, order.mapping(facts.name)
    if facts.status != "converted" or file.exists():
        return
    with output_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, executed.read_bytes())


def _write_traceback(order: LakeOrder, name: str, details: str) -> str:
    """Write the traceback of a crash, and return a hint that names the file."""
    if not details:
        return ""
    file = order.state.folder / "mistakes" / f"{name}.txt"
    with output_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(details, encoding="utf-8")
    return f"please report it with {file}"


def _is_due(order: LakeOrder, one: DataSet, kept: KnownSet | None) -> bool:
    """Check whether a data set is new, has changed, or has lost its result."""
    if kept is None or not all(entry.tells_changes for entry in one.source.listing.entries):
        return True
    if kept.facts.status == "rejected" and not order.mapping(one.name).exists():
        return kept.key != files_key(one)
    first = json.loads(kept.key)[1] if kept.key.startswith("[") else ""
    if kept.key != _key_with_first(order, data_set_key(order, one), first):
        return True
    if kept.facts.status == "converted" and not _is_measured(order, kept.facts):
        return True
    return bool(kept.facts.result) and find_finished(order.result(one.name)) is None


def _is_measured(order: LakeOrder, facts: SetFacts) -> bool:
    """Check that the hashes of a data set's records are there, as far as their size tells."""
    file = order.hashes(facts.name)
    return file.is_file() and file.stat().st_size >= WIDTH * facts.figures.records


def _is_written(one: DataSet, listed: int, settle: float) -> bool:
    """Check whether a file changed so recently that it may still be written."""
    entries = one.source.listing.entries if settle else ()
    return any(abs(listed - (entry.mtime_ns or 0)) < settle * 1e9 for entry in entries)


def _facts_with_gone(order: LakeOrder, found: Survey) -> list[SetFacts]:
    """Return the facts of all data sets; if their files are removed, of those with a result."""
    there = {one.name for one in found.sets}
    sets = []
    for name, kept in order.state.sets().items():
        if name in there:
            sets.append(kept.facts)
        elif kept.facts.result and (order.out / kept.facts.result).is_dir():
            gone = "its files were removed; its result is kept"
            facts = replace(kept.facts, status="gone", why=gone, hint="")
            order.state.keep("", facts)
            sets.append(facts)
        else:
            order.state.drop(name)
    return sets


@contextmanager
def _lock_folder(order: LakeOrder) -> Iterator[None]:
    """Hold the lake's folder for one run."""
    folder = order.state.folder
    with output_errors(order.out):
        (folder / HASHES).mkdir(parents=True, exist_ok=True)
        try:
            descriptor = take_lock(folder / "lock")
        except LockedError as error:
            hint = "wait for it or choose another folder"
            raise OutputError(str(order.out), "another run is working there", hint) from error
    try:
        _check_root(order)
        yield
    finally:
        os.close(descriptor)


def _check_root(order: LakeOrder) -> None:
    known = order.state.note(_ROOT)
    if known not in (None, _lake_place(order)):
        problem = f"is the folder of another lake: {known}"
        raise OutputError(str(order.out), problem, "choose another folder for this one")


def _lake_place(order: LakeOrder) -> str:
    """Return where the lake lies, however its root was named."""
    local = "://" not in order.root
    return str(Path(order.root).expanduser().resolve()) if local else order.root.rstrip("/")
