"""A build in pieces, by several processes or machines, with the bytes of one process.

Pieces of the input are scanned, each with codes of its own. Who finds all of them done joins the
codes and fits the vocabularies. Then every file of rows is written from the pieces that hold them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import encode_json, output_errors
from ingot.converters.output.identity import STATS, CommittedResult, existing_result
from ingot.converters.output.pieces import SHARED_HINT, do_piece, piece_name, run_phase
from ingot.converters.output.sharding import JobShard
from ingot.converters.progress import Clock
from ingot.converters.recsys.ctr.build import job
from ingot.converters.recsys.ctr.build.encoder import Encoder, EntityStore, FeatureSums, LabelSums
from ingot.converters.recsys.ctr.build.inputs import InputPiece, Inputs, build_identity
from ingot.converters.recsys.ctr.build.row_collector import REJECTS, Codes, Collector, read_spool
from ingot.converters.recsys.ctr.build.vocabulary import join_texts, load_vocabularies
from ingot.converters.recsys.ctr.contract import SPLITS
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.settings import Spread
from ingot.converters.recsys.ctr.table.table_cells import Reject
from ingot.converters.rows import Json
from ingot.converters.sources.facts import unchanged_files

_SCAN, _JOIN, _WRITE = "scan", "join", "write"  # folders of pieces
_CODES: Final = "codes.npz"
_ROWS: Final = "rows"
_ARRAYS: Final = ("ids", "ranks", "priorities")  # of an encoder
_Document = dict[str, Json]


class PartDone(NamedTuple):
    """What a part of a build did in its phase; `waits`: others have not scanned their pieces."""

    pieces: int
    whole: int
    waits: bool


def build_in_pieces(
    inputs: Inputs,
    featuremap: FeatureMap,
    out: Path,
    spread: Spread,
    *,
    vocab: Path | None = None,
    overwrite: bool = False,
) -> CommittedResult | PartDone:
    """Build as `job.build` does; with `spread.shard` do what that part of the build can do now."""
    inputs.check(featuremap)
    known = load_vocabularies(vocab, featuremap) if vocab is not None else None
    identity = build_identity(inputs, featuremap, known, out)
    with identity.stage(out, overwrite=overwrite, shard=spread.shard) as staged:
        if done := existing_result(staged):
            return done
        pieces = inputs.pieces(featuremap)
        made = _Pieces(inputs, featuremap, staged, spread, pieces)
        start = partial(job.Build, inputs, featuremap, known)
        if spread.shard is None or spread.shard.merges:
            merge = partial(made.merge, start)
            return job.commit_build(inputs, featuremap, identity, staged, Clock(), merge)
        return made.do_part(start, spread.shard)


class _Pieces:
    """The phases of a build."""

    def __init__(
        self,
        inputs: Inputs,
        featuremap: FeatureMap,
        staged: StagedResult,
        spread: Spread,
        pieces: list[InputPiece],
    ) -> None:
        self._inputs, self._featuremap, self._spread = inputs, featuremap, spread
        self._work, self._result = staged.work, staged.result
        self._pieces = pieces
        self._sizes = [piece.size for piece in pieces]
        with output_errors(staged.out):
            for name in (_SCAN, _WRITE):
                (self._work / name).mkdir(exist_ok=True)

    def do_part(self, start: Callable[..., job.Build], shard: JobShard) -> PartDone:
        """Scan a part's pieces of the input or, once all are, write its files of rows."""
        sizes, scanned = self._sizes, self._scan()
        if scanned is not None:
            tasks = self._plan_files(scanned, self._join(start, scanned))
            sizes = [task.size for task in tasks]
            self._write(tasks)
        return PartDone(len(shard.own(sizes)), len(sizes), waits=scanned is None)

    def merge(self, start: Callable[..., job.Build]) -> _Document:
        """Do what is left and put it into the result; gives the content of stats.json."""
        scanned = self._scan() or []
        joined = self._join(start, scanned)
        tasks = self._plan_files(scanned, joined)
        written = self._write(tasks) or []
        self._move_files(tasks)
        labels = [LabelSums() for _ in SPLITS]
        sums = {one.name: FeatureSums(one) for one in self._featuremap.features}
        for task, document in zip(tasks, written, strict=True):
            labels[task.split].join(document["labels"])
        for document in (joined, *written):
            for name, entry in document["features"].items():
                sums[name].join(entry)
        stats: _Document = load_json(self._work / _JOIN / STATS, own=True)
        return {**stats, "splits": job.split_stats(labels, sums)}

    def _scan(self) -> list[_Document] | None:
        scan = partial(_scan_piece, self._work / _SCAN, self._inputs, self._featuremap)
        tasks = list(enumerate(self._pieces))
        folders = [self._work / _SCAN / piece_name(at) for at in range(len(tasks))]
        return run_phase(self._spread, scan, tasks, folders, self._sizes)

    def _write(self, tasks: "list[_FileTask]") -> list[_Document] | None:
        write = partial(_write_piece, self._work, self._featuremap)
        folders = [self._work / _WRITE / piece_name(task.number) for task in tasks]
        return run_phase(self._spread, write, tasks, folders, [task.size for task in tasks])

    def _join(self, start: Callable[..., job.Build], scanned: list[_Document]) -> _Document:
        return do_piece(self._work / _JOIN, lambda draft: self._fit(start, scanned, draft))

    def _fit(
        self, start: Callable[..., job.Build], scanned: list[_Document], draft: Path
    ) -> _Document:
        """Collect what the pieces found as if one process had read the input, and fit on it."""
        build = start(draft, draft, lambda _: None)
        read: Counter[str] = Counter()
        shifts, codes = [], []
        with build.closing():
            for at, (piece, document) in enumerate(zip(self._pieces, scanned, strict=True)):
                folder, before = self._work / _SCAN / piece_name(at), read[piece.role]
                codes.append(_join_piece(build.collector, folder, piece, document, before))
                shifts.append(before - piece.first)
                read[piece.role] += document["read"]
            rows, joint = build.fit()
            stats = build.stats()
        for at, (tokens, entities) in enumerate(codes):
            places, lines = joint.places[tokens], joint.lines[entities]
            np.savez(draft / f"{at}.npz", places=places, lines=lines)
        for feature in self._featuremap.of_src(0):
            for name, array in zip(_ARRAYS, rows.encoders[feature.name].arrays, strict=True):
                np.save(draft / f"{feature.name}.{name}.npy", array)
        (draft / STATS).write_bytes(encode_json(stats, sort_keys=False))
        shared = (one.name for one in self._featuremap.of_src(1))
        features = {name: rows.encoders[name].sums.to_document() for name in shared}
        return {"shifts": shifts, "features": features}

    def _plan_files(self, scanned: list[_Document], joined: _Document) -> "list[_FileTask]":
        room = job.GROUP_ROWS * job.GROUPS_PER_FILE
        tasks: list[_FileTask] = []
        for split in range(len(SPLITS)):
            ends = np.cumsum([0, *(document["rows"][split] for document in scanned)]).tolist()
            for first in range(0, max(1, ends[-1]), room):
                parts = [
                    (at, max(first - begin, 0), min(first + room, end) - begin, shift)
                    for at, ((begin, end), shift) in enumerate(
                        zip(pairwise(ends), joined["shifts"], strict=True)
                    )
                    if max(first, begin) < min(first + room, end)
                ]
                tasks.append(_FileTask(len(tasks), split, first // room, tuple(parts)))
        return tasks

    def _move_files(self, tasks: "list[_FileTask]") -> None:
        joined = self._work / _JOIN
        moves = {joined / name: self._result / name for name in (job.VOCAB_FOLDER, REJECTS)}
        if not (joined / REJECTS).exists() and not (self._result / REJECTS).exists():
            del moves[joined / REJECTS]
        for task in tasks:
            folder = self._work / _WRITE / piece_name(task.number) / _ROWS
            name = f"{SPLITS[task.split]}/part-{task.file:05d}.parquet"
            moves[folder / "part-00000.parquet"] = self._result / name
        with output_errors(self._result):
            for there, place in moves.items():
                place.parent.mkdir(exist_ok=True)
                # A merge that was killed in here had moved some of them already.
                if there.exists():
                    there.rename(place)
                elif not place.exists():
                    problem = "was made elsewhere and is not there"
                    raise OutputError(str(there), problem, SHARED_HINT)


class _FileTask(NamedTuple):
    """A file of a split: rows of scanned pieces, as (piece, first, end, what to add to a row)."""

    number: int
    split: int
    file: int
    parts: tuple[tuple[int, int, int, int], ...]

    @property
    def size(self) -> int:
        return sum(end - first for _, first, end, _ in self.parts)


def _scan_piece(
    folder: Path, inputs: Inputs, featuremap: FeatureMap, task: tuple[int, InputPiece]
) -> _Document:
    number, piece = task

    def scan(draft: Path) -> _Document:
        build = job.Build(inputs, featuremap, None, draft, draft, lambda _: None)
        collector, entities = build.collector, build.collector.entities
        with build.closing(), unchanged_files(piece.entries):
            read = build.read(piece)
            collector.close()
        entities.settle()
        text, ends = collector.tokens.arena()
        names, name_ends = entities.names.arena()
        arrays = {"text": text, "ends": ends, "owners": collector.tokens.owners()}
        arrays |= {"names": names, "name_ends": name_ends, "counts": collector.train_counts()}
        np.savez(draft / _CODES, **arrays, lines=entities.lines, rows=entities.rows)
        return {
            "read": read,
            "dropped": collector.dropped,
            "common": collector.common.rows,
            "rows": [spool.rows for spool in collector.spools],
            "counts": collector.counts,
        }

    return do_piece(folder / piece_name(number), scan)


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
    collector.train_counts()[tokens] += saved["counts"]
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
        with job.SplitWriter(draft / _ROWS, rows.schema) as writer:
            for at, first, end, shift in task.parts:
                folder = work / _SCAN / piece_name(at)
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

    return do_piece(work / _WRITE / piece_name(task.number), write)


def _open_arrays(joined: Path, name: str) -> Iterator[NDArray[np.generic]]:
    for kind in _ARRAYS:
        # Copy on write: processes share the pages, and kernels get arrays that can be written.
        yield np.asarray(np.load(joined / f"{name}.{kind}.npy", mmap_mode="c"))
