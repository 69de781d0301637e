"""Streams of Monolith's messages, and Parquet tables, converted into each other.

A file becomes a file, which appears whole or not at all; a folder becomes a folder of as many
streams, with a manifest (`commit.stage`); standard input and output are streamed.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from ingot.converters.commit import Staged, stage, writing
from ingot.converters.errors import OutputError
from ingot.converters.job import Watch
from ingot.converters.manifest import check_unchanged, host_facts, list_files
from ingot.converters.measuring import Clock
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.identity import Identity
from ingot.converters.monolith.converting.naming import output_names
from ingot.converters.monolith.converting.run import Done, Run, total
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.framing.compression import by_name
from ingot.converters.monolith.streams import (
    REJECTS,
    STDIN,
    Input,
    Inputs,
    find_inputs,
    standard_input,
)
from ingot.converters.rows import Json
from ingot.converters.shard import peak_rss
from ingot.converters.whole_files import whole_file

STDOUT: Final = "-"


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A finished conversion.

    Attributes:
        out: the file or folder; `-` for standard output.
        counts: of all streams.
        streams: of each stream: its name, the name of what was made of it, and its counts.
        reordered: rows whose features tables have in another order.
        unmatched: names and patterns of filters that no feature has.
        rejects: the file that tells what was bad; None where nothing was.
        already_done: the folder held this very result before, nothing was done.
        notes: what was put right on the way, for people.
    """

    out: str
    counts: dict[str, Json]
    streams: tuple[dict[str, Json], ...] = ()
    reordered: int = 0
    unmatched: tuple[str, ...] = ()
    rejects: Path | None = None
    already_done: bool = False
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Json]:
        """As `--json` has it."""
        return {
            "out": self.out,
            "already_done": self.already_done,
            "notes": list(self.notes),
            "rejects_file": None if self.rejects is None else str(self.rejects),
            "counts": self.counts,
            "reordered": self.reordered,
            "unmatched": list(self.unmatched),
            "streams": list(self.streams),
        }


def convert(
    source: str,
    out: str,
    settings: Settings,
    *,
    overwrite: bool = False,
    progress: Watch | None = None,
) -> Converted:
    """Convert streams.

    Memory: some blocks of 4 MiB, one record, one ExampleBatch, one row group.

    Args:
        source: a file, a folder, a glob, a URL, or `-` for standard input.
        out: a file for one stream (with `/` at the end, or where a folder is, the folder that gets
            it); a folder for several; `-` for standard output.
        settings: what is made of them.
        overwrite: replace what is there.
        progress: called while rows are read.

    Raises:
        SourceError: a stream cannot be read, or holds something bad and nothing is to be skipped.
        ParametersError: a table's columns are not what they should be.
        ConversionError: a package is missing, or a table would have too many columns.
        OutputError: the destination is taken or cannot be written.
    """
    watch = progress or (lambda _: None)
    with _inputs(source, out, settings) as inputs:
        run = Run(inputs, settings, watch)
        if out == STDOUT:
            return _to_stdout(run, inputs, settings)
        folder = out.endswith("/") or Path(out).is_dir()
        if source == STDIN and folder:
            raise OutputError(out, "is a folder", "standard input becomes a file: name it")
        if inputs.direct and not folder:
            return _to_file(run, inputs, Path(out), settings, overwrite=overwrite)
        return _to_folder(run, inputs, Path(out), settings, overwrite=overwrite)


@contextmanager
def _inputs(source: str, out: str, settings: Settings) -> Iterator[Inputs]:
    if source != STDIN:
        yield find_inputs(source)
        return
    twice = "parquet" in (settings.source, settings.target)
    folder = Path.cwd() if out == STDOUT else Path(out).absolute().parent
    with standard_input(folder if twice else None) as inputs:
        yield inputs


def _to_stdout(run: Run, inputs: Inputs, settings: Settings) -> Converted:
    """All streams, one behind the other; what is bad as lines on standard error."""
    if settings.target == "parquet" and len(inputs.files) > 1:
        problem = f"{len(inputs.files)} tables cannot stand one behind the other"
        raise OutputError("standard output", problem, "name a folder")
    stream = sys.stdout.buffer
    done = run.write(lambda _: stream, settings.out_compression or "none", sys.stderr.buffer)
    stream.flush()
    return _converted(STDOUT, run, done)


