"""Build a Megatron data set from Parquet texts or unified records.

Units are done by one process or several, and again without an engine that was wrong.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ingot.converters.errors import ConversionError, OutputError, PartDone, SourceError
from ingot.converters.json_yaml import decode, find_json
from ingot.converters.megatron.engines.choice import choose_engine
from ingot.converters.megatron.engines.engine import REFERENCES, EngineChoice, EngineWrongError
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    VerdictCase,
    failed_verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.engines.guard import trim_memory
from ingot.converters.megatron.indexed_dataset import index_paths
from ingot.converters.megatron.metrics.messages import Monitor, ignore_message, log_event
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import (
    InputFile,
    Unit,
    describe_columns,
    find_layout,
    plan_units,
)
from ingot.converters.megatron.run.recipe import (
    ChooseEngine,
    DataSetMeta,
    Recipe,
    TokenStats,
    UnitRun,
    count_results,
    describe_damage,
    estimate_text_bytes,
    make_recipe,
    no_tokens_error,
    read_stats,
    run_in_process,
    sample_texts,
)
from ingot.converters.megatron.tokenizer import check_special, load_tokenizer
from ingot.converters.megatron.write.lanes import (
    drop_engine,
    lane_numbers,
    recover_lanes,
    take_lane,
    wrong_engines,
)
from ingot.converters.megatron.write.staging import (
    BuildIdentity,
    Staging,
    assemble,
    commit_data_set,
    finished_units,
    identity_difference,
    open_staging,
    sum_counts,
)
from ingot.converters.output.files import is_store_url, output_errors
from ingot.converters.output.pieces import part_done
from ingot.converters.output.sharding import JobShard, check_complete, other_parts_error
from ingot.converters.progress import host_facts, raise_if_stopping


def run_attempts(job: UnitRun) -> dict[int, str]:
    """Do every unit that is not finished; gives by number the files that processes died of."""
    shared = job.part is not None
    if not shared:
        with output_errors(job.place.prefix):
            recover_lanes(job.place.base)
    wrong = wrong_engines(job.place.base) if shared else _distrusted_engines(job)
    for engine in () if shared else wrong:
        _forget_engine(job, engine, "it gave other ids than the reference elsewhere")
    crashed, cluster = dict[int, str](), job.work.runner == "ray" and not shared
    while pending := [unit for unit in job.pending() if unit.file not in crashed]:
        raise_if_stopping()
        choice = job.choose(pending, wrong)
        size, number = sum(unit.bytes for unit in pending), len({unit.file for unit in pending})
        job.monitor({"kind": "plan", "bytes": size, "files": number, "units": len(pending)})
        job.monitor({"kind": "phase", "phase": "read"})
        try:
            if cluster or job.work.processes > 1:
                from ingot.converters.megatron.run.unit_groups import run_groups

                crashed |= run_groups(job, pending, choice)
            else:
                run_in_process(job, pending, choice)
            if cluster:
                with output_errors(job.place.prefix):  # of nodes that died with it
                    recover_lanes(job.place.base, again=False)
        except EngineWrongError as error:
            if error.engine not in FAST_ENGINES or error.engine in wrong:
                problem = f"the library contradicts itself about its ids: {error}"
                hint = "report this text and the tokenizer"
                raise ConversionError(job.recipe.loaded.given, problem, hint) from error
            wrong |= {error.engine}
            keep_verdict(_engine_case(job.recipe, error.engine), failed_verdict(error.text))
            _forget_engine(job, error.engine, str(error))
    return crashed


def _distrusted_engines(job: UnitRun) -> frozenset[str]:
    """Engines of finished units that are known to be wrong: a kill may have come before that."""
    engines = {stretch.engine for stretch in finished_units(job.place.base).values()}
    known = wrong_engines(job.place.base)
    return frozenset(
        name
        for name in engines - {"", *REFERENCES}
        if name in known or not is_trusted(job.recipe, name)
    )


def is_trusted(recipe: Recipe, engine: str) -> bool:
    """Whether a fast engine was not found wrong since it was chosen."""
    if engine not in FAST_ENGINES:
        return False
    verdict = recall_verdict(_engine_case(recipe, engine))
    return verdict is None or verdict.passed


def _engine_case(recipe: Recipe, engine: str) -> VerdictCase:
    return make_verdict_case(FAST_ENGINES[engine], recipe.loaded, plain=recipe.options.plain)


def _forget_engine(job: UnitRun, engine: str, problem: str) -> None:
    """What the engine wrote has to be done again."""
    log_event(job.monitor, "error", "tokenizer", "engine_wrong", engine=engine, error=problem)
    job.monitor({"kind": "count", "error.engine": 1})
    with output_errors(job.place.prefix):
        for lane in lane_numbers(job.place.base) if job.part is None else job.lanes:
            drop_engine(job.place.base, lane, engine)


_WARNED: Final = {
    "tools_unused": "the chat template takes no tool definitions: they were left out",
    "two_bos": "documents begin with two BOS: the text or its chat template has one already "
    "(leave out `add_special_tokens`)",
    "two_eos": "documents end with two EOS or EOD: the text or its chat template has one already, "
    "or both options add it (leave out `add_special_tokens` or `append_eod`)",
}
"""What is counted of documents that are written and should be known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SideFiles:
    """Where the files beside the data set go; None = `PREFIX.rejects.jsonl`, `PREFIX.run.json`."""

    rejects: Path | None = None
    run: Path | None = None


