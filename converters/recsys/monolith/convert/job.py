"""Convert streams of Monolith's messages, and Parquet tables, into each other."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from ingot import __version__
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import (
    FileEntry,
    InputEntry,
    InputStamp,
    check_unchanged,
    is_store_url,
    output_errors,
    whole_file,
)
from ingot.converters.output.identity import ALREADY_DONE, RunIdentity
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.progress import Clock, Progress, Watch, peak_rss
from ingot.converters.recsys.monolith.convert.settings import Counts, Settings, Target
from ingot.converters.recsys.monolith.convert.stream import (
    SINKS,
    Sink,
    StreamConverter,
    reject_writer,
)
from ingot.converters.recsys.monolith.frames.compression import SUFFIXES, compression_by_name
from ingot.converters.recsys.monolith.streams import (
    REJECTS,
    STDIN,
    Inputs,
    find_inputs,
    standard_input,
)
from ingot.converters.sources.facts import (
    absolute_location,
    input_entry,
    input_stamp,
    unchanged_files,
)
from ingot.converters.sources.storage.listing import Entry, list_location

FORMAT: Final = 1
_NAMED: Final = {
    *(".snappy", ".zst", ".zstd", ".gz", ".zz", ".zlib"),
    *(".parquet", ".pq", ".pb", ".bin", ".data", ".examplebatch", ".example"),
}
STDOUT: Final = "-"


def output_name(name: str, target: Target, compression: str) -> str:
    """What the stream that is made of one is named: its name, with the endings of what it is."""
    path = PurePosixPath(name)
    while path.suffix.lower() in _NAMED and path.stem:
        path = path.with_suffix("")
    if target == "parquet":
        return f"{path}.parquet"
    return f"{path}.pb{SUFFIXES.get(compression, ('',))[0]}"


def output_names(inputs: Inputs, target: Target, compression: str) -> dict[str, str]:
    """By the name of each stream, what the one that is made of it is named."""
    names: dict[str, str] = {}
    for file in inputs.files:
        name = output_name(file.name, target, compression)
        if name in names:
            problem = f"{names[name]} and {file.name} would both become {name}"
            raise SourceError(inputs.where, problem, "convert them one by one, or rename one")
        names[name] = file.name
    return {file: name for name, file in names.items()}


def conversion_identity(inputs: Inputs, settings: Settings) -> RunIdentity:
    """Return what decides the bytes of a folder of converted streams."""
    return RunIdentity(
        settled={
            "decision": "monolith",
            "versions": {"ingot": __version__, "monolith": FORMAT},
            "options": settings.document(),
        },
        place=absolute_location(inputs.where),
        stamps=_input_stamps(inputs),
        entries=lambda: [input_entry(file) for file in inputs.files],
    )


def _input_stamps(inputs: Inputs) -> list[InputStamp]:
    return [input_stamp(file) for file in inputs.files]


OutputOpener = Callable[[Entry], BinaryIO]
"""Opens what a stream is written to, empty; it is complete when the next is asked for."""
SinkOpener = Callable[[Entry, Counts], Sink]


class ConversionRun:
    """Converts streams one after the other; `counts` are those of all that are converted."""

    def __init__(self, inputs: Inputs, settings: Settings, watch: Watch) -> None:
        self.inputs, self.settings, self._watch = inputs, settings, watch
        self._files = self._rows = 0
        self._done: list[tuple[Entry, Counts, SourceError | None]] = []
        self.counts, self.reordered = Counts(), 0

    def write(
        self, out_of: OutputOpener, compression: str, rejects: BinaryIO, *, once: bool = False
    ) -> None:
        """Write every stream; `rejects` gets a line for what is bad.

        An output that cannot be written anew is written `once`.
        """
        if self.settings.target == "parquet":
            self._write_tables(out_of, rejects, once=once)
        else:
            sink = SINKS[self.settings.target]
            self._write_streams(
                lambda file, counts: sink(out_of(file), self.settings, compression, counts), rejects
            )
        self._check_any_usable()

    def _write_streams(self, sink_of: SinkOpener, rejects: BinaryIO) -> None:
        self._done, self.counts, self._rows = [], Counts(), 0
        reject = reject_writer(rejects)
        for number, file in enumerate(self.inputs.files):
            self._files = number
            stream = StreamConverter(file, self.settings, reject, self._report)
            stream.write_to(sink_of(file, stream.counts))
            self._add(file, stream.counts, stream.first_bad)
        self._files = len(self.inputs.files)
        self._report(0)

    def _add(self, file: Entry, counts: Counts, bad: SourceError | None) -> None:
        self._done.append((file, counts, bad))
        self.counts.add(counts)

    def write_pieces(
        self, made: dict[str, str], staged: StagedResult, spread: Spread
    ) -> tuple[list[InputEntry], list[FileEntry]]:
        """Convert every stream as a piece of the job; return the files read and written."""
        from ingot.converters.output.pieces import Phases, piece_name, take_file
        from ingot.converters.recsys.monolith.convert import stream_pieces as pieces

        files, schema = self.inputs.files, staged.work / "schema"
        tasks = [
            pieces.StreamTask(
                file, made[file.name], self.settings, staged.work / piece_name(number), schema
            )
            for number, file in enumerate(files)
        ]
        sizes, table = [file.bytes for file in files], self.settings.target == "parquet"
        phases = Phases(spread, staged.place, 1 + table, self._watch)
        if table:
            scans = [
                replace(one, folder=one.folder.with_name(f"scan-{n}"))
                for n, one in enumerate(tasks)
            ]
            pieces.join_scans(phases.run("scan", pieces.scan_stream, scans, sizes), schema)
        done = phases.run("convert", pieces.convert_stream, tasks, sizes)
        for file, piece in zip(files, done, strict=True):
            bad = piece["first_bad"] and SourceError(*piece["first_bad"])
            self._add(file, decode(Counts, piece["counts"]), bad)
            self.reordered += piece["reordered"]
            self.settings.filters.matched.update(piece["matched"])
        self._check_any_usable()
        with (staged.result / REJECTS).open("wb") as rejects:
            for task in tasks:
                take_file(task.folder / task.made, staged.result / task.made)
                rejects.write((task.folder / REJECTS).read_bytes())
        return [piece["input"] for piece in done], [piece["file"] for piece in done]

    def _write_tables(self, out_of: OutputOpener, rejects: BinaryIO, *, once: bool) -> None:
        """Write tables with the columns that the first rows have; anew where that is not all."""
        from ingot.converters.recsys.monolith.tables.rows_to_arrow import TableSink
        from ingot.converters.recsys.monolith.tables.schema import TableScan

        scan = TableScan()
        if once:
            for file in self.inputs.files:
                for rows in StreamConverter(file, self.settings).rows():
                    scan.add(rows)
        else:
            first = TableScan()
            with closing(StreamConverter(self.inputs.files[0], self.settings).rows()) as parts:
                for rows in islice(parts, 1):
                    first.add(rows)
            guess = first.schema()
            self._write_streams(
                lambda file, counts: TableSink(out_of(file), guess, counts, scan), rejects
            )
        self.reordered, schema = scan.reordered, scan.schema()
        if once or not schema.equals(guess):
            if not once:
                emptied(rejects)
            self._write_streams(
                lambda file, counts: TableSink(out_of(file), schema, counts), rejects
            )

    def _check_any_usable(self) -> None:
        first = next((bad for *_, bad in self._done if bad), None)
        if first is None or self.counts.written or self.counts.filtered:
            return
        rejects = sum(self.counts.rejects.values())
        problem = f"no record can be used: {rejects:,} rejects, the first: {first.problem}"
        raise SourceError(first.where, problem, "check `source`, `framing` and `compression`")

    def result(
        self, out: str, rejects: Path | str | None = None, notes: tuple[str, ...] = ()
    ) -> "ConversionResult":
        """Return what was converted into `out`."""
        return ConversionResult(
            out=out,
            counts=self.counts,
            streams=tuple(StreamResult(file.name, counts) for file, counts, _ in self._done),
            reordered=self.reordered,
            unmatched=self.settings.filters.unmatched(),
            rejects=rejects,
            notes=notes,
        )

    def _report(self, rows: int) -> None:
        self._rows += rows
        far = {"rows": self._rows, "records": self._rows, "shards": len(self.inputs.files)}
        self._watch(Progress(stage="convert", shards_done=self._files, **far))


@dataclass(frozen=True)
class StreamResult:
    """What became of one stream; `made` is the file that it became in an output folder."""

    name: str
    counts: Counts
    made: str | None = None

    def document(self) -> dict[str, object]:
        """As manifests and printed JSON have it."""
        made = {} if self.made is None else {"made": self.made}
        return {"name": self.name, **encode(self.counts), **made}


@dataclass(frozen=True, kw_only=True)
class ConversionResult:
    """A finished conversion."""

    out: str  # the file or folder; `-` for standard output
    counts: Counts
    streams: tuple[StreamResult, ...] = ()
    reordered: int = 0
    unmatched: tuple[str, ...] = ()
    rejects: Path | str | None = None  # the file that tells what was bad; None where nothing was
    already_done: bool = False
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """As printed JSON has it."""
        return {
            "out": self.out,
            "already_done": self.already_done,
            "notes": list(self.notes),
            "rejects_file": None if self.rejects is None else str(self.rejects),
            **self.figures(),
        }

    def figures(self) -> dict[str, object]:
        """Return what manifests and printed JSON have in common."""
        return {
            "counts": encode(self.counts),
            "reordered": self.reordered,
            "unmatched": list(self.unmatched),
            "streams": [one.document() for one in self.streams],
        }


def convert(
    source: str,
    out: str,
    settings: Settings,
    *,
    overwrite: bool = False,
    progress: Watch | None = None,
    spread: Spread = WHOLE,
) -> ConversionResult:
    """Convert streams; in memory are blocks of 4 MiB, a record, an ExampleBatch, a row group.

    Raises PartDone where `spread` says to do a part.
    """
    watch = progress or (lambda _: None)
    into = out.endswith("/") or is_store_url(out) or Path(out).is_dir()
    if spread.is_any and (STDIN in (source, out) or (list_location(source).direct and not into)):
        problem = "is one stream, which `shard`, `runner` and `workers` do not divide"
        raise OutputError(out, problem, "name folders, or leave these out")
    with _open_inputs(source, out, settings) as inputs:
        run = ConversionRun(inputs, settings, watch)
        if out == STDOUT:
            return _convert_to_stdout(run)
        if source == STDIN and into:
            raise OutputError(out, "is a folder", "name a file: standard input becomes one file")
        if inputs.direct and not into:
            return _convert_to_file(run, Path(out), overwrite=overwrite)
        return _convert_to_folder(run, out, spread, overwrite=overwrite)


def _open_inputs(source: str, out: str, settings: Settings) -> AbstractContextManager[Inputs]:
    if source != STDIN:
        return nullcontext(find_inputs(source))
    twice = "parquet" in (settings.source, settings.target)
    folder = Path.cwd() if out == STDOUT else Path(out).absolute().parent
    return standard_input(folder if twice else None)


def _convert_to_stdout(run: ConversionRun) -> ConversionResult:
    if run.settings.target == "parquet" and len(run.inputs.files) > 1:
        problem = f"cannot hold {len(run.inputs.files)} Parquet files"
        raise OutputError("standard output", problem, "name a folder")
    stream = sys.stdout.buffer
    packed = run.settings.out_compression or "none"
    run.write(lambda _: stream, packed, sys.stderr.buffer, once=True)
    stream.flush()
    return run.result(STDOUT)


def _convert_to_file(run: ConversionRun, path: Path, *, overwrite: bool) -> ConversionResult:
    if path.exists() and not overwrite:
        raise OutputError(str(path), "already exists", "set `overwrite` to replace it")
    source = Path(str(run.inputs.files[0].place))
    if path.exists() and source.exists() and path.samefile(source):
        raise OutputError(str(path), "is the file that is read", "choose another file")
    compression = run.settings.out_compression or compression_by_name(path.name) or "none"
    rejects = path.with_name(f"{path.name}.{REJECTS}")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as out, whole_file(rejects) as told:
            run.write(lambda _: emptied(out), compression, told)
        if not run.counts.rejects:
            rejects.unlink()
            return run.result(str(path))
        return run.result(str(path), rejects)


def emptied(stream: BinaryIO) -> BinaryIO:
    """Return a file without what was written to it."""
    stream.seek(0)
    stream.truncate()
    return stream


def _convert_to_folder(
    run: ConversionRun, out: str, spread: Spread, *, overwrite: bool
) -> ConversionResult:
    inputs, settings = run.inputs, run.settings
    made = output_names(inputs, settings.target, settings.out_compression or "none")
    identity = conversion_identity(inputs, settings)
    with identity.stage(out, overwrite=overwrite, spread=spread) as staged:
        if staged.done:
            return _earlier_result(staged)
        with output_errors(staged.result):
            return _write_folder(run, identity, made, staged, spread)


def _earlier_result(staged: StagedResult) -> ConversionResult:
    manifest = staged.done.manifest if staged.done else {}
    counts = decode(Counts, manifest["counts"])
    return ConversionResult(
        out=str(staged.place),
        counts=counts,
        streams=tuple(
            StreamResult(one["name"], decode(Counts, one), one["made"])
            for one in manifest["streams"]
        ),
        reordered=manifest["reordered"],
        unmatched=tuple(manifest["unmatched"]),
        rejects=f"{staged.place}/{REJECTS}" if counts.rejects else None,
        already_done=True,
        notes=(*staged.notes, ALREADY_DONE),
    )


def _write_folder(
    run: ConversionRun,
    identity: RunIdentity,
    made: dict[str, str],
    staged: StagedResult,
    spread: Spread,
) -> ConversionResult:
    clock, opened = Clock(), ExitStack()

    def open_output(file: Entry) -> BinaryIO:
        """Open the file that a stream becomes, and close the one before it."""
        opened.close()
        path = staged.result / made[file.name]
        path.parent.mkdir(parents=True, exist_ok=True)
        return opened.enter_context(path.open("wb"))

    rejects = staged.result / REJECTS
    clock.start("convert")
    known: list[FileEntry] = []
    with unchanged_files(run.inputs.files):
        if spread.is_any:
            entries, known = run.write_pieces(made, staged, spread)
        else:
            with rejects.open("wb") as rejected, opened:
                run.write(open_output, run.settings.out_compression or "none", rejected)
            clock.start("finish")
            entries = [input_entry(file) for file in run.inputs.files]
        if not run.counts.rejects:
            rejects.unlink()
    check_unchanged(_input_stamps(run.inputs), _input_stamps(find_inputs(run.inputs.where)))
    rejects_file = f"{staged.place}/{REJECTS}" if run.counts.rejects else None
    result = run.result(str(staged.place), rejects_file, staged.notes)
    result = replace(
        result, streams=tuple(replace(one, made=made[one.name]) for one in result.streams)
    )
    identity.commit(
        staged,
        {"inputs": entries, **result.figures()},
        {"seconds": clock.seconds(), "peak_rss_bytes": peak_rss()},
        known,
    )
    return result
