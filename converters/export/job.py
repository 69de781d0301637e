"""Export a finished result to a folder that a trainer's config points into."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypedDict, cast

from ingot import __version__
from ingot.converters.convert.record_tokens import tokens_name
from ingot.converters.convert.result import RECORDS_FOLDER
from ingot.converters.errors import ConversionError, OutputError, error_text
from ingot.converters.export.chat_layout import (
    REASONS,
    TEXT_ROWS,
    Trainer,
    TrainingMode,
    WrittenFiles,
)
from ingot.converters.export.options import ExportOptions
from ingot.converters.export.trainers import (
    TRAINERS,
    Tally,
    TallyDocument,
    survey_records,
    trainer_rows,
    write_parts,
)
from ingot.converters.json_yaml import find_json, load_json
from ingot.converters.mapping.language import ROLES
from ingot.converters.output.commit import StagedResult, check_destination, find_finished
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import MANIFEST, FileEntry, hash_file, output_errors
from ingot.converters.output.identity import ALREADY_DONE, RunIdentity
from ingot.converters.progress import ProgressTally, Watch
from ingot.converters.records.readers import read_records, record_files
from ingot.converters.records.schema import Record, RecordKind


def check_place(folder: Path, out: Path) -> None:
    """Refuse a destination inside the result, or one that no config can name."""
    ours, theirs = out.resolve(), folder.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise OutputError(str(out), "overlaps the folder of the result", "choose another folder")
    if not is_plain_path(str(ours)):
        problem = "cannot be found by trainers: `datasets` reads its path as a pattern"
        raise OutputError(str(out), problem, "choose a path without `*`, `?`, `[` and `::`")
    check_destination(out)
    manifest = find_json(out / MANIFEST)
    if manifest is not None and "trainer" not in manifest:  # of ingot's, whole or damaged
        raise OutputError(str(out), "holds a result that is not an export", "choose another folder")


def is_plain_path(path: str) -> bool:
    """Return whether a config may name a path: `datasets` takes it for a pattern or a URL else."""
    return path.isprintable() and not any(special in path for special in (*"*?[", "::"))


_AGAIN: Final = "convert the data set again"
_BELOW: Final = ("[!.]*", "[!.]*/*", "[!.]*/*/*")  # a lake has results in sets/ and corpus/
_NAMED: Final = 4


def open_result(folder: Path) -> FinishedResult:
    """Return the finished result with records in a folder."""
    result = find_finished(folder)
    if result is None:
        raise _unfinished_error(folder)
    if "decision" not in result.manifest or "trainer" in result.manifest:
        raise _no_result_error(folder)
    decision = result.manifest["decision"]
    if decision not in ("pt", "sft"):
        problem = f"holds no records: {decision}: {result.manifest.get('reason')}"
        raise ConversionError(str(folder), problem, "there is nothing to export")
    if not record_files(folder / RECORDS_FOLDER):
        raise ConversionError(str(folder), "holds no records", "there is nothing to export")
    return result


def _no_result_error(folder: Path) -> ConversionError:
    problem = "holds no finished result of a conversion"
    results = (one.parent for depth in _BELOW for one in folder.glob(f"{depth}/{RECORDS_FOLDER}"))
    by_folder = {result.parent: str(result) for result in sorted(results, reverse=True)}
    examples = ", ".join(list(by_folder.values())[::-1][:_NAMED])
    hint = (
        f"export a result below it, such as {examples}"
        if examples
        else "convert the data set first"
    )
    return ConversionError(str(folder), problem, hint)


def _unfinished_error(folder: Path) -> ConversionError:
    try:
        manifest = load_json(folder / MANIFEST)
        damage = (
            next(_damage_texts(folder, manifest["files"]), None) if "decision" in manifest else None
        )
    except ValueError:
        damage = f"{MANIFEST} is not a JSON object"
    except (OSError, KeyError, TypeError):
        return _no_result_error(folder)
    if damage is None:
        return _no_result_error(folder)
    return ConversionError(str(folder), f"the result is damaged: {damage}", _AGAIN)


def _damage_texts(folder: Path, files: Iterable[FileEntry]) -> Iterator[str]:
    for file in files:
        path, expected = folder / file["path"], file["bytes"]
        if not path.is_file():
            yield f"{file['path']} is missing"
        elif (size := path.stat().st_size) != expected:
            yield f"{file['path']} has {size:,} bytes, {expected:,} expected"


def check_records(result: FinishedResult, file: Path) -> None:
    """Hold a file of records to the manifest of its result."""
    name = file.relative_to(result.folder).as_posix()
    listed = {one["path"]: one["sha256"] for one in result.manifest["files"]}
    if name not in listed:
        raise _damage_error(result, f"{name} is not in its manifest")
    try:
        digest = hash_file(file)
    except OSError as error:
        raise ConversionError(str(file), f"cannot be read: {error_text(error)}") from error
    if digest != listed[name]:
        raise _damage_error(result, f"{name} was changed: its SHA-256 is not that of the manifest")


def _damage_error(result: FinishedResult, problem: str) -> ConversionError:
    return ConversionError(str(result.folder), f"the result is damaged: {problem}", _AGAIN)


def read_known_records(file: Path) -> Iterator[Record]:
    """Yield the records of a file, in order."""
    for number, record in enumerate(read_records(file), start=1):
        unknown_roles = [
            one["role"] for one in record.get("messages", ()) if one["role"] not in ROLES
        ]
        if unknown_roles:
            problem = f"a message has the role {json.dumps(unknown_roles[0])}"
            raise ConversionError(f"{file}: record {number:,}", problem, _AGAIN)
        yield record


FORMAT: Final = 1
DATA: Final = "data"
WATCH_RECORDS: Final = 1_000  # between two reports of progress


class ExportManifest(TypedDict):
    """What the manifest of an export says beside `files`, `versions`, `result` and `options`."""

    trainer: dict[str, str]
    way: dict[str, object] | None  # its name and its settings
    records: TallyDocument
    trained_chars: dict[str, int]
    notes: list[str]
    data: list[str]


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """A finished export: its folder, its manifest, and how to start the trainer with it.

    `already_done`: the folder held this very export before, nothing was done.
    """

    out: Path
    manifest: ExportManifest
    use: tuple[str, ...]
    already_done: bool = False
    notes: tuple[str, ...] = ()


def export(
    folder: Path,
    trainer: str,
    out: Path,
    options: ExportOptions | None = None,
    progress: Watch | None = None,
) -> ExportResult:
    """Write what a trainer (of `TRAINERS`) needs to read the records of a finished result."""
    options = options or ExportOptions()
    result = open_result(folder)
    check_place(result.folder, out)
    job = _Export(
        result=result,
        trainer=TRAINERS[trainer],
        out=out,
        options=options,
        progress=ProgressTally(progress),
    )
    job.check()
    with job.identity.stage(out, overwrite=options.overwrite) as staged:
        if staged.done:
            done = cast("ExportManifest", staged.done.manifest)
            return job.describe(staged, done, already_done=True)
        return job.run(staged)


@dataclass(frozen=True, kw_only=True)
class _Export:
    """One export."""

    result: FinishedResult
    trainer: Trainer
    out: Path
    options: ExportOptions
    progress: ProgressTally

    @property
    def kind(self) -> RecordKind:
        kind: RecordKind = self.result.manifest["decision"]
        return kind

    @property
    def name(self) -> str:
        # Every trainer's config can spell it: it begins with a letter or a digit.
        usual = tokens_name(tokens_name(self.result.folder.resolve().name).lstrip("-_."))
        return self.options.name or usual

    @property
    def records(self) -> Path:
        return self.result.folder / RECORDS_FOLDER

    @cached_property
    def identity(self) -> RunIdentity:
        """Return what decides the bytes, as the manifest holds it."""
        settled = {
            "versions": {"ingot": __version__, "export": FORMAT},
            "trainer": {"name": self.trainer.name, "version": self.trainer.version},
            "result": {
                "decision": self.kind,
                "manifest_sha256": hash_file(self.result.folder / MANIFEST),
            },
            "options": {
                "name": self.name,
                "split": self.options.split,
                "lossy": self.options.lossy,
                "part_bytes": self.options.part_bytes,
            },
        }
        words = {"result.manifest_sha256": "an export of another result"}
        return RunIdentity(settled=settled, words=words, further=self._places_difference)

    def _shared(self) -> str:
        """The folder of the records as seen from the export."""
        return Path(os.path.relpath(self.records.resolve(), self.out.resolve())).as_posix()

    def _places_difference(self, result: FinishedResult) -> str | None:
        folders = {Path(file).parent.as_posix() for file in result.manifest.get("data", ())}
        return None if folders <= {DATA, self._shared()} else "the records of another folder"

    def run(self, staged: StagedResult) -> ExportResult:
        if self.kind == "sft":
            mode, tally = survey_records(self.trainer, self._read("count"))
        else:
            mode, tally = None, self._texts()
        self._check(tally)
        files = self._files(staged, mode, tally)
        written = self._written(mode, files)
        with output_errors(staged.out):
            for name, content in self.trainer.configs(written).items():
                (staged.result / name).write_bytes(content)
        manifest, _ = self.identity.commit(staged, self._manifest(mode, tally, files), {})
        return self.describe(staged, cast("ExportManifest", manifest))

    def check(self) -> None:
        """Hold the records to their manifest; also where there is nothing else to do."""
        files = record_files(self.records)
        self.progress.begin("check", len(files))
        for file in files:
            check_records(self.result, file)
            self.progress.add(0, done=1)

    def _read(self, stage: str) -> Iterator[Record]:
        files = record_files(self.records)
        self.progress.begin(stage, len(files))
        for file in files:
            number = 0
            for number, record in enumerate(read_known_records(file), 1):
                yield record
                if number % WATCH_RECORDS == 0:
                    self.progress.add(WATCH_RECORDS)
            self.progress.add(number % WATCH_RECORDS, done=1)

    def _texts(self) -> Tally:
        tally = Tally()
        for record in self._read("count"):
            tally.read += 1
            tally.chars_of_records += len(record["text"])
        tally.written, tally.chars_of_trainer = tally.read, tally.chars_of_records
        return tally

    def _check(self, tally: Tally) -> None:
        """Refuse what the trainer would not train on as the records say."""
        lost = tally.lost
        if lost and not self.options.lossy:
            lines = "".join(f"\n  {name} {n:,}: {REASONS[name]}" for name, n in lost.items())
            problem = f"{self.trainer.name} cannot train on all records as they are{lines}\n "
            hint = "set `lossy` to write them anyway, with a note; see docs/export.md"
            raise ConversionError(str(self.result.folder), problem, hint)
        if not tally.written:
            reasons = ", ".join(f"{name} {n:,}" for name, n in tally.left_out.items())
            problem = f"no record can be written for {self.trainer.name}: {reasons}"
            hint = "docs/export.md explains the reasons"
            raise ConversionError(str(self.result.folder), problem, hint)

    def _files(
        self, staged: StagedResult, mode: TrainingMode | None, tally: Tally
    ) -> tuple[str, ...]:
        """The Parquet files for the config, seen from the export: the records' or new ones."""
        parts = record_files(self.records)
        if self._as_they_are(mode, tally, parts):
            return tuple(f"{self._shared()}/{part.name}" for part in parts)
        data = staged.result / DATA
        with output_errors(staged.out):
            data.mkdir(exist_ok=True)
        rows: Iterator[Record] = ({"text": one["text"]} for one in self._read("write"))
        if mode:
            rows = trainer_rows(self.trainer, mode, self._read("write"))
        schema = mode.schema if mode else TEXT_ROWS
        options = self.options
        names = write_parts(data, options.split, rows, schema, part_bytes=options.part_bytes)
        return tuple(f"{DATA}/{name}" for name in names)

    def _as_they_are(self, mode: TrainingMode | None, tally: Tally, parts: list[Path]) -> bool:
        changed = tally.left_out or tally.changed
        readable = mode is None or (self.trainer.reads_records and not changed)
        parquet = all(part.suffix == ".parquet" for part in parts)
        return readable and parquet and is_plain_path(self._shared())

    def _written(self, mode: TrainingMode | None, files: tuple[str, ...]) -> WrittenFiles:
        split = self.options.split
        full = self.name if split == "train" else f"{self.name}_{split}"
        return WrittenFiles(name=full, kind=self.kind, way=mode, files=files, split=split)

    def _manifest(
        self, mode: TrainingMode | None, tally: Tally, files: tuple[str, ...]
    ) -> ExportManifest:
        return {
            "trainer": self.identity.settled["trainer"],
            "way": {"name": mode.name, "settings": mode.settings} if mode else None,
            "records": tally.to_json(),
            "trained_chars": {"records": tally.chars_of_records, "trainer": tally.chars_of_trainer},
            "notes": [f"{n:,} records: {REASONS[name]}" for name, n in tally.lost.items()],
            "data": list(files),
        }

    def describe(
        self, staged: StagedResult, manifest: ExportManifest, *, already_done: bool = False
    ) -> ExportResult:
        mode_name = manifest["way"]["name"] if manifest["way"] else None
        mode = next((one for one in self.trainer.ways if one.name == mode_name), None)
        written = self._written(mode, tuple(manifest["data"]))
        use = self.trainer.use(written, str(self.out))
        notes = staged.notes
        if written.split != "train":
            count = manifest["records"]["written"]
            note = f"all {count:,} records are written as {written.split}"
            notes = (*notes, f"{note}: `split` only names the split, it selects no records")
        if already_done:
            notes = (*notes, ALREADY_DONE)
        return ExportResult(
            out=staged.out, manifest=manifest, use=use, already_done=already_done, notes=notes
        )