def build(
    files: Sequence[InputFile],
    tokenizer: Path | str,
    prefix: Path | str,
    options: BuildOptions | None = None,
    work: WorkOptions | None = None,
    *,
    beside: SideFiles | None = None,
    monitor: Monitor = ignore_message,
) -> TokenStats:
    """Tokenize files into `PREFIX.bin`, `PREFIX.idx` and `PREFIX.meta.json`.

    Conversations also give `PREFIX.loss_mask.bin` and `.idx`. Rows that cannot be tokenized are
    listed in `PREFIX.rejects.jsonl`, times and counts by stage in `PREFIX.run.json`. The data set
    appears whole or not at all; what a build that was broken off had finished can be gone on with.

    Args:
        files: the inputs in order, see `scan`.
        tokenizer: see `load_tokenizer`.
        prefix: where to, without the endings; its folder is made. The URL of a folder in an object
            store gets shards, see `store_build`.
        options: what decides the bytes.
        work: how the work is done.
        beside: where the small files go; not for a store.
        monitor: hears how it goes, see `messages`.

    Raises:
        PartDone: this was a part of the build (`work.shard`).
        SourceError: no file can be read.
        ConversionError: the tokenizer or the options do not serve; no document has a token; with
            `fail_fast` the first row that is rejected.
        OutputError: another data set is there; what is unfinished differs; it cannot be written.
    """
    if is_store_url(prefix):
        from ingot.converters.megatron.run.store_build import build_in_store

        return build_in_store(
            files, tokenizer, str(prefix), options or BuildOptions(), work or WorkOptions(), monitor
        )
    made = prepare_build(files, tokenizer, Path(prefix), options, work, beside, monitor)
    shard = made.work.shard
    part = None if shard is None or shard.merges else shard
    with open_staging(made.prefix, made.work.tmp_dir, shared=part is not None) as place:
        if place.beside:
            log_event(monitor, "warn", "writer", "tmp_dir_not_used", error=place.beside)
        if part is None:
            place.finish_commit()
        done = made.already_done()
        if done is None and part is not None:
            raise made.make_part(place, part)
        return done or made.make(place)


