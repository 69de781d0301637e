"""Preprocess raw Criteo logs to arrays, vocabularies and statistics."""

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.json_yaml import json_digest
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import (
    FileEntry,
    check_unchanged,
    encode_json,
    file_entry,
    output_errors,
)
from ingot.converters.output.identity import CommittedResult, RunIdentity, existing_result
from ingot.converters.output.pieces import Phases, find_piece, take_file
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.progress import Clock, ProgressTally, TerminatedError, Watch, peak_rss
from ingot.converters.recsys.criteo.contract import KEYS, REJECTS, STATS
from ingot.converters.recsys.criteo.preprocess.inputs import Inputs, run_identity
from ingot.converters.recsys.criteo.preprocess.part_pieces import (
    StepTask,
    compile_kernels,
    do_step,
)
from ingot.converters.recsys.criteo.preprocess.part_reader import (
    PartFacts,
    part_entry,
    stats_document,
)
from ingot.converters.recsys.criteo.preprocess.raw_lines import PROBLEMS
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.sources.facts import input_entry


def preprocess(
    inputs: Inputs,
    settings: Settings,
    out: Path | str,
    *,
    resume: bool = True,
    overwrite: bool = False,
    progress: Watch | None = None,
    spread: Spread = WHOLE,
) -> CommittedResult:
    """Write a folder of preprocessed Criteo data, see `contract`.

    Memory: the maps of as many columns as there are threads (15 to 27 bytes a distinct value, and
    while one is doubled half of its slots once more) or, with `encode="columns"`, the largest of
    them; then 4 bytes a training row; and up to 0.4 GB a thread.
    """
    if settings.vocab is not None and settings.vocab.resolve() == Path(out).resolve():
        problem = "holds the vocabularies that this run continues, and would be replaced"
        raise OutputError(str(out), problem, "choose another folder")
    if spread.is_any and not resume:
        hint = "to start again, delete the unfinished folder beside the destination"
        raise ConversionError("", "`shard` and `runner` always resume", hint)
    identity = run_identity(inputs, settings)
    # Files are known by the parts that were read of them: those that changed are read again.
    key = identity.key() if spread.is_any else json_digest([identity.settled, identity.place])
    with identity.stage(
        out,
        key=key,
        overwrite=overwrite,
        keep_work=True,
        spread=spread,
    ) as staged:
        if done := existing_result(staged):
            return done
        with output_errors(staged.work):
            run = _Run(inputs, settings, identity, staged, ProgressTally(progress), spread)
            if not spread.is_any:
                run.take_up(resume=resume)
            try:
                return run.run()
            except (SourceError, ConversionError):
                run.keep_parts()
                raise