def _to_file(
    run: Run, inputs: Inputs, path: Path, settings: Settings, *, overwrite: bool
) -> Converted:
    """One stream, as a file that appears whole or not at all."""
    if path.exists() and not overwrite:
        raise OutputError(str(path), "is there already", "replace it: --overwrite")
    source = Path(str(inputs.files[0].place))
    if path.exists() and source.exists() and path.samefile(source):
        raise OutputError(str(path), "is what is read", "choose another file")
    compression = settings.out_compression or by_name(path.name) or "none"
    rejects = path.with_name(f"{path.name}.{REJECTS}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as out, whole_file(rejects) as told:
            done = run.write(lambda _: out, compression, told)
        if not total(done).rejects:
            rejects.unlink()
            return _converted(str(path), run, done)
        return _converted(str(path), run, done, rejects=rejects)


def _converted(
    out: str,
    run: Run,
    done: list[Done],
    rejects: Path | None = None,
    notes: tuple[str, ...] = (),
) -> Converted:
    return Converted(
        out=out,
        counts=total(done).document(),
        streams=tuple(one.document() for one in done),
        reordered=run.reordered,
        unmatched=run.unmatched(),
        rejects=rejects,
        notes=notes,
    )


def _to_folder(
    run: Run, inputs: Inputs, out: Path, settings: Settings, *, overwrite: bool
) -> Converted:
    """A stream for each, in a folder with a manifest."""
    identity = Identity(inputs=inputs, settings=settings)
    names = output_names(inputs, settings.target, settings.out_compression or "none")
    made = dict(zip((file.name for file in inputs.files), names, strict=True))
    with stage(
        out, key=identity.key(), difference=identity.difference, overwrite=overwrite
    ) as staged:
        if staged.done:
            return _already_done(staged)
        with writing(staged.result):
            return _Folder(run, identity, made, staged).write()


def _already_done(staged: Staged) -> Converted:
    manifest = staged.done.manifest if staged.done else {}
    rejects = staged.out / REJECTS
    return Converted(
        out=str(staged.out),
        counts=manifest["counts"],
        streams=tuple(manifest["streams"]),
        reordered=manifest["reordered"],
        unmatched=tuple(manifest["unmatched"]),
        rejects=rejects if rejects.exists() else None,
        already_done=True,
        notes=(*staged.notes, "this result was there already: nothing to do"),
    )


class _Folder:
    """A folder that is written."""

    def __init__(self, run: Run, identity: Identity, made: dict[str, str], staged: Staged) -> None:
        self._run, self._identity, self._made, self._staged = run, identity, made, staged
        self._clock = Clock()
        self._open = ExitStack()

    def write(self) -> Converted:
        """Write and commit it."""
        settings, staged = self._identity.settings, self._staged
        before, rejects = self._identity.stamps(), staged.result / REJECTS
        self._clock.start("convert")
        with rejects.open("wb") as told, self._open:
            done = self._run.write(self._file, settings.out_compression or "none", told)
        if not (counts := total(done)).rejects:
            rejects.unlink()
        self._clock.start("finish")
        manifest = self._manifest(done, counts)
        check_unchanged(before, self._again().stamps())
        staged.commit(manifest, self._run_facts(before))
        told_in = staged.out / REJECTS if counts.rejects else None
        result = _converted(str(staged.out), self._run, done, told_in, staged.notes)
        return replace(result, streams=tuple(manifest["streams"]))

    def _file(self, file: Input) -> BinaryIO:
        """The file that a stream becomes; the one before it is closed."""
        self._open.close()
        path = self._staged.result / self._made[file.name]
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._open.enter_context(path.open("wb"))

    def _again(self) -> Identity:
        return replace(self._identity, inputs=find_inputs(self._identity.inputs.where))

    def _manifest(self, done: list[Done], counts: Counts) -> dict[str, Json]:
        return self._identity.settled() | {
            "inputs": [file.entry() for file in self._identity.inputs.files],
            "counts": counts.document(),
            "reordered": self._run.reordered,
            "unmatched": list(self._run.unmatched()),
            "streams": [one.document() | {"made": self._made[one.file.name]} for one in done],
            "files": list_files(self._staged.result),
        }

    def _run_facts(self, before: list[dict[str, Json]]) -> dict[str, Json]:
        return {
            "inputs": before,
            "seconds": self._clock.seconds(),
            "peak_rss_bytes": peak_rss(),
            "host": host_facts(),
        }
