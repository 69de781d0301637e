"""The job: a source and a mapping to a committed folder of records.

    OUT/records/part-00000.parquet|jsonl   the records, in the order of the rows; of a Delta table
                                           beside its log
    OUT/rejected/part-00000.jsonl          rows and records that were not converted, and why
    OUT/tokens/NAME.bin|.idx|.meta.json    with a tokenizer
    OUT/mapping.json                       the mapping as executed, nothing left to guess
    OUT/run.json, OUT/manifest.json        how it went, and what there is (see result.py)

The files of the source are packed into shards (see plan.py), which depend on the files alone. Each
shard is converted by itself, in one of several processes or in this one, into parts that are closed
at `PART_RECORDS` or `PART_BYTES`; the parts of all shards are then numbered through. So the bytes
depend on input, mapping and options only, and a run that was killed goes on with the shards that it
had not finished. A run that replaces a result takes over the shards that it would convert alike.
With a limit the shards are converted in turn: each needs the rows of those before it.
"""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ingot.converters.convert import plan
from ingot.converters.convert import result as results
from ingot.converters.convert.options import ConvertOptions, check_store_options
from ingot.converters.convert.record_tokens import TokenCounts, make_tokens
from ingot.converters.convert.result import (
    Approved,
    Manifest,
    ShardDocument,
    refuse_unapproved,
)
from ingot.converters.convert.shard import (
    PIECES,
    FormerShard,
    ShardTask,
    convert_shard,
    discard_drafts,
    former_shards,
    reusable_shards,
    shard_key,
)
from ingot.converters.errors import CommittedElsewhereError, SourceError
from ingot.converters.mapping.documents.writer import plain_document, to_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.output.commit import StagedResult, find_finished
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import encode_json, is_store_url, output_errors
from ingot.converters.output.identity import ALREADY_DONE, RunIdentity
from ingot.converters.output.pieces import part_done, piece_name, spread_tasks
from ingot.converters.output.sharding import WHOLE, check_complete, own_tasks, part_of_job
from ingot.converters.output.worker_pool import Runner
from ingot.converters.progress import ProgressTally, Watch, peak_rss, raise_if_stopping
from ingot.converters.records.delta_log import write_delta_log
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import unchanged_files

if TYPE_CHECKING:
    from ingot.converters.records.schema import RecordKind


