"""Build a folder of the processed contract from a raw CTR data set and a featuremap.

Pieces of the input are scanned, each with codes of its own. Who finds all of them done joins the
codes and fits the vocabularies. Then every file of rows is written from the pieces that hold them.
A build in one process has a piece for each file of Ali-CCP, or one for a table.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.json_yaml import load_json
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import check_unchanged, encode_json, output_errors
from ingot.converters.output.identity import STATS, CommittedResult, existing_result
from ingot.converters.output.pieces import Phases, do_piece, piece_name, take_file
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.progress import Clock, Progress, Watch, peak_rss
from ingot.converters.recsys.ctr.build import row_build
from ingot.converters.recsys.ctr.build.encoder import Encoder, EntityStore, FeatureSums, LabelSums
from ingot.converters.recsys.ctr.build.inputs import (
    InputPiece,
    Inputs,
    build_identity,
    file_entries,
    file_stamps,
    list_files,
)
from ingot.converters.recsys.ctr.build.row_build import Build, Order, RowEncoder, SplitWriter
from ingot.converters.recsys.ctr.build.row_collector import REJECTS, Codes, Collector, read_spool
from ingot.converters.recsys.ctr.build.vocabulary import Known, join_texts
from ingot.converters.recsys.ctr.contract import SPLITS
from ingot.converters.recsys.ctr.featuremap import FeatureMap, dump, to_document
from ingot.converters.recsys.ctr.table.table_cells import Reject
from ingot.converters.rows import Json
from ingot.converters.sources.facts import unchanged_files

FEATUREMAP: Final = "featuremap.yaml"
PIECE_BYTES: Final = 128 << 20  # about; of the raw files, as stored, where several do the pieces
_SCAN, _JOIN, _WRITE = "scan", "join", "write"  # folders of pieces
_WHOLE: Final = "whole"  # folder of those of a build in one process
_CODES: Final = "codes.npz"
_ROWS: Final = "rows/part-00000.parquet"
_ARRAYS: Final = ("ids", "ranks", "priorities")  # of an encoder
_Document = dict[str, Json]


def build(
    inputs: Inputs,
    featuremap: FeatureMap,
    out: Path | str,
    *,
    vocab: Path | None = None,
    accept_unseen: bool = False,
    overwrite: bool = False,
    progress: Watch | None = None,
    spread: Spread = WHOLE,
) -> CommittedResult:
    """Write a folder of the processed contract; with `vocab` nothing is fitted on train rows.

    Raises ConversionError where the rows do not fit to `vocab`, unless `accept_unseen` is set, and
    PartDone where `spread` says to do a part.
    """
    inputs.check(featuremap)
    known = Known.load(vocab, featuremap, accept=accept_unseen)
    identity, clock = build_identity(inputs, featuremap, known, out), Clock()
    watch = progress or (lambda _: None)
    with identity.stage(out, overwrite=overwrite, spread=spread) as staged:
        if done := existing_result(staged):
            return done
        order = Order(inputs, featuremap, clock, None if spread.is_any else watch)
        with unchanged_files(entry for _, entry in list_files(inputs)):
            stats = _do_phases(order, known, staged, spread, watch)
            clock.start("hash")
            entries = file_entries(inputs)
        check_unchanged(identity.stamps or (), file_stamps(inputs))
        with output_errors(staged.out):
            (staged.result / FEATUREMAP).write_text(dump(to_document(featuremap)), "utf-8")
            (staged.result / STATS).write_bytes(encode_json(stats, sort_keys=False))
        manifest, _ = identity.commit(
            staged,
            {"inputs": entries, "rows": stats["rows"], "rejects": stats["rejects"]},
            {"seconds": clock.seconds(), "peak_rss_bytes": peak_rss()},
        )
    return CommittedResult(out=staged.place, manifest=manifest, stats=stats, notes=staged.notes)


def _do_phases(
    order: Order, known: Known | None, staged: StagedResult, spread: Spread, watch: Watch
) -> _Document:
    """Make everything of a result but stats.json, of which the content is returned."""
    inputs, featuremap = order.inputs, order.featuremap
    # Its pieces are others than those of several processes, which may lie there.
    work = staged.work if spread.is_any else staged.work / _WHOLE
    with output_errors(work):
        if not spread.is_any:  # nobody else works there: what is unfinished is of a killed build
            for draft in (*work.glob(".*"), *work.glob("*/.*")):
                shutil.rmtree(draft)
        for name in (_SCAN, _WRITE):
            (work / name).mkdir(parents=True, exist_ok=True)
    # A build in one process shows its rows, others the pieces that are done.
    phases = Phases(spread, staged.place, 2, watch if spread.is_any else lambda _: None)
    order.clock.start(_SCAN)
    pieces = inputs.pieces(featuremap, PIECE_BYTES if spread.is_any else None)
    scans = [_ScanTask(_folder(work, _SCAN, at), piece) for at, piece in enumerate(pieces)]
    sizes = [task.piece.size for task in scans]
    scanned = phases.run(_SCAN, partial(_scan_piece, order), scans, sizes)
    order.clock.start(_JOIN)
    fit = partial(_fit_pieces, order, known, list(zip(scans, scanned, strict=True)))
    joined = do_piece(work / _JOIN, fit)
    order.clock.start(_WRITE)
    stats = load_json(work / _JOIN / STATS, own=True)
    tasks = _plan_files(work, scanned, joined["shifts"], stats["rows"]["rejected"])
    sizes = [task.rows for task in tasks]
    written = phases.run(_WRITE, partial(_write_piece, order, work), tasks, sizes)
    _move_files(work / _JOIN, staged.result, tasks)
    return {**stats, "splits": _sum_splits(featuremap, tasks, written, joined)}


def _folder(work: Path, phase: str, number: int) -> Path:
    return work / phase / piece_name(number)


@dataclass(frozen=True)
class _ScanTask:
    """A piece of the input, and the folder of what is found in it."""

    folder: Path
    piece: InputPiece


def _fit_pieces(
    order: Order, known: Known | None, found: list[tuple[_ScanTask, _Document]], draft: Path
) -> _Document:
    """Collect what the pieces found as if they were one, and fit on it."""
    build, featuremap = Build(order, draft, known), order.featuremap
    read: Counter[str] = Counter()
    shifts, codes = [], []
    with closing(build):
        for task, document in found:
            before = read[task.piece.role]
            codes.append(_join_piece(build.collector, task, document, before))
            shifts.append(before - task.piece.first)
            read[task.piece.role] += document["read"]
        encoders, joint = build.fit()
        stats = build.stats()
    for at, (tokens, entities) in enumerate(codes):
        np.savez(draft / f"{at}.npz", places=joint.places[tokens], lines=joint.lines[entities])
    for feature in featuremap.of_src(0):
        for name, array in zip(_ARRAYS, encoders[feature.name].arrays, strict=True):
            np.save(draft / f"{feature.name}.{name}.npy", array)
    (draft / STATS).write_bytes(encode_json(stats, sort_keys=False))
    shared = (one.name for one in featuremap.of_src(1))
    features = {name: encoders[name].sums.to_document() for name in shared}
    return {"shifts": shifts, "features": features}


@dataclass(frozen=True)
class _SpoolPart:
    """Rows `start` to `stop` of a piece's split, whose numbers in the input are `shift` higher."""

    number: int
    start: int
    stop: int
    shift: int
    ends: list[int]  # rows up to the end of each batch of the spool


