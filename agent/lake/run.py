"""Run over a lake: map, gate and convert what is new or changed, then write the catalog."""

import hashlib
import json
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from ingot.agent.judging.source_gates import redacted_left_out
from ingot.agent.lake import shared_model
from ingot.agent.lake.data_set import SetResult, SetTask, work_on_set
from ingot.agent.lake.file_scan import find_sets, list_files, scan_part
from ingot.agent.lake.lake_order import (
    CORPUS,
    HASHES,
    MAPPINGS,
    LakeOrder,
    data_set_key,
    files_key,
    job_document,
    lake_place,
)
from ingot.agent.lake.lake_state import KnownSet
from ingot.agent.lake.shared_model import GONE, TurnQueue, shape_keys
from ingot.agent.model.budget import Spent
from ingot.agent.privacy import EMPTY_TEXT, Safe, redact
from ingot.agent.proposing.proposal import SURE_CONFIDENCE
from ingot.agent.reporting.report import mapping_bytes
from ingot.converters.errors import IngotError, OutputError, PartDone
from ingot.converters.json_yaml import find_json
from ingot.converters.lake import corpus
from ingot.converters.lake.catalog import SetFacts, Split, encodable_value, write_catalog
from ingot.converters.lake.duplicates import Duplicates, find_or_recall
from ingot.converters.lake.page import render_lake_page
from ingot.converters.lake.record_hashes import ALL, HASHES_HEADER, WIDTH
from ingot.converters.lake.survey import DataSet, Survey, group_by_reason
from ingot.converters.mapping.bind import read_tree
from ingot.converters.output.difference import describe_difference
from ingot.converters.output.files import (
    LockedError,
    hold_lock,
    output_errors,
    remove_unfinished,
    take_lock,
    write_file,
)
from ingot.converters.output.pieces import part_done
from ingot.converters.output.sharding import (
    JOB_FILE,
    OTHER_PARTS,
    OTHER_PARTS_HINT,
    JobShard,
    note_job,
)
from ingot.converters.output.store_commit import find_result
from ingot.converters.output.worker_pool import Spreading, TaskFailure
from ingot.converters.progress import raise_if_stopping, until_stopping
from ingot.converters.records.schema import json_line

_ROOT: Final = "root"
_RESULTS: Final = "results"
_DROPS: Final = "drops"
_REPEATS: Final = "repeats.json"
CATALOG: Final = "catalog.parquet"
PAGE: Final = "index.html"
LEFT_OUT: Final = "left_out.jsonl"


@dataclass(frozen=True, slots=True)
class LakeProgress:
    """How far a run over a lake is.

    Attributes:
        stage: `files` (inspected, of those that are new), `data sets` (done, of those that are new
            or changed), or the name of a step at the end.
        sets: all data sets, where their number became known.
        facts: the data set that was done last.
    """

    stage: str
    done: int = 0
    whole: int = 1
    sets: int | None = None
    facts: SetFacts | None = None


Listener = Callable[[LakeProgress], None]


@dataclass(frozen=True, kw_only=True)
class LakeReport:
    """All data sets by name, the names of those worked on, the files not read (name, why)."""

    sets: tuple[SetFacts, ...]
    worked: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    files: int
    spent: Spent = field(default_factory=Spent)
    seconds: float = 0.0


def _run_part(order: LakeOrder, shard: JobShard, listen: Listener) -> PartDone:
    """Do the part of a lake that `order.shard` names; a run that merges does the rest.

    First each part looks into its own files, then, when all have, it works on its data sets.
    """
    started_ns, listed = time.time_ns(), list_files(order)

    def hear(done: int, total: int) -> None:
        listen(LakeProgress("files", done, total))

    with _lock_folder(order, shared=True), order.open_workers() as workers:
        with output_errors(order.out), hold_lock(order.state.folder / "begin", wait_s=math.inf):
            _check_job(order)
            note_job(order.state.folder, job_document(order))
        if scan_part(order, listed, workers, hear):
            return part_done(order.out, shard, [one.bytes or 0 for one in listed.entries], "1/2")
        survey = find_sets(order, listed, workers, hear)
        by_size = sorted(survey.sets, key=lambda one: -sum(f.bytes for f in one.source.files))
        own_survey = replace(survey, sets=tuple(by_size[shard.number :: shard.count]))
        written = {one.name for one in own_survey.sets if _is_written(one, started_ns, 0.0)}
        _work_through(order, own_survey, workers, listen, written)
        return PartDone(str(order.out), str(shard), len(own_survey.sets), len(survey.sets), None)


