"""Convert streams of Monolith's messages, and Parquet tables, into each other."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from ingot import __version__
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import (
    InputStamp,
    check_unchanged,
    is_store_url,
    output_errors,
    whole_file,
)
from ingot.converters.output.identity import ALREADY_DONE, RunIdentity
from ingot.converters.output.pieces import Phases, piece_name, take_file
from ingot.converters.output.sharding import WHOLE, Spread
from ingot.converters.progress import Clock, ProgressTally, Watch, peak_rss
from ingot.converters.recsys.monolith.convert.settings import Counts, Settings, Target
from ingot.converters.recsys.monolith.convert.stream_pieces import (
    Columns,
    StreamResult,
    StreamTask,
    convert_stream,
    find_columns,
    find_other_columns,
    read_piece,
    write_stream,
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
from ingot.converters.sources.storage.listing import list_location

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
    is_folder = out.endswith("/") or is_store_url(out) or Path(out).is_dir()
    if spread.is_any and (
        STDIN in (source, out) or (list_location(source).direct and not is_folder)
    ):
        problem = "is one stream, which `shard`, `runner` and `workers` do not divide"
        raise OutputError(out, problem, "name folders, or leave these out")
    tally = ProgressTally(progress)
    with _open_inputs(source, out, settings) as inputs:
        tally.begin("convert", len(inputs.files))
        if out == STDOUT:
            return _convert_to_stdout(inputs, settings, tally)
        if source == STDIN and is_folder:
            raise OutputError(out, "is a folder", "name a file: standard input becomes one file")
        if inputs.direct and not is_folder:
            return _convert_to_file(inputs, settings, Path(out), tally, overwrite=overwrite)
        return _convert_to_folder(inputs, settings, out, tally, spread, overwrite=overwrite)


def _open_inputs(source: str, out: str, settings: Settings) -> AbstractContextManager[Inputs]:
    if source != STDIN:
        return nullcontext(find_inputs(source))
    twice = "parquet" in (settings.source, settings.target)
    folder = Path.cwd() if out == STDOUT else Path(out).absolute().parent
    return standard_input(folder if twice else None)


def _finish(
    out: str, settings: Settings, streams: Sequence[StreamResult], notes: tuple[str, ...] = ()
) -> ConversionResult:
    """Sum up streams. Raises SourceError where none of their records can be used."""
    counts = Counts()
    for one in streams:
        counts.add(one.counts)
    first = next((one.first_bad for one in streams if one.first_bad), None)
    if first is not None and not (counts.written or counts.filtered):
        rejects = counts.rejects.total()
        problem = f"no record can be used: {rejects:,} rejects, the first: {first.problem}"
        raise SourceError(first.where, problem, "check `source`, `framing` and `compression`")
    return ConversionResult(
        out=out,
        counts=counts,
        streams=tuple(streams),
        reordered=sum(one.reordered for one in streams),
        unmatched=settings.filters.unmatched(),
        notes=notes,
    )


def _first_columns(inputs: Inputs, settings: Settings) -> Columns | None:
    """The columns that the first rows of a table need: mostly those of all rows."""
    return find_columns(inputs.files[0], settings, 1) if settings.target == "parquet" else None


def _convert_to_stdout(
    inputs: Inputs, settings: Settings, tally: ProgressTally
) -> ConversionResult:
    columns = None
    if settings.target == "parquet":
        if len(inputs.files) > 1:
            problem = f"cannot hold {len(inputs.files)} Parquet files"
            raise OutputError("standard output", problem, "name a folder")
        columns = find_columns(inputs.files[0], settings)  # it cannot be written anew
    out, packed = sys.stdout.buffer, settings.out_compression or "none"
    write = partial(write_stream, compression=packed, columns=columns, report=tally.add)
    streams = [write(one, settings, out, sys.stderr.buffer) for one in inputs.files]
    result = _finish(STDOUT, settings, streams)
    out.flush()
    return result


def _convert_to_file(
    inputs: Inputs, settings: Settings, path: Path, tally: ProgressTally, *, overwrite: bool
) -> ConversionResult:
    if path.exists() and not overwrite:
        raise OutputError(str(path), "already exists", "set `overwrite` to replace it")
    (file,) = inputs.files
    source = Path(str(file.place))
    if path.exists() and source.exists() and path.samefile(source):
        raise OutputError(str(path), "is the file that is read", "choose another file")
    packed = settings.out_compression or compression_by_name(path.name) or "none"
    rejects = path.with_name(f"{path.name}.{REJECTS}")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as out, whole_file(rejects) as rejected:
            columns = _first_columns(inputs, settings)
            write = partial(write_stream, compression=packed, report=tally.add)
            done = write(file, settings, out, rejected, columns=columns)
            if columns and (other_columns := find_other_columns(columns, [done.columns or {}])):
                tally.begin("rewrite", 1)
                for stream in (out, rejected):
                    stream.seek(0)
                    stream.truncate()
                done = write(file, settings, out, rejected, columns=other_columns)
            result = _finish(str(path), settings, [done])
        if result.counts.rejects:
            return replace(result, rejects=rejects)
        rejects.unlink()
        return result


def _convert_to_folder(
    inputs: Inputs,
    settings: Settings,
    out: str,
    tally: ProgressTally,
    spread: Spread,
    *,
    overwrite: bool,
) -> ConversionResult:
    identity, clock = conversion_identity(inputs, settings), Clock()
    names = output_names(inputs, settings.target, settings.out_compression or "none")
    with identity.stage(out, overwrite=overwrite, spread=spread) as staged:
        if staged.done:
            return _earlier_result(staged)
        with output_errors(staged.result):
            clock.start("convert")
            with unchanged_files(inputs.files):
                done = _convert_pieces(inputs, settings, names, staged, tally, spread)
                for task, _ in done:
                    take_file(task.folder / task.made, staged.result / task.made)
            clock.start("finish")
            streams = [read_piece(task, piece) for task, piece in done]
            for _, piece in done:
                settings.filters.matched.update(piece["matched"])
            result = _finish(str(staged.place), settings, streams, staged.notes)
            if result.counts.rejects:
                result = replace(result, rejects=f"{staged.place}/{REJECTS}")
                with (staged.result / REJECTS).open("wb") as rejects:
                    for task, _ in done:
                        rejects.write((task.folder / REJECTS).read_bytes())
            check_unchanged(_input_stamps(inputs), _input_stamps(find_inputs(inputs.where)))
            identity.commit(
                staged,
                {"inputs": [piece["input"] for _, piece in done], **result.figures()},
                {"seconds": clock.seconds(), "peak_rss_bytes": peak_rss()},
                [piece["file"] for _, piece in done],
            )
            return result


def _convert_pieces(
    inputs: Inputs,
    settings: Settings,
    names: dict[str, str],
    staged: StagedResult,
    tally: ProgressTally,
    spread: Spread,
) -> list[tuple[StreamTask, dict[str, Any]]]:
    """Convert every stream as a piece of the job; tables anew where they need more columns."""
    columns = _first_columns(inputs, settings)
    phases = Phases(spread, staged.place, 2 if columns else 1, tally)
    sizes = [file.bytes for file in inputs.files]
    folders = [staged.work / f"convert-{piece_name(number)}" for number in range(len(sizes))]
    tasks = [
        StreamTask(file, names[file.name], settings, folder, columns)
        for file, folder in zip(inputs.files, folders, strict=True)
    ]
    is_here = spread.runner == "local"
    work = partial(convert_stream, report=tally.add) if is_here else convert_stream
    done = phases.run("convert", work, tasks, sizes, _count_rows)
    if columns:
        if other_columns := find_other_columns(columns, [piece["columns"] for piece in done]):
            folders = [
                staged.work / f"rewrite-{piece_name(number)}" for number in range(len(sizes))
            ]
            tasks = [
                replace(task, folder=folder, columns=other_columns)
                for task, folder in zip(tasks, folders, strict=True)
            ]
            done = phases.run("rewrite", work, tasks, sizes, _count_rows)
        else:
            done = phases.run("convert", work, tasks, sizes)  # they are found done
    return list(zip(tasks, done, strict=True))


def _count_rows(_: StreamTask, piece: dict[str, Any]) -> int:
    return cast("int", piece["counts"]["rows"])


def _earlier_result(staged: StagedResult) -> ConversionResult:
    manifest = staged.done.manifest if staged.done else {}
    counts = decode(Counts, manifest["counts"])
    return ConversionResult(
        out=str(staged.place),
        counts=counts,
        streams=tuple(
            StreamResult(name=one["name"], counts=decode(Counts, one), made=one["made"])
            for one in manifest["streams"]
        ),
        reordered=manifest["reordered"],
        unmatched=tuple(manifest["unmatched"]),
        rejects=f"{staged.place}/{REJECTS}" if counts.rejects else None,
        already_done=True,
        notes=(*staged.notes, ALREADY_DONE),
    )
