"""Build a token data set into an object store: shards, and a manifest that commits them.

    URL/shard-00000.bin, .idx, .meta.json   a data set of its own, as a local build makes it
    URL/shard-00000.loss_mask.bin, .idx     of conversations
    URL/shard-00000.rejects.jsonl           where rows were rejected
    URL/blend.txt                           tokens and prefix of each shard that has any, in order
    URL/manifest.json                       written last: the shards, and the `.meta.json` of all

A shard is made of neighbouring whole files with about `SHARD_BYTES`, so it depends on the inputs
alone. The documents of all shards, in order, are those of a local build of the same files. A shard
is built in a temporary folder and put as a whole; see `store_commit` for what happens there.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, cast

from ingot import __version__
from ingot.converters.errors import OutputError, SourceError, redact_urls
from ingot.converters.json_yaml import encode
from ingot.converters.megatron.engines.engine import EngineChoice
from ingot.converters.megatron.indexed_dataset import read_meta
from ingot.converters.megatron.messages import (
    Message,
    MessageSummary,
    Monitor,
    log_event,
)
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import (
    InputFile,
    fetch_input,
    find_layout,
    group_neighbours,
    plan_units,
)
from ingot.converters.megatron.run.data_set import (
    DataSetMeta,
    TokenStats,
    describe_data_set,
    is_trusted,
    make_data_set,
    no_tokens_error,
    read_stats,
)
from ingot.converters.megatron.run.recipe import Build, Ingredients, SideFiles, prepare_build
from ingot.converters.megatron.write.staging import open_staging
from ingot.converters.output.files import FileEntry, file_entry, output_errors
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.pieces import part_done, piece_name, spread_tasks
from ingot.converters.output.sharding import Spread, check_complete, own_tasks
from ingot.converters.output.store_commit import ShardStore, StoredResult
from ingot.converters.output.worker_pool import tell
from ingot.converters.progress import raise_if_stopping

SHARD_BYTES: Final = 1 << 30  # of the input as it is stored
BLEND: Final = "blend.txt"
_FORMAT: Final = 1


class ShardDocument(TypedDict):
    """What a finished shard says."""

    meta: DataSetMeta
    engines: list[str]  # that tokenized it
    wrong: list[str]  # that were found wrong meanwhile
    parts: list[FileEntry]
    etags: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a worker is told: the files of a shard, how they are built, and where they go."""

    number: int
    files: Sequence[InputFile]
    made_of: Ingredients
    work: WorkOptions  # of one process
    choice: EngineChoice
    store: ShardStore


def shard_name(number: int) -> str:
    """The prefix of a shard within its folder."""
    return f"shard-{number:05d}"


def build_in_store(
    files: Sequence[InputFile],
    tokenizer: Path | str,
    url: str,
    options: BuildOptions | None,
    work: WorkOptions | None,
    monitor: Monitor,
) -> TokenStats:
    """Tokenize files into shards below a URL; parameters and errors are those of `build`."""
    work = work or WorkOptions()
    if any(character.isspace() for character in url):
        problem = "has white space, which separates the prefixes of a blend"
        raise OutputError(redact_urls(url), problem, "choose another folder")
    with _scratch_folder(work) as folder:
        fetched = list(_fetch_sample(files, folder, options.text_cols if options else None))
        prepared = prepare_build(
            fetched, tokenizer, folder / "sample", options, work, None, monitor
        )
        identity = _make_identity(prepared, files)
        with identity.stage(
            url, overwrite=work.overwrite, spread=Spread(shard=work.shard), by_shards=True
        ) as staged:
            if staged.done is not None:
                log_event(monitor, "info", "pipeline", "already_done", file_path=redact_urls(url))
                meta = cast("DataSetMeta", staged.done.manifest["data_set"])
                return read_stats(meta, already_done=True)
            assert isinstance(staged, StoredResult)
            return _StoreBuild(files, prepared, identity, staged).run()


@contextmanager
def _scratch_folder(work: WorkOptions) -> Iterator[Path]:
    with output_errors(work.tmp_dir or tempfile.gettempdir()):
        if work.tmp_dir is not None:
            work.tmp_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ingot-", dir=work.tmp_dir) as folder:
            yield Path(folder)