_MAPS_NOTHING: Final = "the mapping says so: it maps nothing"


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished conversion; `already_done`: the folder held this result before."""

    out: Path | str  # a URL of an object store is a text
    manifest: Manifest
    run: dict[str, object]
    already_done: bool = False
    notes: tuple[str, ...] = ()
    first_rejects: tuple[str, ...] = ()


@dataclass(kw_only=True)
class StagedConversion:
    """A conversion that lacks its commit alone.

    Attributes:
        manifest: what its result says of itself, still without `files`.
        first_rejects: the first few rejects, in words.
        done: the result, once it stands in its place; what was there before is one too.
    """

    identity: RunIdentity
    staged: StagedResult
    manifest: Manifest
    run: dict[str, object] = field(default_factory=dict)
    parts: results.Parts = field(default_factory=results.Parts)
    first_rejects: tuple[str, ...] = ()
    done: Result | None = None

    def commit(self, files: dict[str, bytes], run: dict[str, object]) -> None:
        """Let the result appear, with these files and entries of run.json; not one that is there.

        The files must not hold times or places, or equal runs differ.
        """
        if self.done is not None:
            return
        with output_errors(self.staged.out):
            for name, content in files.items():
                (self.staged.result / name).write_bytes(content)
        known = [*self.parts.records, *self.parts.rejected]
        full, facts = self.identity.commit(self.staged, self.manifest, {**run, **self.run}, known)
        self.done = Result(
            out=self.staged.place,
            manifest=cast("Manifest", full),
            run=facts,
            notes=self.staged.notes,
            first_rejects=self.first_rejects,
        )

    @property
    def result(self) -> Result:
        """Return what was committed."""
        if self.done is None:
            raise ValueError("nothing is committed")
        return self.done


def convert(
    source: Source,
    mapping: Mapping,
    out: Path | str,
    options: ConvertOptions | None = None,
    *,
    progress: Watch | None = None,
    runner: Runner | None = None,
    approved: Approved | None = None,
) -> Result:
    """Convert a source and commit what came of it; see `stage_conversion`."""
    options = options or ConvertOptions()
    with stage_conversion(
        source, mapping, out, options, progress=progress, runner=runner, approved=approved
    ) as staged:
        staged.commit({}, {})
    return staged.result


@contextmanager
def stage_conversion(
    source: Source,
    mapping: Mapping,
    out: Path | str,
    options: ConvertOptions,
    *,
    progress: Watch | None = None,
    runner: Runner | None = None,
    approved: Approved | None = None,
) -> Iterator[StagedConversion]:
    """Convert a source for a folder or an object store, whose result appears when it is committed.

    What the mapping states about the files is applied to the source. Without a runner the options
    say who does the work. `approved` are the counts that gates on all rows may find; without it a
    person answers for the mapping. What is not committed is left for the next run.

    Raises:
        PartDone: this was a part of the job (`options.shard`); `merge` puts the parts together.
        SourceError: the source holds no data, or a file of it cannot be read to its end.
        ConversionError: every row was rejected (the message names the most frequent reasons and
            the first rejected rows; nothing is kept), or the tokenizer does not serve.
        CountsReviewNeeded: gates on all rows found more than was approved; the parts are kept.
        OutputError: the destination is taken or cannot be written.
    """
    options.check_shard()
    source, mapping = _apply_stated(source, mapping)
    if mapping.kind == "irrelevant":
        with stage_irrelevant(source, out, _MAPS_NOTHING, options) as empty:
            yield empty
        return
    staged: StagedConversion | None = None
    try:
        with _hold(source, mapping, out, options, progress, approved) as job:
            staged = job if isinstance(job, StagedConversion) else job.stage(runner)
            yield staged
    except CommittedElsewhereError:
        keeping = dataclasses.replace(options, overwrite=False)
        with _hold(source, mapping, out, keeping, progress, approved) as other:  # no other result
            finished = other if isinstance(other, StagedConversion) else None
            if finished and staged is None:
                yield finished
            elif finished and staged:
                staged.done = finished.done
        if finished is None:
            raise


@contextmanager
def _hold(
    source: Source,
    mapping: Mapping,
    out: Path | str,
    options: ConvertOptions,
    progress: Watch | None,
    approved: Approved | None,
) -> Iterator["_Conversion | StagedConversion"]:
    """Take hold of the destination; yields the result where it is there already."""
    if not source.files:
        hint = "; ".join(f"{one.name}: {one.why}" for one in source.left_out[:3])
        raise SourceError(source.location, "holds no file with data", hint)
    if is_store_url(out):
        check_store_options(str(out), options.records, options.tokenizer)
    results.check_apart(source, out)
    option_values = results.options_document(options, source.name)
    identity = results.conversion_identity(
        source, mapping.kind, results.mapping_sha256(mapping), option_values
    )
    identity = dataclasses.replace(identity, details={"mapping": plain_document(mapping)})
    with identity.stage(
        out, overwrite=options.overwrite, spread=options.spread, by_shards=True
    ) as staged:
        if staged.done:
            yield _existing_conversion(identity, staged, staged.done)
            return
        yield _Conversion(
            source=source,
            identity=identity,
            mapping=mapping,
            options=options,
            staged=staged,
            watch=progress or (lambda _: None),
            approved=approved,
        )


@contextmanager
def stage_irrelevant(
    source: Source, out: Path | str, reason: str, options: ConvertOptions
) -> Iterator[StagedConversion]:
    """Stage a folder that says that a source is irrelevant: empty `records/`, all counts 0."""
    option_values = results.options_document(
        dataclasses.replace(options, tokenizer=None), source.name
    )
    identity = results.conversion_identity(source, "irrelevant", None, option_values)
    with identity.stage(out, overwrite=options.overwrite, by_shards=True) as staged:
        if staged.done:
            yield _existing_conversion(identity, staged, staged.done)
            return
        with output_errors(staged.out):
            (staged.result / results.RECORDS_FOLDER).mkdir(exist_ok=True)
        manifest = results.build_manifest(identity, source, results.Counts(), reason=reason)
        yield StagedConversion(identity=identity, staged=staged, manifest=manifest)


def _existing_conversion(
    identity: RunIdentity, staged: StagedResult, finished: FinishedResult
) -> StagedConversion:
    manifest, notes = cast("Manifest", finished.manifest), (*staged.notes, ALREADY_DONE)
    done = Result(
        out=staged.place, manifest=manifest, run=finished.run, already_done=True, notes=notes
    )
    return StagedConversion(identity=identity, staged=staged, manifest=manifest, done=done)


def _apply_stated(source: Source, mapping: Mapping) -> tuple[Source, Mapping]:
    """The source as the mapping states it, and the mapping with what was guessed of its files."""
    spec = source.spec.with_facts(mapping.source)
    if spec != source.spec:
        source = source.with_spec(spec)
    guessed = dataclasses.replace(source.guessed, files=None)
    return source, dataclasses.replace(mapping, source=guessed.with_facts(spec))


@contextmanager
def _time_stage(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[name] = round(time.monotonic() - started, 3)


@dataclass(frozen=True, kw_only=True)
class _Conversion:
    """One conversion that holds its destination."""

    source: Source
    identity: RunIdentity
    mapping: Mapping
    options: ConvertOptions
    staged: StagedResult
    watch: Watch
    approved: Approved | None

    def stage(self, runner: Runner | None) -> StagedConversion:
        """Convert all rows, and put the parts of the result together."""
        shard, limit = self.options.shard, self.options.limit
        part = part_of_job(shard)
        seconds: dict[str, float] = {}
        if part is None:
            with output_errors(self.staged.out):
                discard_drafts(self.staged.work)
        # Groups may lie anywhere in a file, and with a limit its end is not read.
        cut = limit is None and not self.mapping.group
        # A shard sees that its files stay the same, but reads only its own piece of a large one.
        large = [file for file in self.source.files if cut and file.bytes > plan.SHARD_BYTES]
        with _time_stage(seconds, "convert"), unchanged_files(large):
            planned = self._plan(cut=cut)
            sizes = [sum(plan.stored_bytes(file) for file in files) for files in planned]
            own_numbers = own_tasks(shard, sizes)
            # Parts of a job, and nodes, hash what their shards are cut of.
            elsewhere = self.options.runner == "ray" or shard is not None
            with plan.hash_cut_files(() if elsewhere else planned) as hashes:
                shards = [*self._convert(planned, own_numbers, runner, hashes=elsewhere)]
                if len(shards) < len(own_numbers):  # the job is to end, or the limit is reached
                    raise_if_stopping()
                if part:
                    raise part_done(self.staged.place, part, sizes)
                plan.enter_cut_files(planned, (shard["inputs"] for shard in shards), hashes)
        counts = results.Counts()
        for one in shards:
            counts.add(one)
        results.refuse_all_rejected(counts, self.source.location)
        mapping = self._approved_mapping(counts)
        with _time_stage(seconds, "merge"):
            parts = results.number_parts(self.staged, shards)
            if self.options.records == "delta":
                folder = self.staged.result / results.RECORDS_FOLDER
                write_delta_log(folder, parts.records, cast("RecordKind", self.mapping.kind))
        with _time_stage(seconds, "tokens"):
            tokens = self._tokens(parts)
        manifest = results.build_manifest(
            self.identity,
            self.source,
            counts,
            inputs=(entry for shard in shards for entry in shard["inputs"]),
            mapping_warnings=self.mapping.warnings,
            tokens=tokens,
        )
        with output_errors(self.staged.out):
            # People read the mapping: role before content, as the language has it.
            written = encode_json(to_document(mapping), sort_keys=False)
            (self.staged.result / "mapping.json").write_bytes(written)
        keys = [shard_key(self.source, files) for files in planned]
        run = {
            "seconds": seconds,
            "shards": len(shards),
            "shards_taken_over": sum(shard["taken_over"] for shard in shards),
            PIECES: [] if self.options.limit else reusable_shards(keys, shards),
            **self.staged.found_facts(),
            "peak_rss_bytes": max([peak_rss(), *(shard["peak_rss"] for shard in shards)]),
        }
        return StagedConversion(
            identity=self.identity,
            staged=self.staged,
            manifest=manifest,
            run=run,
            parts=parts,
            first_rejects=tuple(counts.first_rejects),
        )

    def _plan(self, *, cut: bool) -> list[tuple[SourceFile, ...]]:
        shard = self.options.shard
        if shard is None:
            return plan.plan_shards(self.source, cut=cut)
        planned = plan.plan_shards(self.source, cut=cut, shard=shard, work=self.staged.work)
        if shard.merges:
            done = self.staged.pieces.finished()
            missing = [number for number in range(len(planned)) if piece_name(number) not in done]
            check_complete(self.staged.place, missing, len(planned))
        return planned

    def _convert(
        self,
        planned: Sequence[tuple[SourceFile, ...]],
        own_numbers: range,
        runner: Runner | None,
        *,
        hashes: bool,
    ) -> Iterator[ShardDocument]:
        limit, tally = self.options.limit, ProgressTally(self.watch, rejects=0)
        tally.begin("convert", len(own_numbers))  # inputs and destination are open
        former: dict[str, FormerShard] = {}
        if part_of_job(self.options.shard) is None:
            former = former_shards(find_finished(self.staged.out), self.identity)

        def list_tasks() -> Iterator[ShardTask]:
            for number in own_numbers:
                remaining = None if limit is None else limit - tally.rows
                if remaining == 0:
                    return
                yield self._task(number, planned[number], remaining, former, hashes=hashes)

        # With a limit each shard needs the rows of those before it.
        done = spread_tasks(
            self.options.spread if limit is None else WHOLE,
            convert_shard,
            list_tasks(),
            len(own_numbers),
            work_here=lambda task: convert_shard(task, tally.show_shard),
            runner=runner if limit is None else None,
        )
        for shard in done:
            written = shard["records"].get("written", 0)  # a shard may have no row
            tally.add(shard["rows"]["read"], written, shard["rows"]["rejected"], done=1)
            yield shard

    def _task(
        self,
        number: int,
        files: tuple[SourceFile, ...],
        limit: int | None,
        former: dict[str, FormerShard],
        *,
        hashes: bool,
    ) -> ShardTask:
        source = self.source
        # Only its own files: a task travels to its worker.
        listing = dataclasses.replace(source.listing, entries=())
        shard_source = dataclasses.replace(
            source, files=files, left_out=(), roots=(), listing=listing
        )
        return ShardTask(
            number=number,
            source=shard_source,
            mapping=self.mapping,
            source_name=self.options.source_name or source.name,
            language=self.options.language,
            format=self.options.records,
            limit=limit,
            pieces=self.staged.pieces,
            former=former.get(shard_key(source, files) or "") if former else None,
            hashes=hashes,
        )

    def _approved_mapping(self, counts: results.Counts) -> Mapping:
        """The mapping with the counts that were approved; CountsReviewNeeded where some are not."""
        pt, location = self.mapping.kind == "pt", self.source.location
        passed = refuse_unapproved(counts, self.approved, location, documents=pt)
        provenance = (self.mapping.provenance or {}) | ({"approved": passed} if passed else {})
        return dataclasses.replace(self.mapping, provenance=provenance or None)

    def _tokens(self, parts: results.Parts) -> TokenCounts | None:
        if self.options.tokenizer is None:
            return None
        return make_tokens(
            self.staged,
            parts.records,
            self.options.tokenizer,
            name=self.options.source_name or self.source.name,
            rejects=parts.next_rejects(),
            watch=self.watch,
        )