def run_lake(
    order: LakeOrder, listen: Listener, *, settle: float = 0.0, watching: bool = False
) -> LakeReport:
    """Bring the lake's folder up to date with its data; an interrupted run is resumed.

    Raises PartDone where the order is a part of a run.
    """
    if order.shard is not None and not order.shard.merges:
        raise _run_part(order, order.shard, listen)
    started, started_ns, state = time.monotonic(), time.time_ns(), order.state
    listed = list_files(order)
    with _lock_folder(order), order.open_workers() as workers:
        _check_job(order)
        survey = find_sets(
            order, listed, workers, lambda *counts: listen(LakeProgress("files", *counts))
        )
        state.keep_note(_RESULTS, order.results, str)
        state.keep_note(_ROOT, lake_place(order), str)
        state.keep_note(MAPPINGS, str(order.mappings), str)
        state.keep_members(_set_by_file(survey))
        shared_model.begin_run(state)
        state.keep_note(GONE, None, list[str])
        written = {one.name for one in survey.sets if _is_written(one, started_ns, settle)}
        worked = _work_through(order, survey, workers, listen, written)
        left_out = [
            replace(safe, name=encodable_value(safe.name))
            for safe in map(redacted_left_out, survey.all_left_out())
        ]
        with output_errors(order.out):
            lines = [json_line({"name": one.name, "why": one.why}) for one in left_out]
            write_file(order.out / LEFT_OUT, b"".join(lines))
        counts: dict[str, object] = {
            "files": len(listed.entries),
            "left_out": len(left_out),
            "reasons": group_by_reason(left_out),
        }
        sets = _finish_run(order, _facts_with_gone(order, survey), counts, workers, listen)
        spent = (shared_model.count_spending if watching else shared_model.end_run)(state)
        with output_errors(order.out):
            (state.folder / JOB_FILE).unlink(missing_ok=True)
    return LakeReport(
        sets=tuple(sets),
        worked=tuple(worked),
        left_out=tuple((one.name, one.why) for one in left_out),
        files=len(listed.entries),
        spent=spent,
        seconds=time.monotonic() - started,
    )


def _check_job(order: LakeOrder) -> None:
    """Refuse to work in a lake where the parts of another run are not merged yet."""
    noted = find_json(order.state.folder / JOB_FILE, own=True)
    if noted and (differs := describe_difference(job_document(order), noted)):
        raise OutputError(str(order.out), f"{OTHER_PARTS}: {differs}", OTHER_PARTS_HINT)


def _set_by_file(survey: Survey) -> dict[str, str]:
    members: dict[str, str] = {}
    for one in survey.sets:
        names = [*(file.name for file in one.source.files), *(fault.name for fault in one.faults)]
        members |= dict.fromkeys(names, one.name)
        if not one.source.files:
            members |= {entry.name: one.name for entry in one.source.listing.entries}
    return members


def _work_through(
    order: LakeOrder, survey: Survey, workers: Spreading, listen: Listener, written: set[str]
) -> list[str]:
    known_sets = order.state.sets()
    by_size = sorted(survey.sets, key=lambda one: -sum(f.bytes for f in one.source.files))
    with ThreadPoolExecutor(8) as threads:  # storage answers several at a time
        due = threads.map(lambda one: _is_due(order, one, known_sets.get(one.name)), by_size)
        todo = [one for one, is_due in zip(by_size, due, strict=True) if is_due]
    todo = [one for one in todo if one.name not in written]
    listen(LakeProgress("data sets", 0, len(todo), sets=len(survey.sets)))
    turns, done, shape_counts = TurnQueue(todo), 0, Counter(map(shape_keys, survey.sets))
    while turns:
        tasks = [
            SetTask(
                order=order,
                data_set=one,
                has_mapping=order.mapping(one.name).is_file(),
                key=data_set_key(order, one),
                pending=pending,
                after=after,
                alone=shape_counts[shape_keys(one)] == 1,
            )
            for one, after, pending in turns.next()
        ]
        finished: dict[str, str] = {}
        put_off: dict[str, str] = {}
        for task, result in workers.spread(
            work_on_set, until_stopping(tasks), jobs=1 if turns.runs_alone else None
        ):
            facts = _keep_result(order, task, result)
            group = put_off if facts is None else finished
            group[task.data_set.name] = result.shape if isinstance(result, SetResult) else ""
            if facts is not None:
                done += 1
                listen(LakeProgress("data sets", done, len(todo), facts=facts))
        if len(finished) + len(put_off) < len(tasks):
            raise_if_stopping()
        turns.settle(finished, put_off)
    return [one.name for one in todo]