def _fetch_sample(
    files: Sequence[InputFile], folder: Path, columns: tuple[str, ...] | None
) -> Iterator[InputFile]:
    """The files; those of a store up to the first that serves are fetched."""
    served = False
    for number, file in enumerate(files):
        fetched = file if served else fetch_input(file, _local_path(folder, number, file))
        if not served and file.stored is not None:
            try:
                find_layout([fetched], columns)
                served = True
            except SourceError:
                fetched.path.unlink(missing_ok=True)
        yield fetched


def _local_path(folder: Path, number: int, file: InputFile) -> Path:
    return folder / f"{number}{Path(file.name).suffix}"


def _make_identity(prepared: Build, files: Sequence[InputFile]) -> RunIdentity:
    recipe = {name: one for name, one in prepared.recipe.identity(()).items() if name != "files"}
    identity = RunIdentity(
        settled={
            "decision": "tokens",
            "versions": {"ingot": __version__, "tokens": _FORMAT},
            "recipe": encode(recipe),
        },
        stamps=[
            {"name": one.name, "bytes": one.bytes, "mtime_ns": one.mtime_ns, "etag": one.etag}
            for one in files
        ],
        further=lambda finished: (
            None if identity.has_equal_stamps(finished) else "other input files"
        ),
    )
    return identity


@dataclass(frozen=True)
class _StoreBuild:
    """One build that holds its destination."""

    files: Sequence[InputFile]
    made: Build  # its files are here as far as they are needed to choose an engine
    identity: RunIdentity
    staged: StoredResult

    def run(self) -> TokenStats:
        started, part, url = time.monotonic(), self.made.part, self.staged.store.where
        shards = group_neighbours(self.files, SHARD_BYTES)
        sizes = [sum(file.bytes for file in files) for files in shards]
        own_numbers = own_tasks(self.made.work.shard, sizes)
        finished = self.staged.store.finished()
        if self.made.merges:
            missing = [number for number in own_numbers if piece_name(number) not in finished]
            check_complete(url, missing, len(shards))
        done = self._make_shards(shards, own_numbers, finished)
        self.made.monitor({"kind": "phase", "phase": "done" if part else "merge"})
        if part:
            raise part_done(url, part, sizes)
        return self._commit([done[number] for number in own_numbers], started)

    def _make_shards(
        self, shards: Sequence[Sequence[InputFile]], own_numbers: range, finished: set[str]
    ) -> dict[int, ShardDocument]:
        """Make what is not there, and again what an engine made that is wrong by now."""
        done: dict[int, ShardDocument] = {}
        for number in own_numbers:
            name = piece_name(number)
            shard = self.staged.store.find_shard(name) if name in finished else None
            # Files that could not be read are tried again.
            if shard is not None and (
                self.made.merges or not shard["meta"]["counts"]["failed_files"]
            ):
                done[number] = cast("ShardDocument", shard)
        wrong: frozenset[str] = frozenset()
        while True:
            used = {name for one in done.values() for name in one["engines"]}
            wrong |= {name for one in done.values() for name in one["wrong"]}
            wrong |= {name for name in used if not is_trusted(self.made.recipe, name)}
            pending = [
                number
                for number in own_numbers
                if number not in done or wrong & {*done[number]["engines"]}
            ]
            if not pending:
                return done
            raise_if_stopping()
            done |= self._build_shards(shards, pending, wrong)

    def _build_shards(
        self, shards: Sequence[Sequence[InputFile]], pending: Sequence[int], wrong: frozenset[str]
    ) -> Iterator[tuple[int, ShardDocument]]:
        prepared, work, monitor = self.made, self.made.work, self.made.monitor
        units = plan_units(prepared.files, whole_files=True)
        local_units = [unit for unit in units if prepared.files[unit.file].stored is None]
        choice = prepared.pick_engine(units, wrong, sampled=local_units)
        files = [file for number in pending for file in shards[number]]
        size = sum(file.bytes for file in files)
        monitor({"kind": "plan", "bytes": size, "files": len(files), "units": len(files)})
        monitor({"kind": "phase", "phase": "read"})
        threads = work.threads()[0] if work.processes > 1 else work.workers
        alone = replace(work, processes=1, workers=threads, shard=None, runner="local")
        make = partial(
            ShardTask,
            made_of=prepared.recipe.ingredients(),
            work=alone,
            choice=choice,
            store=self.staged.store,
        )
        tasks = (make(number=number, files=shards[number]) for number in pending)
        workers = Spread(
            runner="ray" if work.runner == "ray" else "processes",
            workers=work.processes,
            ray_address=work.ray_address,
        )
        build_here = partial(build_shard, monitor=monitor)
        results = spread_tasks(
            workers, build_shard, tasks, len(pending), work_here=build_here, hear=monitor
        )
        for number, (document, messages) in zip(pending, results, strict=False):
            for message in messages:
                monitor(message)
            yield number, document

    def _commit(self, shards: Sequence[ShardDocument], started: float) -> TokenStats:
        metas = [one["meta"] for one in shards]
        names = metas[0]["counts"]
        counts = {name: sum(meta["counts"][name] for meta in metas) for name in names}
        entries = [entry for meta in metas for entry in meta["files"]]
        if not counts["tokens"]:
            failed = {str(one["path"]): str(one["error"]) for one in entries if "error" in one}
            raise no_tokens_error(self.staged.store.where, counts, failed, len(entries))
        meta = describe_data_set(self.made.recipe, counts, entries)
        tokens = {shard_name(number): one["counts"]["tokens"] for number, one in enumerate(metas)}
        blend = [
            f"{count} {self.staged.store.url}/{name}\n" for name, count in tokens.items() if count
        ]
        with output_errors(self.staged.result):
            (self.staged.result / BLEND).write_text("".join(blend), "utf-8")
        parts = [part for one in shards for part in one["parts"]]
        for number, one in enumerate(shards):
            for path in (part["path"] for part in one["parts"]):
                self.staged.take_part(piece_name(number), path, path, one["etags"].get(path))
        engines = sorted({name for one in shards for name in one["engines"]})
        run = {"engines": engines, "seconds": round(time.monotonic() - started, 3)}
        run |= self.staged.found_facts()
        self.identity.commit(self.staged, {"data_set": meta, "shards": tokens}, run, parts)
        self.made.monitor({"kind": "phase", "phase": "done"})
        return replace(read_stats(meta), engines=tuple(engines))


