"""A build in pieces, by several processes or machines, with the bytes of one process.

Pieces of the input are scanned, each with codes of its own. Who finds all of them done joins the
codes and fits the vocabularies. Then every file of rows is written from the pieces that hold them.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.json_yaml import load_json
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import encode_json, output_errors
from ingot.converters.output.identity import STATS, CommittedResult, existing_result
from ingot.converters.output.pieces import do_piece, part_done, piece_name, run_phase
from ingot.converters.output.sharding import Spread
from ingot.converters.progress import Clock
from ingot.converters.recsys.ctr.build import job
from ingot.converters.recsys.ctr.build.encoder import Encoder, EntityStore, FeatureSums, LabelSums
from ingot.converters.recsys.ctr.build.inputs import InputPiece, Inputs, build_identity
from ingot.converters.recsys.ctr.build.row_collector import REJECTS, Codes, Collector, read_spool
from ingot.converters.recsys.ctr.build.vocabulary import Known, join_texts
from ingot.converters.recsys.ctr.contract import SPLITS
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.table.table_cells import Reject
from ingot.converters.rows import Json
from ingot.converters.sources.facts import unchanged_files

_SCAN, _JOIN, _WRITE = "scan", "join", "write"  # folders of pieces
_CODES: Final = "codes.npz"
_ROWS: Final = "rows/part-00000.parquet"
PIECE_BYTES: Final = 128 << 20  # about; of the raw files, as stored
_ARRAYS: Final = ("ids", "ranks", "priorities")  # of an encoder
_Document = dict[str, Json]


def build_in_pieces(
    inputs: Inputs,
    featuremap: FeatureMap,
    out: Path | str,
    spread: Spread,
    *,
    vocab: Path | None = None,
    accept_unseen: bool = False,
    overwrite: bool = False,
) -> CommittedResult:
    """Build as `job.build` does; with `spread.shard` do what that part of the build can do now."""
    inputs.check(featuremap)
    known = Known.load(vocab, featuremap, accept=accept_unseen)
    identity, clock = build_identity(inputs, featuremap, known, out), Clock()
    with identity.stage(out, overwrite=overwrite, spread=spread) as staged:
        if done := existing_result(staged):
            return done
        work, part = staged.work, spread.shard if spread.shard and spread.shard.count else None
        with output_errors(work):
            for name in (_SCAN, _WRITE):
                (work / name).mkdir(exist_ok=True)
        clock.start(_SCAN)
        pieces = list(inputs.pieces(featuremap, PIECE_BYTES))
        sizes = [piece.size for piece in pieces]
        places = [_folder(work, _SCAN, at) for at in range(len(pieces))]
        scan = partial(_scan_piece, inputs, featuremap)
        scanned = run_phase(spread, scan, list(zip(places, pieces, strict=True)), places, sizes)
        if scanned is None:
            raise part_done(out, part, sizes, "1/2")
        clock.start(_JOIN)
        found = list(zip(pieces, places, scanned, strict=True))
        fit = partial(_fit_pieces, inputs, featuremap, known, found)
        joined = do_piece(work / _JOIN, fit)
        clock.start(_WRITE)
        tasks = _plan_files([document["rows"] for document in scanned], joined["shifts"])
        sizes = [sum(end - first for _, first, end, _ in task.parts) for task in tasks]
        places = [_folder(work, _WRITE, at) for at in range(len(tasks))]
        written = run_phase(spread, partial(_write_piece, work, featuremap), tasks, places, sizes)
        if part or written is None:
            raise part_done(out, part, sizes)
        _move_files(staged, tasks)
        splits = _sum_splits(featuremap, tasks, written, joined)
        stats = {**load_json(work / _JOIN / STATS, own=True), "splits": splits}
        return job.commit_build(inputs, featuremap, identity, staged, clock, lambda: stats)


def _folder(work: Path, phase: str, number: int) -> Path:
    return work / phase / piece_name(number)


def _fit_pieces(
    inputs: Inputs,
    featuremap: FeatureMap,
    known: Known | None,
    found: list[tuple[InputPiece, Path, _Document]],
    draft: Path,
) -> _Document:
    """Collect what the pieces found as if one process had read the input, and fit on it."""
    build = job.Build(inputs, featuremap, known, draft, draft, lambda _: None)
    read: Counter[str] = Counter()
    shifts, codes = [], []
    with closing(build):
        for piece, folder, document in found:
            before = read[piece.role]
            codes.append(_join_piece(build.collector, folder, piece, document, before))
            shifts.append(before - piece.first)
            read[piece.role] += document["read"]
        rows, joint = build.fit()
        stats = build.stats()
    for at, (tokens, entities) in enumerate(codes):
        np.savez(draft / f"{at}.npz", places=joint.places[tokens], lines=joint.lines[entities])
    for feature in featuremap.of_src(0):
        for name, array in zip(_ARRAYS, rows.encoders[feature.name].arrays, strict=True):
            np.save(draft / f"{feature.name}.{name}.npy", array)
    (draft / STATS).write_bytes(encode_json(stats, sort_keys=False))
    shared = (one.name for one in featuremap.of_src(1))
    features = {name: rows.encoders[name].sums.to_document() for name in shared}
    return {"shifts": shifts, "features": features}


class _FileTask(NamedTuple):
    """A file of a split: rows of scanned pieces, as (piece, first, end, what to add to a row)."""

    number: int
    split: int
    name: str
    parts: list[tuple[int, int, int, int]]


def _plan_files(rows: list[list[int]], shifts: list[int]) -> list[_FileTask]:
    room = job.GROUP_ROWS * job.GROUPS_PER_FILE
    tasks: list[_FileTask] = []
    for split, counts in enumerate(zip(*rows, strict=True)):
        ends = [0, *accumulate(counts)]
        for first in range(0, max(1, ends[-1]), room):
            last = min(first + room, ends[-1])
            parts = [
                (at, max(first, begin) - begin, min(last, end) - begin, shifts[at])
                for at, (begin, end) in enumerate(pairwise(ends))
                if max(first, begin) < min(last, end)
            ]
            name = f"{SPLITS[split]}/part-{first // room:05d}.parquet"
            tasks.append(_FileTask(len(tasks), split, name, parts))
    return tasks


def _move_files(staged: StagedResult, tasks: list[_FileTask]) -> None:
    joined, result = staged.work / _JOIN, staged.result
    with output_errors(staged.out):
        if (joined / job.VOCAB_FOLDER).exists():  # moved first: what is there is of a killed build
            shutil.rmtree(result)
            for split in SPLITS:
                (result / split).mkdir(parents=True)
        moves = {joined / name: result / name for name in (job.VOCAB_FOLDER, REJECTS)}
        for task in tasks:
            moves[_folder(staged.work, _WRITE, task.number) / _ROWS] = result / task.name
        for there, place in moves.items():
            # A merge that was killed in here had moved some of them already.
            if there.exists() or not (place.exists() or there.name == REJECTS):
                there.rename(place)


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
    return job.split_stats(labels, sums)


def _scan_piece(inputs: Inputs, featuremap: FeatureMap, task: tuple[Path, InputPiece]) -> _Document:
    folder, piece = task

    def scan(draft: Path) -> _Document:
        build = job.Build(inputs, featuremap, None, draft, draft, lambda _: None)
        collector, entities = build.collector, build.collector.entities
        with closing(build), unchanged_files(piece.entries):
            read = build.read([piece])
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
            "counts": collector.counts,
            "kinds": collector.kinds,
        }

    return do_piece(folder, scan)


def _join_piece(
    collector: Collector, folder: Path, piece: InputPiece, document: _Document, before: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Add a scanned piece to a collector; gives the codes there of its tokens and entities."""
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