class _Run:
    """One run, from its inputs to the committed folder, or its share of one."""

    def __init__(
        self,
        inputs: Inputs,
        settings: Settings,
        identity: RunIdentity,
        staged: StagedResult,
        tally: ProgressTally,
        spread: Spread,
    ) -> None:
        # In other processes a piece has one thread.
        self._here = spread.runner == "local"
        if not self._here:
            spread = replace(spread, workers=spread.workers or settings.workers)
        self._inputs, self._settings, self._identity = inputs, settings, identity
        self._staged, self._tally = staged, tally
        # The first so many parts are shuffled together.
        self._shuffled = 0 if settings.shuffle_seed is None else inputs.shuffled
        self._task = StepTask(
            step="read",
            number=0,
            inputs=inputs,
            settings=settings if self._here else replace(settings, threads=1),
            work=staged.work,
            shuffled=self._shuffled,
            alone=not spread.is_any,
        )
        self._phases = Phases(spread, staged.place, 4 if self._shuffled else 3, tally)
        self._clock = Clock()
        self._notes = [*staged.notes, *inputs.notes]
        self._broken_off = False

    def take_up(self, *, resume: bool) -> None:
        """Find what a run that was broken off left, or clear it away."""
        work, stamps = self._staged.work, self._inputs.stamps()
        for draft in work.glob(".*"):
            shutil.rmtree(draft)
        stamp_by_folder = dict(zip(self._task.read_folders(), stamps, strict=True))
        known = [
            folder
            for folder, stamp in stamp_by_folder.items()
            if (piece := find_piece(folder)) and piece["facts"]["stamp"] == stamp
        ]
        if not resume or (len(known) < len(stamp_by_folder) and any(work.glob("columns-*"))):
            known = []  # ids depend on every part
        if len(known) < len(stamp_by_folder):
            for folder in {*work.iterdir(), *self._staged.result.iterdir()} - {*known}:
                shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
        if known:
            note = f"resumed a run that had read {len(known)} of {len(stamp_by_folder)} files"
            self._notes.append(note)

    def keep_parts(self) -> None:
        """Keep, after a fault of the input, what was read of other files, if anything."""
        pieces = [find_piece(folder) for folder in self._task.read_folders()]
        if self._task.alone and not any(piece and piece["facts"]["rows"] for piece in pieces):
            shutil.rmtree(self._staged.work)

    def run(self) -> CommittedResult:
        """Do the pieces of this run; where all are there, put them together."""
        if self._here:
            compile_kernels()
        parts = self._inputs.parts
        before = self._inputs.stamps()
        read = self._do("read", [part.entry.bytes for part in parts])
        facts = [piece["facts"] for piece in read]
        check_unchanged([one["stamp"] for one in facts], before)
        check_unchanged(before, self._inputs.again().stamps())
        rejects = [path for one in self._task.read_folders() if (path := one / REJECTS).exists()]
        self._check_rows(facts, rejects)
        rows = [one["rows"] for one in facts]
        columns = self._do("columns", [sum(rows)] * (len(KEYS) + bool(self._shuffled)))
        pieces_by_step = {"read": read, "columns": columns, "shuffle": self._do("shuffle", rows)}
        if self._shuffled:
            pieces_by_step["write"] = self._do("write", rows[: self._shuffled])
        files = [
            (self._task.other(step, number), entry)
            for step, pieces in pieces_by_step.items()
            for number, piece in enumerate(pieces)
            for entry in piece.get("files", ())
        ]
        for folder, entry in files:
            take_file(folder / entry["path"], self._staged.result / entry["path"])
        hashed = [entry for _, entry in files if "sha256" in entry]
        return self._commit(facts, [one["facts"] for one in columns[: len(KEYS)]], rejects, hashed)

    def _do(self, step: str, sizes: list[int]) -> list[Any]:
        """Do a step for parts or columns of these sizes, the last one first where it is `write`."""
        self._clock.start(step)
        tasks = [replace(self._task, step=step, number=number) for number in range(len(sizes))]
        work = partial(do_step, report=self._tell) if self._here else do_step

        def count_rows(task: StepTask, piece: dict[str, Any]) -> int:
            if step == "read":
                return cast("int", piece["facts"]["rows"])
            return sizes[task.number] if piece else 0  # the order of a shuffle is no column

        if step == "columns" and self._here:
            with self._column_threads() as pool:
                return self._phases.run(step, work, tasks, sizes, count_rows, pool)
        if step == "write":  # so that what follows in the order of the rows can be deleted
            return self._phases.run(step, work, tasks[::-1], sizes[::-1], count_rows)[::-1]
        return self._phases.run(step, work, tasks, sizes, count_rows)

    @contextmanager
    def _column_threads(self) -> Iterator[ThreadPoolExecutor]:
        """Number the values of several columns at a time; none is finished after a fault."""
        settings = self._settings
        pool = ThreadPoolExecutor(settings.workers if settings.encode == "stream" else 1, "columns")
        try:
            yield pool
        except BaseException:
            self._broken_off = True
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _tell(self, rows: int) -> None:
        if self._broken_off:
            raise TerminatedError
        self._tally.add(rows)

    def _check_rows(self, facts: Sequence[PartFacts], rejects: Sequence[Path]) -> None:
        with_facts = zip(self._inputs.parts, facts, strict=True)
        empty = [part.name for part, one in with_facts if not one["rows"]]
        if len(empty) == len(facts):
            count = sum(one["lines"] for one in facts)
            reason = f"all {count:,} lines are rejects" if count else "the files are empty"
            for path in rejects[:1]:
                with path.open(encoding="utf-8") as lines:
                    first = json.loads(next(lines))
                reason += f"; {first['file']} line {first['line']}: "
                reason += f"{PROBLEMS[first['reason']]}: {first['found']}"
            problem = f"no row can be written: {reason}"
            raise ConversionError(self._inputs.where, problem, "are these the files?")
        if empty:
            self._notes.append(f"without a row: {', '.join(empty)}")

    def _commit(
        self,
        facts: Sequence[PartFacts],
        columns: Sequence[dict[str, int]],
        rejects: Sequence[Path],
        known: Sequence[FileEntry],
    ) -> CommittedResult:
        self._clock.start("hash")
        result = self._staged.result
        read = list(zip(self._inputs.parts, facts, strict=True))
        parts = [
            part_entry(part.name, part.entry.name, one, shuffled=number < self._shuffled)
            for number, (part, one) in enumerate(read)
        ]
        for column in columns:
            del column["remapped"]
        stats = stats_document(parts, facts, columns)
        if rejects:
            with (result / REJECTS).open("wb") as merged:
                for path in rejects:
                    with path.open("rb") as part_rejects:
                        shutil.copyfileobj(part_rejects, merged)
        (result / STATS).write_bytes(encode_json(stats, sort_keys=False))
        hashed = {entry["path"] for entry in known}
        paths = [path.relative_to(result) for path in result.glob("*.npy")]
        with ThreadPoolExecutor(self._settings.workers, "hash") as pool:
            unhashed = (path for path in paths if path.name not in hashed)
            arrays = [*known, *pool.map(partial(file_entry, result), unhashed)]
        staged = replace(self._staged, notes=tuple(self._notes))
        manifest, _ = self._identity.commit(
            staged,
            {
                "inputs": [input_entry(p.entry, one.get("sha256"), part=p.name) for p, one in read],
                "rows": stats["rows"],
                "rejects": stats["rejects"],
            },
            {
                "encode": self._settings.encode,
                "threads": self._settings.workers,
                "seconds": self._clock.seconds(),
                "peak_rss_bytes": peak_rss(),
            },
            arrays,
        )
        return CommittedResult(out=staged.place, manifest=manifest, stats=stats, notes=staged.notes)
