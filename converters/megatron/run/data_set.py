"""Make a data set at a prefix: do its units, or those of a part, put them together, commit."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict

import numpy as np

from ingot.converters.errors import ConversionError, NoTokensError, OutputError, SourceError
from ingot.converters.json_yaml import decode, find_json
from ingot.converters.megatron.engines.engine import REFERENCES, EngineChoice, EngineWrongError
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    VerdictCase,
    failed_verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.indexed_dataset import (
    DTYPES,
    WRITTEN_CODES,
    TokenDtype,
    index_paths,
    mask_prefix,
)
from ingot.converters.megatron.messages import log_event
from ingot.converters.megatron.read.input_files import (
    InputFile,
    InputKind,
    Unit,
    describe_columns,
)
from ingot.converters.megatron.run.pipeline import FileTally, Pipeline
from ingot.converters.megatron.run.recipe import RECIPE_VERSION, Build, Recipe
from ingot.converters.megatron.write.lanes import (
    LaneStretch,
    drop_engine,
    recover_lanes,
    wrong_engines,
)
from ingot.converters.megatron.write.staging import (
    Staging,
    assemble,
    commit_data_set,
    finished_units,
    identity_difference,
    sum_counts,
)
from ingot.converters.megatron.write.unit_writer import UNIT_COUNTS
from ingot.converters.output.files import output_errors
from ingot.converters.output.pieces import part_done
from ingot.converters.output.sharding import check_complete
from ingot.converters.progress import host_facts, raise_if_stopping

Counts: TypeAlias = dict[str, int]
FileResults: TypeAlias = list[dict[str, str | int]]


class DataSetMeta(TypedDict):
    """What `.meta.json` says."""

    version: int
    kind: InputKind
    dtype: TokenDtype
    tokenizer: dict[str, Any]  # its `file`, `sha256` and `vocab_size`
    bos: list[int]
    eos: list[int]
    eod_id: int | None
    columns: list[str]
    chat_template: dict[str, str] | None
    loss_mask: bool
    options: dict[str, object]
    counts: Counts
    files: FileResults  # an entry per input file; counts where it could be read, else an error
    special_tokens_check: NotRequired[dict[str, object]]  # where one was asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenStats:
    """A finished data set."""

    documents: int  # the empty ones that it keeps included
    sequences: int
    tokens: int
    characters: int  # of the tokenized texts (chats as rendered)
    rejected: int  # rows that could not be tokenized, each listed in the file of rejects
    filtered: int
    doubled: int  # beginnings with two BOS and ends with two EOS or EOD
    failed_files: int
    dtype: TokenDtype
    eod_id: int | None  # the id after every document, None = none
    vocabulary: int
    tokenizer_sha256: str
    already_done: bool = False
    engines: tuple[str, ...] = ()  # that tokenized it; none where nothing had to be
    wrong_engines: tuple[str, ...] = ()  # that were found wrong meanwhile

    @property
    def engine(self) -> str:
        """Return the engines that tokenized it, as people read them."""
        return ", ".join(self.engines)


_WARNED: Final = {
    "tools_unused": "the chat template takes no tool definitions: they were left out",
    "two_bos": "documents begin with two BOS: the text or its chat template has one already "
    "(leave out `add_special_tokens`)",
    "two_eos": "documents end with two EOS or EOD: the text or its chat template has one already, "
    "or both options add it (leave out `add_special_tokens` or `append_eod`)",
}
"""What is counted of documents that are written and should be known."""


def find_done(build: Build) -> TokenStats | None:
    """Return the stats of the equal data set that is there already; None where there is none.

    Raises OutputError: another one is there, and is not to be replaced.
    """
    _, idx_path, meta_path = index_paths(build.prefix)
    if not idx_path.exists():
        return None
    identity = (find_json(build.run_file, own=True) or {}).get("identity")
    unknown = "it is not known how it was made"
    differs = identity_difference(build.identity(), identity) if identity else unknown
    if not differs:
        meta = decode(DataSetMeta, find_json(meta_path, own=True) or {})
        differs = describe_damage(build.prefix, meta)
        if not differs:
            log_event(build.monitor, "info", "pipeline", "already_done", file_path=str(idx_path))
            return read_stats(meta, already_done=True)
    if build.work.overwrite:
        return None
    state = "is another data set" if build.work.resume else "exists, and differs"
    hint = "name another prefix, or build with `overwrite`"
    raise OutputError(str(idx_path), f"{state}: {differs}", hint)


def make_data_set(build: Build, staging: Staging) -> TokenStats:
    """Do the units of a build; then put all of them together and commit the data set.

    Raises PartDone: these were the units of one part.
    """
    started = time.monotonic()
    work, part = build.work, build.part
    if part is not None and work.runner == "ray":
        problem = "`shard` does not go with `runner` ray"
        raise ConversionError(str(build.prefix), problem, "a cluster needs no parts")
    resumed = staging.join(
        build.identity(), resume=work.resume, overwrite=work.overwrite, merges=build.merges
    )
    if resumed and part is None:
        units = len(finished_units(staging.base))
        log_event(build.monitor, "info", "pipeline", "resumed", units=units)
    plan = build.plan()
    sizes = [unit.bytes for unit in plan]
    if build.merges:
        finished = finished_units(staging.base)
        missing = [unit.number for unit in plan if unit.number not in finished]
        check_complete(build.prefix, missing, len(plan))
    own_numbers = part.own(sizes) if part else range(len(plan))
    done = _do_units(build, staging, plan[own_numbers.start : own_numbers.stop])
    if part:
        for file, why in done.crashed.items():
            hint = "look at the file, then run this part again"
            raise SourceError(build.files[file].name, why, hint)
        build.monitor({"kind": "phase", "phase": "done"})
        raise part_done(build.prefix, part, sizes)
    build.monitor({"kind": "phase", "phase": "merge"})
    return _commit(build, staging, plan, done, started)


class _UnitsDone(NamedTuple):
    crashed: dict[int, str]  # by number the files that processes died of, and how
    wrong: frozenset[str]  # engines that gave other ids than the reference


def _do_units(build: Build, staging: Staging, units: Sequence[Unit]) -> _UnitsDone:
    """Do every unit that is not finished."""
    wrong = wrong_engines(staging.base)
    if not staging.shared:
        with output_errors(staging.prefix):
            recover_lanes(staging.base)
        used = {stretch.engine for stretch in finished_units(staging.base).values()} - {""}
        wrong |= {name for name in used if not is_trusted(build.recipe, name)}
        for engine in wrong & used:
            _forget_engine(build, staging, engine, "it gave other ids than the reference elsewhere")
    crashed = dict[int, str]()
    while pending := _list_pending(staging, units, crashed):
        raise_if_stopping()
        choice = build.pick_engine(pending, wrong)
        size, number = sum(unit.bytes for unit in pending), len({unit.file for unit in pending})
        build.monitor({"kind": "plan", "bytes": size, "files": number, "units": len(pending)})
        build.monitor({"kind": "phase", "phase": "read"})
        try:
            crashed |= _do_pending(build, staging, pending, choice)
        except EngineWrongError as error:
            if error.engine not in FAST_ENGINES or error.engine in wrong:
                problem = f"the library contradicts itself about its ids: {error}"
                hint = "report this text and the tokenizer"
                raise ConversionError(build.recipe.loaded.given, problem, hint) from error
            wrong |= {error.engine}
            keep_verdict(_engine_case(build.recipe, error.engine), failed_verdict(error.text))
            _forget_engine(build, staging, error.engine, str(error))
    return _UnitsDone(crashed, wrong)


def _list_pending(staging: Staging, units: Sequence[Unit], crashed: dict[int, str]) -> list[Unit]:
    finished = finished_units(staging.base)
    return [one for one in units if one.number not in finished and one.file not in crashed]


def _do_pending(
    build: Build, staging: Staging, pending: Sequence[Unit], choice: EngineChoice
) -> dict[int, str]:
    if build.work.processes > 1 or build.work.runner == "ray":
        from ingot.converters.megatron.run.unit_groups import run_groups

        return run_groups(build, staging, pending, choice)
    run_in_process(build, staging, pending, choice)
    return {}


def run_in_process(
    build: Build, staging: Staging, pending: Sequence[Unit], choice: EngineChoice
) -> None:
    """Do units in this process, in the first of its lanes."""
    tally, (lane, *_) = FileTally(pending, build.monitor), staging.take_lanes(1)
    files = dict(enumerate(build.files))
    with closing(Pipeline(build.recipe, build.work, choice, build.monitor)) as pipeline:
        for unit, stretch in pipeline.run(staging, lane, files, pending):
            tally.done(unit, failed=stretch.failed is not None)


def is_trusted(recipe: Recipe, engine: str) -> bool:
    """Check that no build has found an engine wrong, or one that was killed then."""
    if engine in REFERENCES:
        return True
    if engine not in FAST_ENGINES:
        return False
    verdict = recall_verdict(_engine_case(recipe, engine))
    return verdict is None or verdict.passed


def _engine_case(recipe: Recipe, engine: str) -> VerdictCase:
    return make_verdict_case(FAST_ENGINES[engine], recipe.loaded, plain=recipe.options.plain)


def _forget_engine(build: Build, staging: Staging, engine: str, problem: str) -> None:
    """Note that what the engine wrote has to be done again."""
    log_event(build.monitor, "error", "tokenizer", "engine_wrong", engine=engine, error=problem)
    build.monitor({"kind": "count", "engine_errors": 1})
    with output_errors(staging.prefix):
        for lane in staging.own_lanes():
            drop_engine(staging.base, lane, engine)


def _commit(
    build: Build, staging: Staging, plan: Sequence[Unit], done: _UnitsDone, started: float
) -> TokenStats:
    recipe, finished = build.recipe, finished_units(staging.base)
    failures = done.crashed | {
        unit.file: finished[unit.number].failed or ""
        for unit in plan
        if unit.number in finished and finished[unit.number].failed
    }
    good = [finished[unit.number] for unit in plan if unit.file not in failures]
    counts = sum_counts(good)
    if not build.is_shard and not counts["tokens"]:
        staging.clear()
        raise no_tokens_error(
            str(build.prefix),
            counts,
            {build.files[file].name: why for file, why in failures.items()},
            len(build.files),
            describe_columns(build.files[0], recipe.layout),
        )
    for name, error in _WARNED.items():
        if counts[name]:
            facts = {"records": counts[name], "error": error}
            log_event(build.monitor, "warn", "tokenizer", name, **facts)
    index_started = time.monotonic()
    assembled = assemble(
        staging, good, recipe.rules.dtype, masks=recipe.masks, rejects=build.rejects
    )
    build.monitor({"kind": "count", "index_seconds": time.monotonic() - index_started})
    meta = describe_data_set(recipe, *count_results(build.files, plan, finished, failures))
    engines = sorted({stretch.engine for stretch in good} - {""})
    wrong = tuple(sorted(done.wrong))
    info = {
        "identity": build.identity(),
        "engines": engines,
        "seconds": round(time.monotonic() - started, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": host_facts(),
    }
    commit_data_set(staging, assembled, meta=meta, run=info, run_file=build.run_file)
    build.monitor({"kind": "phase", "phase": "done"})
    return replace(read_stats(meta), engines=tuple(engines), wrong_engines=wrong)


def describe_data_set(recipe: Recipe, counts: Counts, files: FileResults) -> DataSetMeta:
    """Return what `.meta.json` says."""
    tokenizer_name = recipe.loaded.given
    meta: DataSetMeta = {
        "version": RECIPE_VERSION,
        "kind": recipe.layout.kind,
        "dtype": recipe.rules.dtype,
        "tokenizer": {
            # without its folder: equal builds give equal bytes wherever they are made
            "file": tokenizer_name
            if tokenizer_name.startswith("hf://")
            else recipe.loaded.path.name,
            "sha256": recipe.loaded.sha256,
            "vocab_size": recipe.loaded.vocabulary,
        },
        "bos": list(recipe.rules.bos),
        "eos": list(recipe.rules.eos),
        "eod_id": recipe.rules.eod,
        "columns": list(recipe.layout.columns),
        "chat_template": recipe.template_facts(),
        "loss_mask": recipe.masks,
        "options": recipe.options.to_document(),
        "counts": counts,
        "files": files,
    }
    if recipe.special_tokens_check:
        meta["special_tokens_check"] = recipe.special_tokens_check
    return meta


def count_results(
    files: Sequence[InputFile],
    units: Sequence[Unit],
    finished: Mapping[int, LaneStretch],
    failures: Mapping[int, str],
) -> tuple[Counts, FileResults]:
    """The `counts` and the `files` of `.meta.json`."""
    by_file: dict[int, list[LaneStretch]] = {}
    for unit in units:
        if unit.file not in failures:
            by_file.setdefault(unit.file, []).append(finished[unit.number])
    entries: FileResults = []
    for number, file in enumerate(files):
        entry: dict[str, str | int] = {"path": file.name, "bytes": file.bytes}
        if number in failures:
            entries.append({**entry, "status": "failed", "error": failures[number]})
        else:
            entries.append({**entry, "status": "done", **_shown_counts(by_file[number])})
    counts = _shown_counts(
        [stretch for file_stretches in by_file.values() for stretch in file_stretches]
    )
    return {"files": len(files), "failed_files": len(failures), **counts}, entries


def no_tokens_error(
    prefix: str, counts: Mapping[str, int], failures: Mapping[str, str], files: int, hint: str = ""
) -> SourceError | NoTokensError:
    """The error for a data set without a token; `failures` say by name why files cannot be read."""
    if len(failures) == files:
        first = "; ".join(f"{name}: {why}" for name, why in list(failures.items())[:3])
        return SourceError("", f"none of {files} files can be read: {first}")
    names = ("rows", "empty", "short", "long", "rejected")
    counts_text = ", ".join(f"{counts[name]} {name}" for name in names)
    problem = f"not a single token ({counts_text}): Megatron cannot load an empty data set"
    hint = hint or "check the text columns and the length limits"
    return NoTokensError(prefix, problem, f"{hint}; nothing was written")


def _shown_counts(stretches: Sequence[LaneStretch]) -> dict[str, int]:
    counts = sum_counts(stretches)
    return {name: counts[name] for name in UNIT_COUNTS}


def read_stats(meta: DataSetMeta, *, already_done: bool = False) -> TokenStats:
    """The stats of a data set with that `.meta.json`."""
    counts = meta["counts"]
    names = ("documents", "sequences", "tokens", "characters", "rejected", "failed_files")
    same: dict[str, Any] = {name: counts[name] for name in names}
    return TokenStats(
        **same,
        filtered=counts["short"] + counts["long"],
        doubled=counts.get("two_bos", 0) + counts.get("two_eos", 0),  # former versions: none
        dtype=meta["dtype"],
        eod_id=meta["eod_id"],
        vocabulary=meta["tokenizer"]["vocab_size"],
        tokenizer_sha256=meta["tokenizer"]["sha256"],
        already_done=already_done,
    )


def describe_damage(prefix: Path, meta: DataSetMeta) -> str:
    """What is missing of a data set with that `.meta.json`, by the sizes of its files."""
    bin_path, _, meta_path = index_paths(prefix)
    if "counts" not in meta:
        return f"{meta_path.name} is damaged"
    tokens = meta["counts"]["tokens"]
    sizes = {bin_path: tokens * np.dtype(DTYPES[WRITTEN_CODES[meta["dtype"]]]).itemsize}
    if meta["loss_mask"]:
        sizes[index_paths(mask_prefix(prefix))[0]] = tokens
    for path, size in sizes.items():
        if not path.is_file() or path.stat().st_size != size:
            return f"{path.name} is damaged"
    return ""