@dataclass(frozen=True)
class _FileTask:
    """A file of a split: rows of scanned pieces."""

    folder: Path
    split: int
    name: str
    parts: list[_SpoolPart]
    start: Progress  # when the files before it are written

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return sum(one.stop - one.start for one in self.parts)


def _plan_files(
    work: Path, scanned: list[_Document], shifts: list[int], rejects: int
) -> list[_FileTask]:
    room = row_build.GROUP_ROWS * row_build.GROUPS_PER_FILE
    tasks: list[_FileTask] = []
    whole, before = sum(sum(document["rows"]) for document in scanned), 0
    for split, split_name in enumerate(SPLITS):
        ends = [0, *accumulate(document["rows"][split] for document in scanned)]
        for first in range(0, max(1, ends[-1]), room):
            last = min(first + room, ends[-1])
            parts = [
                _SpoolPart(
                    at,
                    max(first, begin) - begin,
                    min(last, end) - begin,
                    shifts[at],
                    scanned[at]["ends"][split],
                )
                for at, (begin, end) in enumerate(pairwise(ends))
                if max(first, begin) < min(last, end)
            ]
            name = f"{split_name}/part-{first // room:05d}.parquet"
            far = {"shards_done": before, "shards": whole, "rows": before, "records": before}
            start = Progress(stage=_WRITE, **far, rejects=rejects)
            tasks.append(_FileTask(_folder(work, _WRITE, len(tasks)), split, name, parts, start))
            before += last - first
    return tasks


def _move_files(joined: Path, result: Path, tasks: list[_FileTask]) -> None:
    moves = {task.folder / _ROWS: task.name for task in tasks}
    moves[joined / row_build.VOCAB_FOLDER] = row_build.VOCAB_FOLDER
    if (joined / REJECTS).exists():
        moves[joined / REJECTS] = REJECTS
    for there, name in moves.items():
        take_file(there, result / name)


def _sum_splits(
    featuremap: FeatureMap, tasks: list[_FileTask], written: list[_Document], joined: _Document
) -> _Document:
    labels = [LabelSums() for _ in SPLITS]
    sums = {one.name: FeatureSums(one) for one in featuremap.features}
    for task, document in zip(tasks, written, strict=True):
        labels[task.split].join(document["labels"])
    for document in (joined, *written):
        for name, entry in document["features"].items():
            sums[name].join(entry)
    return row_build.split_stats(labels, sums)


