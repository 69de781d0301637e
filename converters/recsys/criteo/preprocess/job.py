"""Preprocess raw Criteo logs to arrays, vocabularies and statistics."""

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
from ingot.converters.output.pieces import Phases, take_file
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.progress import Clock, Progress, Watch, peak_rss, raise_if_stopping
from ingot.converters.recsys.criteo.contract import KEYS, REJECTS, STATS
from ingot.converters.recsys.criteo.preprocess.inputs import Inputs, run_identity
from ingot.converters.recsys.criteo.preprocess.part_pieces import (
    StepTask,
    compile_kernels,
    do_step,
)
from ingot.converters.recsys.criteo.preprocess.part_reader import (
    PartFacts,
    ReadPhase,
    part_entry,
    stats_document,
)
from ingot.converters.recsys.criteo.preprocess.raw_lines import PROBLEMS
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.shuffle import PartRows, Shuffle, write_part
from ingot.converters.recsys.criteo.preprocess.work_folder import WorkFolder
from ingot.converters.sources.facts import input_entry, unchanged_files


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

    Memory: the maps (15 to 27 bytes a distinct value, and while one is doubled half of its slots
    once more) or, with `encode="columns"`, the largest of them; then 4 bytes a training row; and up
    to 0.4 GB a thread.
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
            watch = progress or (lambda _: None)
            if spread.is_any:
                return _PieceRun(inputs, settings, identity, staged, watch).run(spread)
            run = _WholeRun(inputs, settings, identity, staged, watch)
            run.take_up(resume=resume)
            try:
                return run.run()
            except (SourceError, ConversionError):
                run.keep_parts()
                raise


