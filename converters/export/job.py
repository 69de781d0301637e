"""The job: a finished result to a folder that a trainer's config points into.

    OUT/data/SPLIT-00000.parquet    rows in the layout of the trainer, where it cannot read the
                                    records as they are
    OUT/...                         its config files (see the trainer's module)
    OUT/run.json, OUT/manifest.json how it went, and what there is

The records are held to the manifest of their result, then read twice: once to count what does not
fit, once to write. The folder of the result is only read. What is in the export's manifest stands
in docs/export.md.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ingot import __version__
from ingot.converters.commit import MANIFEST, Finished, Staged, stage, writing
from ingot.converters.errors import ConversionError
from ingot.converters.export.chats import REASONS
from ingot.converters.export.layout import TEXT_ROWS, Trainer, Way, Written
from ingot.converters.export.parts import PART_BYTES, write_parts
from ingot.converters.export.places import check_place, is_plain, safe_name
from ingot.converters.export.results import check_records, known_records, result_of
from ingot.converters.export.survey import Tally, rows, survey
from ingot.converters.export.trainers import TRAINERS
from ingot.converters.job import Progress, Watch
from ingot.converters.manifest import host_facts, list_files
from ingot.converters.record_kinds import Record, RecordKind
from ingot.converters.records import record_files
from ingot.converters.rows import Json
from ingot.converters.shard import RECORDS

FORMAT: Final = 1
DATA: Final = "data"
WATCH_RECORDS: Final = 1_000  # between two reports of progress


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What a user may set about an export.

    Attributes:
        name: of the data set in the config; None = the name of the result's folder, made safe.
        split: what the data is for; the name of the files and of the config's list.
        lossy: also write what the trainer does not train on as the records say.
        overwrite: replace another export at the destination.
        part_bytes: a file ends with the row group that finds it at this size.
    """

    name: str | None = None
    split: str = "train"
    lossy: bool = False
    overwrite: bool = False
    part_bytes: int = PART_BYTES


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A finished export: its folder, its manifest, and how to start the trainer with it.

    `already_done`: the folder held this very export before, nothing was done.
    """

    out: Path
    manifest: dict[str, Json]
    use: tuple[str, ...]
    already_done: bool = False
    notes: tuple[str, ...] = ()


def export(
    folder: Path,
    trainer: str,
    out: Path,
    options: ExportOptions | None = None,
    progress: Watch | None = None,
) -> Exported:
    """Write what a trainer needs to read the records of a finished result.

    Args:
        folder: of a finished result of `ingot run` or `ingot convert`; it is only read.
        trainer: a key of `TRAINERS`.
        out: the destination, see `commit.stage`.
        options: see `ExportOptions`.
        progress: called now and then with how far the stage is: check, count, write. Its shards are
            files of records.

    Raises:
        ConversionError: the folder holds no finished result or no records, they are not those of
            its manifest, or the trainer cannot train on what they say (the message counts the
            records by reason).
        OutputError: the destination is taken or cannot be written.
    """
    options = options or ExportOptions()
    result = result_of(folder)
    check_place(result.folder, out)
    watch = progress or (lambda _: None)
    job = _Job(result=result, trainer=TRAINERS[trainer], out=out, options=options, watch=watch)
    job.check()
    with stage(out, key=job.key(), difference=job.difference, overwrite=options.overwrite) as held:
        if held.done:
            return job.told(held, held.done.manifest, already_done=True)
        return job.run(held)


def _progress(stage: str, done: int, files: list[Path], records: int) -> Progress:
    return Progress(stage=stage, shards_done=done, shards=len(files), rows=records, records=records)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One export."""

    result: Finished
    trainer: Trainer
    out: Path
    options: ExportOptions
    watch: Watch

    @property
    def kind(self) -> RecordKind:
        kind: RecordKind = self.result.manifest["decision"]
        return kind

    @property
    def name(self) -> str:
        return self.options.name or safe_name(self.result.folder.resolve().name)

    @property
    def records(self) -> Path:
        return self.result.folder / RECORDS

    def identity(self) -> dict[str, Json]:
        """What decides the bytes, as the manifest holds it."""
        content = (self.result.folder / MANIFEST).read_bytes()
        return {
            "versions": {"ingot": __version__, "export": FORMAT},
            "trainer": {"name": self.trainer.name, "version": self.trainer.version},
            "result": {
                "decision": self.kind,
                "manifest_sha256": hashlib.sha256(content).hexdigest(),
            },
            "options": {
                "name": self.name,
                "split": self.options.split,
                "lossy": self.options.lossy,
                "part_bytes": self.options.part_bytes,
            },
        }

    def _shared(self) -> str:
        """The folder of the records as seen from the export."""
        return Path(os.path.relpath(self.records.resolve(), self.out.resolve())).as_posix()

    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def difference(self, there: Finished) -> str | None:
        for name, ours in self.identity().items():
            theirs = there.manifest.get(name)
            if theirs != ours:
                return f"another export ({name})"
        places = {Path(file).parent.as_posix() for file in there.manifest.get("data", ())}
        return None if places <= {DATA, self._shared()} else "the records of another folder"

    def run(self, staged: Staged) -> Exported:
        if self.kind == "sft":
            way, tally = survey(self.trainer, self._read("count"))
        else:
            way, tally = None, self._texts()
        self._check(tally)
        files = self._files(staged, way, tally)
        written = self._written(way, files)
        with writing(staged.out):
            for name, content in self.trainer.configs(written).items():
                (staged.result / name).write_bytes(content)
        manifest = self._manifest(way, tally, files, staged)
        run: dict[str, Json] = {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
            "notes": list(staged.notes),
        }
        staged.commit(manifest, run)
        return self.told(staged, manifest)

    def check(self) -> None:
        """Hold the records to their manifest; also where there is nothing else to do."""
        files = record_files(self.records)
        for done, file in enumerate(files):
            self.watch(_progress("check", done, files, 0))
            check_records(self.result, file)

    def _read(self, stage: str) -> Iterator[Record]:
        files, read = record_files(self.records), itertools.count()
        for done, file in enumerate(files):
            for record in known_records(file):
                if (before := next(read)) % WATCH_RECORDS == 0:
                    self.watch(_progress(stage, done, files, before))
                yield record

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
            lines = "".join(f"\n  {name} {n:,}: {REASONS[name].text}" for name, n in lost.items())
            problem = f"{self.trainer.name} cannot train on all of it as the records say{lines}\n "
            hint = "--lossy writes it all the same, with a note; docs/export.md"
            raise ConversionError(str(self.result.folder), problem, hint)
        if not tally.written:
            reasons = ", ".join(f"{name} {n:,}" for name, n in tally.left_out.items())
            problem = f"no record can be written for {self.trainer.name}: {reasons}"
            raise ConversionError(str(self.result.folder), problem, "docs/export.md says why")

    def _files(self, staged: Staged, way: Way | None, tally: Tally) -> tuple[str, ...]:
        """The Parquet files for the config, seen from the export: the records' or new ones."""
        parts = record_files(self.records)
        if self._as_they_are(way, tally, parts):
            return tuple(f"{self._shared()}/{part.name}" for part in parts)
        data = staged.result / DATA
        with writing(staged.out):
            data.mkdir(exist_ok=True)
        made = self._rows(way)
        schema = way.schema if way else TEXT_ROWS
        options = self.options
        names = write_parts(data, options.split, made, schema, part_bytes=options.part_bytes)
        return tuple(f"{DATA}/{name}" for name in names)

    def _as_they_are(self, way: Way | None, tally: Tally, parts: list[Path]) -> bool:
        readable = way is None or (self.trainer.reads_records and tally.is_unchanged)
        parquet = all(part.suffix == ".parquet" for part in parts)
        return readable and parquet and is_plain(self._shared())

    def _rows(self, way: Way | None) -> Iterator[Record]:
        if way is None:
            return ({"text": record["text"]} for record in self._read("write"))
        return rows(self.trainer, way, self._read("write"))

    def _written(self, way: Way | None, files: tuple[str, ...]) -> Written:
        split = self.options.split
        full = self.name if split == "train" else f"{self.name}_{split}"
        return Written(name=full, kind=self.kind, way=way, files=files, split=split)

    def _manifest(
        self, way: Way | None, tally: Tally, files: tuple[str, ...], staged: Staged
    ) -> dict[str, Json]:
        with writing(staged.out):
            listed = list_files(staged.result)
        return {
            **self.identity(),
            "way": {"name": way.name, "settings": way.settings} if way else None,
            "records": tally.to_json(),
            "trained_chars": {
                "records": tally.chars_of_records,
                "trainer": tally.chars_of_trainer,
            },
            "notes": [f"{n:,} records: {REASONS[name].text}" for name, n in tally.lost.items()],
            "data": list(files),
            "files": listed,
        }

    def told(
        self, staged: Staged, manifest: dict[str, Json], *, already_done: bool = False
    ) -> Exported:
        named = manifest["way"]["name"] if manifest["way"] else None
        way = next((one for one in self.trainer.ways if one.name == named), None)
        written = self._written(way, tuple(manifest["data"]))
        use = self.trainer.use(written, str(self.out))
        notes = staged.notes
        if written.split != "train":
            count = manifest["records"]["written"]
            told = f"all {count:,} records are written as {written.split}"
            notes = (*notes, f"{told}: --split-name gives a name, it selects nothing")
        if already_done:
            notes = (*notes, "this export was there already: nothing to do")
        return Exported(
            out=staged.out, manifest=manifest, use=use, already_done=already_done, notes=notes
        )