def _keep_result(
    order: LakeOrder, task: SetTask, result: SetResult | TaskFailure
) -> SetFacts | None:
    """Keep and return the facts of a data set that is done; None if it was put off."""
    name, state = task.data_set.name, order.state
    if isinstance(result, TaskFailure):
        hint, location = _write_traceback(order, name, result.details), redact(task.data_set.place)
        why = redact(result.why)
        facts = SetFacts(name=name, place=location, status="failed", why=why, hint=hint)
        state.keep("", facts)
        return facts
    if result.facts is None:
        return None
    converted = result.facts.status == "converted"
    executed, file = mapping_bytes(read_tree(result.facts.mapping)), order.mapping(name)
    key = "" if result.again else task.key
    if key and converted and not task.has_mapping:
        # Of the executed mapping: its file may have been edited since, a change of its own.
        key = data_set_key(order, task.data_set, mapping=executed)
    state.keep(_key_with_first(order, key, result.waits_for), result.facts)
    if converted and not file.exists():  # last: a set of a run that is killed before is not done
        with output_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, executed)
    return result.facts


def _key_with_first(order: LakeOrder, key: str, first: str) -> str:
    """Extend the key of a data set by the mapping of the one that it waits for."""
    if not first:
        return key
    file = order.mapping(first)
    stamp = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return json.dumps([key, first, stamp])


def _write_traceback(order: LakeOrder, name: str, details: str) -> Safe:
    if not details:
        return EMPTY_TEXT
    file = order.state.folder / "mistakes" / f"{name}.txt"
    with output_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(details, encoding="utf-8")
    return redact(f"please report it with {file}")


def _is_due(order: LakeOrder, data_set: DataSet, known_set: KnownSet | None) -> bool:
    """Check whether a data set is new, has changed, or has lost its result."""
    if known_set is None or not all(
        entry.tells_changes for entry in data_set.source.listing.entries
    ):
        return True
    if known_set.facts.status == "rejected" and not order.mapping(data_set.name).exists():
        return known_set.key != files_key(data_set)
    first = json.loads(known_set.key)[1] if known_set.key.startswith("[") else ""
    if known_set.key != _key_with_first(order, data_set_key(order, data_set), first):
        return True
    if known_set.facts.status == "converted":
        hashes = order.hashes(data_set.name)  # there, as far as their size tells
        if not hashes.is_file() or hashes.stat().st_size != (
            HASHES_HEADER + WIDTH * known_set.facts.figures.records
        ):
            return True
    return bool(known_set.facts.result) and find_result(order.result(data_set.name)) is None


def _is_written(data_set: DataSet, listed: int, settle: float) -> bool:
    """Check whether a file changed so recently that it may still be written."""
    entries = data_set.source.listing.entries if settle else ()
    return any(abs(listed - (entry.mtime_ns or 0)) < settle * 1e9 for entry in entries)


def _facts_with_gone(order: LakeOrder, survey: Survey) -> list[SetFacts]:
    """Return the facts of all data sets; if their files are removed, of those with a result."""
    names = {one.name for one in survey.sets}
    sets = []
    for name, known_set in order.state.sets().items():
        if name in names:
            sets.append(known_set.facts)
        elif known_set.facts.result and find_result(order.result(name)) is not None:
            reason = Safe("its files were removed; its result is kept")
            facts = replace(known_set.facts, status="removed", why=reason, hint=EMPTY_TEXT)
            order.state.keep("", facts)
            sets.append(facts)
        else:
            order.state.drop(name)
    return sets