def _write_piece(work: Path, featuremap: FeatureMap, task: _FileTask) -> _Document:
    def write(draft: Path) -> _Document:
        joined, own = work / _JOIN, featuremap.of_src(0)
        encoders = {one.name: Encoder(one, *_open_arrays(joined, one.name)) for one in own}
        store = EntityStore(joined / job.STORE, featuremap.of_src(1)).open()
        rows = job.RowEncoder(featuremap, encoders, store)
        with job.SplitWriter(draft / "rows", rows.schema) as writer:
            for at, first, end, shift in task.parts:
                folder = _folder(work, _SCAN, at)
                scanned, codes = np.load(folder / _CODES), np.load(joined / f"{at}.npz")
                names = join_texts(scanned["names"], scanned["name_ends"])
                whole = Codes(places=codes["places"], lines=codes["lines"], names=names)
                fields = sum(src == 0 for src, _ in featuremap.sources)
                spool = folder / f"{SPLITS[task.split]}.arrow"
                for some in read_spool(spool, fields, rows.step, first, end):
                    shifted = replace(some, rows=some.rows + shift)
                    writer.write(rows.encode(task.split, shifted, whole))
        features = {name: one.sums.to_document() for name, one in encoders.items()}
        return {"labels": rows.labels[task.split].to_json(), "features": features}

    return do_piece(_folder(work, _WRITE, task.number), write)


def _open_arrays(joined: Path, name: str) -> Iterator[NDArray[np.generic]]:
    for kind in _ARRAYS:
        # Copy on write: processes share the pages, and kernels get arrays that can be written.
        yield np.asarray(np.load(joined / f"{name}.{kind}.npy", mmap_mode="c"))