def prepare_build(
    files: Sequence[InputFile],
    tokenizer: Path | str,
    prefix: Path,
    options: BuildOptions | None,
    work: WorkOptions | None,
    beside: SideFiles | None,
    monitor: Monitor,
) -> "Build":
    """Resolve what the options leave open. Raises SourceError, ConversionError."""
    options, work = options or BuildOptions(), work or WorkOptions()
    beside = beside or SideFiles()
    if not files:
        raise ConversionError(str(prefix), "no file to tokenize", "name at least one")
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise ConversionError(twice[0], "two inputs have this name", "give them names of their own")
    loaded = load_tokenizer(tokenizer)
    check = check_special(
        loaded,
        options.special_tokens_json,
        strict=options.strict_special_ids,
        bos_id=options.bos_id,
        eos_id=options.eos_id,
    )
    for event, fields in check.warnings():
        log_event(monitor, "warn", "tokenizer", event, **fields)
    layout = find_layout(files, options.text_cols)
    recipe = make_recipe(loaded, options, layout)
    facts: dict[str, object] = {"tokenizer": loaded.given, "vocabulary": loaded.vocabulary}
    facts |= {"dtype": recipe.rules.dtype, "input": layout.kind, "columns": list(layout.columns)}
    log_event(monitor, "info", "pipeline", "checked", **facts, eod_id=recipe.rules.eod)
    return Build(
        files=files,
        recipe=recipe,
        prefix=prefix,
        work=work,
        check=check.to_document() if options.special_tokens_json else {},
        rejects=beside.rejects or prefix.with_name(f"{prefix.name}.rejects.jsonl"),
        run_file=beside.run or prefix.with_name(f"{prefix.name}.run.json"),
        monitor=monitor,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One build of a data set on this machine."""

    files: Sequence[InputFile]
    recipe: Recipe
    prefix: Path
    work: WorkOptions
    check: dict[str, object]  # empty where none was asked for
    rejects: Path
    run_file: Path
    monitor: Monitor
    choose: ChooseEngine | None = None  # in place of the comparison of engines
    is_shard: bool = False  # of a larger data set: it may hold no token

    def identity(self) -> BuildIdentity:
        """What decides the bytes, and when the inputs changed last."""
        identity = self.recipe.identity(self.files)
        return {**identity, "changed": {file.name: file.mtime_ns for file in self.files}}

    def already_done(self) -> TokenStats | None:
        """The stats of the equal data set that is there; None if there is none."""
        _, idx_path, meta_path = index_paths(self.prefix)
        if not idx_path.exists():
            return None
        then = (find_json(self.run_file, own=True) or {}).get("identity")
        unknown = "it is not known how it was made"
        differs = identity_difference(self.identity(), then) if then else unknown
        if not differs:
            meta = decode(DataSetMeta, find_json(meta_path, own=True) or {})
            differs = describe_damage(self.prefix, meta)
            if not differs:
                log_event(self.monitor, "info", "pipeline", "already_done", file_path=str(idx_path))
                return read_stats(meta, already_done=True)
        if self.work.overwrite:
            return None
        found = "is another data set" if self.work.resume else "exists, and differs"
        hint = "name another prefix, or build with `overwrite`"
        raise OutputError(str(idx_path), f"{found}: {differs}", hint)

    def make_part(self, place: Staging, shard: JobShard) -> PartDone:
        """Do the units of one part of the build, and say so."""
        place.join(self.identity(), overwrite=self.work.overwrite)
        if self.work.runner == "ray":
            problem = "`shard` does not go with `runner` ray"
            raise ConversionError(str(self.prefix), problem, "a cluster needs no parts")
        units = self._units()
        sizes = [unit.bytes for unit in units]
        lanes = [take_lane(place.base) for _ in range(self.work.processes)]
        job = self._unit_run(place, units, lanes, shard.own(sizes))
        crashed = run_attempts(job)
        for file, why in crashed.items():
            hint = "repair or remove the file, then run this part again"
            raise SourceError(self.files[file].name, why, hint)
        self.monitor({"kind": "phase", "phase": "done"})
        return part_done(self.prefix, shard, sizes)

    def _units(self) -> list[Unit]:
        whole_files = self.recipe.options.doc_boundary == "file"
        return plan_units(list(self.files), whole_files=whole_files)

    def _unit_run(
        self,
        place: Staging,
        units: Sequence[Unit],
        lanes: Sequence[int],
        part: range | None = None,
    ) -> UnitRun:
        return UnitRun(
            files=self.files,
            units=units,
            recipe=self.recipe,
            work=self.work,
            place=place,
            choose=self.choose or self.choose_engine,
            monitor=self.monitor,
            lanes=lanes,
            part=part,
        )

    def make(self, place: Staging) -> TokenStats:
        """Do the units, assemble what came of them and commit it."""
        started = time.monotonic()
        self._begin(place)
        units = self._units()
        if self.work.shard is not None:
            there = finished_units(place.base)
            missing = [unit.number for unit in units if unit.number not in there]
            check_complete(self.prefix, missing, len(units))
        job = self._unit_run(place, units, range(self.work.processes))
        crashed = run_attempts(job)
        self.monitor({"kind": "phase", "phase": "merge"})
        return self._finish(place, units, crashed, started)

    def _begin(self, place: Staging) -> None:
        """Go on with what is unfinished, or clear it away."""
        now, then = self.identity(), place.identity()
        merges = self.work.shard is not None
        if then is None and merges:
            hint = "run the parts with `--shard I/N` first"
            raise OutputError(str(self.prefix), "has no parts to be merged", hint)
        parts = place.has_parts()
        differs = identity_difference(now, then) if then else ""
        replaced = bool(differs) and parts and self.work.overwrite and not merges
        if then is None or replaced or not (self.work.resume or merges or parts):
            place.begin(now)
            return
        if differs and parts:
            raise other_parts_error(self.prefix, differs)
        if differs:
            problem = f"the unfinished build differs: {differs}"
            hint = "use the same inputs and options, or leave out `resume` to start again"
            raise OutputError(str(self.prefix), problem, hint)
        units = len(finished_units(place.base))
        log_event(self.monitor, "info", "pipeline", "resumed", units=units)

    def choose_engine(
        self,
        units: Sequence[Unit],
        exclude: frozenset[str],
        sampled: Sequence[Unit] | None = None,
    ) -> EngineChoice:
        """Pick the engine for some units, without those that were wrong before.

        It is picked by texts of those that are `sampled`, which is all of them if none are named.
        """
        threads, inside = self.work.threads()
        choice = choose_engine(
            self.recipe.loaded,
            self.work.tok_engine,
            sample_texts(self.files, sampled or units, self.recipe),
            plain=self.recipe.options.plain,
            total_bytes=estimate_text_bytes(self.files, units),
            exclude=exclude,
            threads=inside,
            instances=threads,
            monitor=self.monitor,
        )
        trim_memory()  # several engines were loaded
        return choice

    def _finish(
        self, place: Staging, units: Sequence[Unit], crashed: dict[int, str], started: float
    ) -> TokenStats:
        finished = finished_units(place.base)
        failures = crashed | {
            unit.file: finished[unit.number].failed or ""
            for unit in units
            if unit.number in finished and finished[unit.number].failed
        }
        good = [finished[unit.number] for unit in units if unit.file not in failures]
        counts = sum_counts(good)
        if not self.is_shard and not counts["tokens"]:
            place.clear()
            raise no_tokens_error(
                str(self.prefix),
                counts,
                {self.files[file].name: why for file, why in failures.items()},
                len(self.files),
                describe_columns(self.files[0], self.recipe.layout),
            )
        for name, error in _WARNED.items():
            if counts[name]:
                facts = {"records": counts[name], "error": error}
                log_event(self.monitor, "warn", "tokenizer", name, **facts)
        begun = time.monotonic()
        assembled = assemble(
            place, good, self.recipe.rules.dtype, masks=self.recipe.masks, rejects=self.rejects
        )
        seconds = time.monotonic() - begun
        self.monitor({"kind": "stage", "stage": "index", "seconds": seconds})
        meta = self.recipe.meta(*count_results(self.files, units, finished, failures))
        if self.check:
            meta["special_tokens_check"] = self.check
        engines = sorted({stretch.engine for stretch in good} - {""})
        info = {
            "identity": self.identity(),
            "engines": engines,
            "seconds": round(time.monotonic() - started, 3),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
        }
        commit_data_set(place, assembled, meta=meta, run=info, run_file=self.run_file)
        self.monitor({"kind": "phase", "phase": "done"})
        return replace(read_stats(meta), engine=", ".join(engines))