def _scan_piece(order: Order, task: _ScanTask) -> _Document:
    def scan(draft: Path) -> _Document:
        build = Build(order, draft)
        collector, entities = build.collector, build.collector.entities
        with closing(build), unchanged_files(task.piece.entries):
            read = build.read(task.piece)
            collector.close()
        entities.settle()
        text, ends = collector.tokens.arena()
        names, name_ends = entities.names.arena()
        np.savez(
            draft / _CODES,
            text=text,
            ends=ends,
            owners=collector.tokens.owners(),
            names=names,
            name_ends=name_ends,
            counts=[collector.occurrences(split) for split in range(len(SPLITS))],
            lines=np.asarray(entities.lines),
            rows=np.asarray(entities.rows),
        )
        return {
            "read": read,
            "dropped": collector.dropped,
            "common": collector.common.rows,
            "rows": [spool.rows for spool in collector.spools],
            "ends": [spool.ends for spool in collector.spools],
            "counts": collector.counts,
            "kinds": collector.kinds,
        }

    return do_piece(task.folder, scan)


def _join_piece(
    collector: Collector, task: _ScanTask, document: _Document, before: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Add a scanned piece to a collector; gives the codes there of its tokens and entities."""
    folder, piece = task.folder, task.piece
    saved = np.load(folder / _CODES)
    ends, name_ends, entities = saved["ends"], saved["name_ends"], collector.entities
    lengths = np.diff(ends).astype(np.int32)
    tokens = collector.tokens.add(saved["text"], ends[:-1], lengths, saved["owners"])
    names = entities.names.add(saved["names"], name_ends[:-1], np.diff(name_ends).astype(np.int32))
    entities.join(names, saved["lines"], saved["rows"], collector.common.rows)
    for number, counts in enumerate(saved["counts"]):
        collector.occurrences(number)[tokens] += counts
    collector.kinds |= document["kinds"]
    collector.counts.update(document["counts"])
    collector.dropped += document["dropped"]
    is_common = piece.role == "common"
    collector.read += 0 if is_common else document["read"]
    collector.repeats.add(np.fromfile(folder / "samples", np.uint64))
    collector.common.adopt(folder / "common.arrow", document["common"], tokens)
    for split, spool, rows in zip(SPLITS, collector.spools, document["rows"], strict=True):
        spool.adopt(folder / f"{split}.arrow", rows, tokens)
    if (folder / REJECTS).exists():
        shift = 0 if piece.files else before  # rows of a table are numbered file by file
        lines = (folder / REJECTS).read_text("utf-8").split("\n")[:-1]
        found = [Reject(**json.loads(line)) for line in lines]
        reasons = collector.common_rejects if is_common else collector.rejects
        collector.note_rejects([replace(one, row=one.row + shift) for one in found], reasons)
    return tokens, names


def _write_piece(order: Order, work: Path, task: _FileTask) -> _Document:
    def write(draft: Path) -> _Document:
        joined, featuremap = work / _JOIN, order.featuremap
        own, shared = featuremap.of_src(0), featuremap.of_src(1)
        encoders = {one.name: Encoder(one, *_open_arrays(joined, one.name)) for one in own}
        store = EntityStore(joined / row_build.STORE, shared).open()
        rows = RowEncoder(featuremap, encoders, store)
        with SplitWriter(draft / "rows", rows.schema) as writer:
            for part in task.parts:
                folder = _folder(work, _SCAN, part.number)
                scanned, codes = np.load(folder / _CODES), np.load(joined / f"{part.number}.npz")
                names = join_texts(scanned["names"], scanned["name_ends"])
                whole = Codes(places=codes["places"], lines=codes["lines"], names=names)
                fields = sum(src == 0 for src, _ in featuremap.sources)
                spool = folder / f"{SPLITS[task.split]}.arrow"
                limits = part.start, part.stop, part.ends
                for some in read_spool(spool, fields, rows.step, *limits):
                    shifted = replace(some, rows=some.rows + part.shift)
                    writer.write(rows.encode(task.split, shifted, whole))
                    order.tell(_advance(task.start, writer.rows))
        features = {name: one.sums.to_document() for name, one in encoders.items()}
        return {"labels": rows.labels[task.split].to_json(), "features": features}

    return do_piece(task.folder, write)


def _advance(start: Progress, rows: int) -> Progress:
    """Return the progress after so many more rows."""
    done = start.rows + rows
    return replace(start, shards_done=done, rows=done, records=done)


def _open_arrays(joined: Path, name: str) -> Iterator[NDArray[np.generic]]:
    for kind in _ARRAYS:
        # Copy on write: processes share the pages, and kernels get arrays that can be written.
        yield np.asarray(np.load(joined / f"{name}.{kind}.npy", mmap_mode="c"))