class _Run:
    """One run, and how it ends."""

    def __init__(
        self,
        inputs: Inputs,
        settings: Settings,
        identity: RunIdentity,
        staged: StagedResult,
        watch: Watch,
    ) -> None:
        self._inputs, self._settings, self._identity = inputs, settings, identity
        self._staged, self._watch = staged, watch
        # The first so many parts are shuffled together.
        self._shuffled = 0 if settings.shuffle_seed is None else inputs.shuffled
        self._work = WorkFolder(staged.work)
        self._clock = Clock()
        self._notes = [*staged.notes, *inputs.notes]

    def _check_rows(self, facts: Sequence[PartFacts], rejects: Sequence[Path]) -> None:
        named = zip(self._inputs.parts, facts, strict=True)
        empty = [part.name for part, one in named if not one["rows"]]
        if len(empty) == len(facts):
            count = sum(one["lines"] for one in facts)
            said = f"all {count:,} lines are rejects" if count else "the files are empty"
            for path in rejects[:1]:
                with path.open(encoding="utf-8") as lines:
                    first = json.loads(next(lines))
                said += f"; {first['file']} line {first['line']}: "
                said += f"{PROBLEMS[first['reason']]}: {first['found']}"
            problem = f"no row can be written: {said}"
            raise ConversionError(self._inputs.where, problem, "are these the files?")
        if empty:
            self._notes.append(f"without a row: {', '.join(empty)}")

    def _commit(
        self,
        facts: Sequence[PartFacts],
        columns: Sequence[dict[str, int]],
        rejects: Sequence[Path],
        known: Sequence[FileEntry] = (),
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
            with (result / REJECTS).open("wb") as whole:
                for path in rejects:
                    with path.open("rb") as part_rejects:
                        shutil.copyfileobj(part_rejects, whole)
        (result / STATS).write_bytes(encode_json(stats, sort_keys=False))
        hashed = {entry["path"] for entry in known}
        paths = [path.relative_to(result) for path in result.glob("*.npy")]
        with ThreadPoolExecutor(self._settings.workers, "hash") as pool:
            left = (path for path in paths if path.name not in hashed)
            arrays = [*known, *pool.map(partial(file_entry, result), left)]
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


class _PieceRun(_Run):
    """A run in pieces."""

    def run(self, spread: Spread) -> CommittedResult:
        """Do the pieces of this run; where all are there, put them together."""
        settings, work, parts = self._settings, self._staged.work, self._inputs.parts
        if spread.runner != "local":  # a thread for each process
            spread = replace(spread, workers=spread.workers or settings.workers)
            settings = replace(settings, threads=1)
        one = StepTask(
            step="read",
            number=0,
            inputs=self._inputs,
            settings=settings,
            work=work,
            shuffled=self._shuffled,
        )
        phases = Phases(spread, self._staged.place, 4 if self._shuffled else 3, self._watch)

        def do(step: str, sizes: list[int]) -> list[Any]:
            self._clock.start(step)
            tasks = [replace(one, step=step, number=number) for number in range(len(sizes))]
            return phases.run(step, do_step, tasks, sizes)

        before = self._inputs.stamps()
        read = do("read", [part.entry.bytes for part in parts])
        check_unchanged(before, self._inputs.again().stamps())
        facts, rows = [piece["facts"] for piece in read], [piece["facts"]["rows"] for piece in read]
        folders = [WorkFolder(one.other("read", n)).part(part.name) for n, part in enumerate(parts)]
        rejects = [path for folder in folders if (path := folder / REJECTS).exists()]
        self._check_rows(facts, rejects)
        distinct = [sum(columns) for columns in zip(*(p["distinct"] for p in read), strict=True)]
        joined = do("join", [*distinct, *[sum(rows)] * bool(self._shuffled)])[: len(KEYS)]
        made = {"read": read, "join": joined, "arrange": do("arrange", rows)}
        if self._shuffled:
            made["gather"] = do("gather", rows[: self._shuffled])
        files: list[FileEntry] = []
        for step, pieces in made.items():
            for number, piece in enumerate(pieces):
                for entry in piece.get("files", ()):
                    there = one.other(step, number) / entry["path"]
                    take_file(there, self._staged.result / entry["path"])
                    files.append(entry)
        return self._commit(facts, [piece["facts"] for piece in joined], rejects, files)


class _WholeRun(_Run):
    """One run of this process, from its inputs to the committed folder."""

    def take_up(self, *, resume: bool) -> None:
        """Find what a run that was broken off left, or clear it away."""
        self._rows: dict[str, int] = {}
        inputs, staged = self._inputs, self._staged
        self._reading = ReadPhase(inputs, self._settings, self._work, staged.result, self._tell)
        # What serves this run of one that was broken off stays.
        known, parts = self._reading.resumed_parts(), len(inputs.parts)
        if not resume or (known < parts and self._reading.begun()):
            for folder in (staged.work, staged.result):
                shutil.rmtree(folder)
                folder.mkdir()
        elif known:
            self._notes.append(f"resumed a run that had read {known} of {parts} files")

    def keep_parts(self) -> None:
        """After a fault of the input: keep what was read of other files, if anything."""
        read = self._reading.facts()[: self._reading.resumed_parts()]
        if not any(one["rows"] for one in read):
            shutil.rmtree(self._staged.work)

    def run(self) -> CommittedResult:
        """Do what is left of the run."""
        compile_kernels()
        before = self._inputs.stamps()
        with unchanged_files(part.entry for part in self._inputs.parts):
            self._reading.run()
        check_unchanged([one["stamp"] for one in self._reading.facts()], before)
        check_unchanged(before, self._inputs.again().stamps())
        self._check_rows(self._reading.facts(), self._rejects())
        self._arrange()
        return self._commit(self._reading.facts(), self._reading.columns(), self._rejects())

    def _tell(self, stage_name: str, done: int, rows: int) -> None:
        self._clock.start(stage_name)
        total = {"read": len(self._inputs.parts), "shuffle": 0, "write": 0}.get(stage_name, 26)
        self._rows[stage_name] = self._rows.get(stage_name, 0) + rows
        so_far = self._rows[stage_name]
        self._watch(
            Progress(stage=stage_name, shards_done=done, shards=total, rows=so_far, records=so_far)
        )

    def _arrange(self) -> None:
        """Write the arrays: training days shuffled, others as they are."""
        sources = self._sources()
        if self._shuffled and self._work.facts("gathered") is None:
            self._shuffle(sources[: self._shuffled])
        for source in sources[self._shuffled :]:
            if self._work.facts(f"placed-{source.name}") is None:
                raise_if_stopping()
                self._tell("write", 0, 0)
                write_part(source, self._work, self._staged.result, self._settings.workers)
                self._work.done(f"placed-{source.name}", {})
            self._work.drop(source.name)

    def _sources(self) -> list[PartRows]:
        columns = zip(KEYS, self._reading.columns(), strict=True)
        remapped = frozenset(key for key, facts in columns if facts["remapped"])
        rounded = self._settings.compat == "torchrec_f32"
        parts = zip(self._inputs.parts, self._reading.facts(), strict=True)
        return [
            PartRows(
                work=self._work,
                name=part.name,
                rows=facts["rows"],
                remapped=remapped,
                rounded=rounded and number < self._shuffled,
            )
            for number, (part, facts) in enumerate(parts)
        ]

    def _shuffle(self, sources: list[PartRows]) -> None:
        self._tell("shuffle", 0, 0)
        settings, parts = self._settings, [(source.name, source.rows) for source in sources]
        shuffle = Shuffle(
            parts,
            self._work,
            self._staged.result,
            seed=settings.shuffle_seed or 0,
            threads=settings.workers,
            bucket=settings.bucket_rows,
        )
        for source in sources:
            if self._work.facts(f"scattered-{source.name}") is None:
                raise_if_stopping()
                shuffle.scatter(source, lambda rows: self._tell("shuffle", 0, rows))
                self._work.done(f"scattered-{source.name}", {})
            else:
                shuffle.pass_over(source.rows)
            self._work.drop(source.name)
        shuffle.gather(lambda rows: self._tell("write", 0, rows))
        self._work.done("gathered", {})

    def _rejects(self) -> list[Path]:
        paths = [self._work.part(part.name) / REJECTS for part in self._inputs.parts]
        return [path for path in paths if path.exists()]