@contextmanager
def _lock_folder(order: LakeOrder, *, shared: bool = False) -> Iterator[None]:
    folder = order.state.folder
    with output_errors(order.out):
        (folder / HASHES).mkdir(parents=True, exist_ok=True)
        try:
            descriptor = take_lock(folder / "lock", shared=shared)
        except LockedError as error:
            hint = "wait for it or choose another folder"
            raise OutputError(str(order.out), "another run is working there", hint) from error
    try:
        known, results = order.state.note(_ROOT, str), order.state.note(_RESULTS, str)
        if known is not None and (known, results) != (lake_place(order), order.results):
            option = f", with --results {results}" if results else ""
            problem = f"is the folder of another lake: {known}{option}"
            raise OutputError(str(order.out), problem, "choose another folder for this one")
        for one in () if shared else (order.out, order.mappings):
            remove_unfinished(one)
        yield
    finally:
        os.close(descriptor)


# --- what needs all data sets to be done


def _finish_run(
    order: LakeOrder,
    sets: Sequence[SetFacts],
    counts: dict[str, object],
    workers: Spreading,
    listen: Listener,
) -> list[SetFacts]:
    """Find duplicates, write corpus, catalog and page; return the facts of all data sets."""
    listen(LakeProgress("duplicates"))
    files = {one.name: order.hashes(one.name) for one in sets if one.status == "converted"}
    drops = order.state.folder / _DROPS
    if not order.dedup:
        shutil.rmtree(drops, ignore_errors=True)
    repeats = order.state.folder / _REPEATS
    duplicates = find_or_recall(files, repeats, drops if order.dedup else None)
    sets = [_with_repeats(one, duplicates) for one in sets]
    if order.has_corpus:
        listen(LakeProgress("corpus"))
        sets = _write_corpus(order, sets, duplicates.drops, workers)
    else:
        corpus.sweep_corpus(order.place(CORPUS), ())
    listen(LakeProgress("catalog"))
    write_catalog(sets, order.out / CATALOG)
    values = {
        **counts,
        "sure": SURE_CONFIDENCE if order.min_confidence is None else order.min_confidence,
        "dedup": "exact" if order.dedup else None,
        "split": order.splits.to_json() if order.splits else None,
    }
    page = render_lake_page(sets, title=order.out.name, values=values)
    with output_errors(order.out):
        write_file(order.out / PAGE, page)
    return sets


def _with_repeats(facts: SetFacts, duplicates: Duplicates) -> SetFacts:
    repeats = duplicates.sets.get(facts.name)
    if repeats is None:
        return replace(facts, across=0, overlaps={}, splits=())
    return replace(facts, across=repeats.across, overlaps=dict(repeats.overlaps), splits=())


# A data set of the corpus: its name, its result, its hashes, and what of it is dropped.
_Part = tuple[str, Path | str, Path, Path | None]


def _write_corpus(
    order: LakeOrder, sets: Sequence[SetFacts], drops: Mapping[str, Path], workers: Spreading
) -> list[SetFacts]:
    """Write the corpus of all results; a data set that fails is left out of it."""
    folder = order.place(CORPUS)
    options = corpus.CorpusOptions(splits=order.splits or ALL, tokenizer=order.tokenizer)
    parts = [
        (one.name, order.result(one.name), order.hashes(one.name), drops.get(one.name))
        for one in sets
        if one.status == "converted"
    ]
    written: dict[str, tuple[Split, ...]] = {}
    failed: dict[str, str] = {}
    for (name, *_), splits in workers.spread(partial(_write_part, folder, options), parts):
        if isinstance(splits, str | TaskFailure):
            failed[name] = splits if isinstance(splits, str) else splits.why
        else:
            written[name] = splits
    corpus_parts = [(split.name, name) for name, splits in written.items() for split in splits]
    corpus.sweep_corpus(folder, corpus_parts)
    return [_with_splits(one, written.get(one.name, ()), failed.get(one.name)) for one in sets]


def _write_part(
    folder: Path | str, options: corpus.CorpusOptions, part: _Part
) -> tuple[Split, ...] | str:
    """Return what went into which split; a text if it failed."""
    name, result, hashed, drops = part
    try:
        hashed_drops = hashed if drops else None
        return corpus.write_corpus(result, folder, name, options, drops=drops, hashed=hashed_drops)
    except IngotError as error:
        return str(error)


def _with_splits(facts: SetFacts, splits: tuple[Split, ...], problem: str | None) -> SetFacts:
    if problem is not None:
        return replace(facts, status="failed", why=redact(f"its part of the corpus: {problem}"))
    tokens = [split.tokens for split in splits if split.tokens is not None]
    return replace(facts, splits=splits, tokens=sum(tokens) if tokens else facts.tokens)