def build_shard(
    task: ShardTask, monitor: Monitor | None = None
) -> tuple[ShardDocument, list[Message]]:
    """Build a shard and put it into the store; what it says of its work goes to the monitor."""
    summary = MessageSummary()

    def hear(message: Message) -> None:
        if message["kind"] in ("plan", "phase"):  # of this shard alone
            return
        if monitor is not None:
            monitor(message)
        elif not tell({**message, "worker": task.number}):
            summary.hear(message)

    with _scratch_folder(task.work) as folder:
        prefix = folder / "shard" / shard_name(task.number)
        shard_build = Build(
            files=[
                fetch_input(file, _local_path(folder, number, file))
                for number, file in enumerate(task.files)
            ],
            recipe=task.made_of.recipe(),
            prefix=prefix,
            work=task.work,
            beside=SideFiles(run=folder / "run.json"),
            monitor=hear,
            engine=task.choice,
            is_shard=True,
        )
        with open_staging(prefix, None) as staging:
            stats = make_data_set(shard_build, staging)
        paths = sorted(prefix.parent.iterdir())
        document: ShardDocument = {
            "meta": cast("DataSetMeta", read_meta(prefix)),
            "engines": [*stats.engines],
            "wrong": [*stats.wrong_engines],
            "parts": [file_entry(prefix.parent, path.relative_to(prefix.parent)) for path in paths],
            "etags": {},
        }
        parts = [(path, path.name) for path in paths]
        etags = task.store.put_shard(piece_name(task.number), parts, document)
    return {**document, "etags": etags}, summary.messages()
