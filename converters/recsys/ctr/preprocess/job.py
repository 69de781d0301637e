"""Build a folder of the processed contract from a raw CTR data set and a featuremap.

Pieces of the input are scanned, each with codes of its own. Who finds all of them done joins the
codes and fits the vocabularies. Then every file of rows is written from the pieces that hold them.
"""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import check_unchanged, encode_json, output_errors
from ingot.converters.output.identity import STATS, CommittedResult, existing_result
from ingot.converters.output.pieces import Phases, do_piece, piece_name, take_file
from ingot.converters.output.sharding import WHOLE, Spread, part_of_job
from ingot.converters.progress import Clock, ProgressTally, Watch, peak_rss
from ingot.converters.recsys.ctr.contract import SPLITS
from ingot.converters.recsys.ctr.featuremap import FeatureMap, dump, to_document
from ingot.converters.recsys.ctr.preprocess.encoder import FeatureSums, LabelSums
from ingot.converters.recsys.ctr.preprocess.fitting import (
    CODES,
    VOCAB_FOLDER,
    ScannedPiece,
    fit_pieces,
)
from ingot.converters.recsys.ctr.preprocess.inputs import (
    InputPiece,
    Inputs,
    Order,
    build_identity,
    file_entries,
    file_stamps,
    list_files,
)
from ingot.converters.recsys.ctr.preprocess.row_collector import REJECTS, Collector
from ingot.converters.recsys.ctr.preprocess.row_files import (
    ROWS_FILE,
    WRITE,
    FileTask,
    plan_files,
    write_file,
)
from ingot.converters.recsys.ctr.preprocess.vocabulary import Known
from ingot.converters.rows import Json
from ingot.converters.sources.facts import unchanged_files

FEATUREMAP: Final = "featuremap.yaml"
PIECE_BYTES: Final = 128 << 20  # about; of the raw files, as stored
_SCAN, _FIT = "scan", "fit"  # folders of pieces
_ENOUGH: Final = 1_000
"""Rejects without one good row after which a file is another than it should be."""


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
    with identity.stage(out, overwrite=overwrite, spread=spread) as staged:
        if done := existing_result(staged):
            return done
        with unchanged_files(entry for _, entry in list_files(inputs)):
            stats = _do_phases(inputs, featuremap, known, staged, spread, clock, progress)
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
    inputs: Inputs,
    featuremap: FeatureMap,
    known: Known | None,
    staged: StagedResult,
    spread: Spread,
    clock: Clock,
    progress: Watch | None,
) -> dict[str, Json]:
    """Make everything of a result but stats.json, of which the content is returned."""
    work = staged.work
    with output_errors(work):
        for name in (_SCAN, WRITE):
            (work / name).mkdir(exist_ok=True)
        if not part_of_job(spread.shard):  # nobody else works there
            for draft in (*work.glob(".*"), *work.glob("*/.*")):
                shutil.rmtree(draft, ignore_errors=True)
    here = spread.runner == "local"
    tally = ProgressTally(progress, rejects=0 if here else None)
    order = Order(inputs, featuremap, tally if here else None)
    phases = Phases(spread, staged.place, 2, tally)
    clock.start(_SCAN)
    pieces = enumerate(inputs.pieces(featuremap, PIECE_BYTES))
    scans = [ScannedPiece(work / _SCAN / piece_name(at), piece, {}) for at, piece in pieces]
    sizes = [one.piece.size for one in scans]
    found = phases.run(
        _SCAN, partial(_scan_piece, order), scans, sizes, lambda _, piece: piece["lines"]
    )
    scanned = [replace(one, document=document) for one, document in zip(scans, found, strict=True)]
    clock.start(_FIT)
    fitted = do_piece(work / _FIT, partial(fit_pieces, order, known, scanned))
    stats = load_json(work / _FIT / STATS, own=True)
    clock.start(WRITE)
    tasks = plan_files(work, scanned, fitted["shifts"])
    sizes = [task.rows for task in tasks]
    write = partial(write_file, order, work / _FIT)
    written = phases.run(WRITE, write, tasks, sizes, lambda task, _: task.rows)
    _take_files(work / _FIT, staged.result, tasks)
    return {**stats, "splits": _sum_splits(featuremap, tasks, written, fitted)}


def _scan_piece(order: Order, task: ScannedPiece) -> dict[str, Json]:
    """Collect the rows of a piece of the input into a folder."""
    return do_piece(task.folder, partial(_collect_rows, order, task.piece))


def _collect_rows(order: Order, piece: InputPiece, draft: Path) -> dict[str, Json]:
    lines, good = 0, False
    with unchanged_files(piece.entries), Collector(draft, order.featuremap) as collector:
        rejects = collector.rejects
        for rows in order.inputs.feed(collector, order.featuremap, piece):
            lines += rows.read
            good = good or len(rows.rows) > 0
            if piece.is_start and not good and lines >= _ENOUGH:
                said = f"none of the first {lines:,} rows of a file can be read"
                hint = "is each file given under its own option?"
                raise ConversionError(order.where, said + rejects.first_lines(), hint)
            order.add(rows.read, 0 if piece.role == "common" else len(rows.rejects))
    return {"lines": lines, **collector.found.save(draft / CODES)}


def _take_files(fitted: Path, result: Path, tasks: list[FileTask]) -> None:
    moves = {task.folder / ROWS_FILE: task.name for task in tasks}
    moves[fitted / VOCAB_FOLDER] = VOCAB_FOLDER
    if (fitted / REJECTS).exists():
        moves[fitted / REJECTS] = REJECTS
    for there, name in moves.items():
        take_file(there, result / name)


def _sum_splits(
    featuremap: FeatureMap,
    tasks: list[FileTask],
    written: list[dict[str, Json]],
    fitted: dict[str, Json],
) -> dict[str, Json]:
    """What stats.json says of the rows of each split."""
    labels = [LabelSums() for _ in SPLITS]
    sums = {one.name: FeatureSums(one) for one in featuremap.features}
    for task, document in zip(tasks, written, strict=True):
        labels[task.split].join(document["labels"])
    for document in (fitted, *written):
        for name, entry in document["features"].items():
            sums[name].join(entry)
    return {
        split: {
            **labels[at].to_json(),
            "features": {name: one.to_json(at) for name, one in sums.items()},
        }
        for at, split in enumerate(SPLITS)
    }
