"""The folder of a pinned sample: found and checked, or written whole or not at all.

No folder that is not a pinned sample is ever replaced.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from uuid import uuid4

from ingot.agent.review.pinning.sample_redaction import SafeBytes, SampleRedactor
from ingot.converters.errors import OutputError, SourceError, translate_read_errors
from ingot.converters.json_yaml import decode, encode, load_json, violations
from ingot.converters.mapping import language
from ingot.converters.output.commit import replace_folder
from ingot.converters.output.files import encode_json, output_errors, sync_path, sync_tree
from ingot.converters.sources import SourceFile, SourceSpec

ABOUT, DATA = "sample.json", "data"
_ENDING = ".sample"
_MOST_BYTES = 64 << 20  # of a folder that claims to be a pinned sample


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedFile:
    """A file of the source: its name, its size, and how many of its rows are pinned.

    Samples of earlier versions also hold rows of files that the source leaves out: not `main`.
    """

    name: str
    bytes: int
    rows: int
    main: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleFacts:
    """What `sample.json` holds (schemas/sample.schema.json).

    `bad` rows, which cannot be read, are in samples of earlier versions only.
    """

    version: int = 1
    source_name: str = ""
    direct: bool
    lines: bool = False
    share: str = "redacted"
    seed: int = 0
    rows: int
    bad: int = 0
    complete: bool = False
    total_rows: int | None = None
    files: tuple[PinnedFile, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    stored: tuple[str, ...]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedSample:
    """A pinned sample: the location to open (its `data`, or the one file in it).

    `rows` counts those that cannot be read too; `sha256` is of the names and bytes of all files.
    `lines`: its rows are JSON Lines, read without most of what the mapping's `source` states.
    """

    location: str
    source_name: str
    rows: int
    sha256: str
    lines: bool

    def fit_mapping(self, mapping: language.Mapping) -> language.Mapping:
        """Return a mapping that reads the sample, without what it says of the original's files."""
        facts = mapping.source
        rows = SourceSpec(json_fields=facts.json_fields)
        fitting = rows if self.lines else replace(facts, query=None)
        return mapping if fitting == facts else replace(mapping, source=fitting)


def pinned_folder(mapping: Path) -> Path:
    """Return where the pinned sample of a mapping lies: `foo.json` has `foo.sample`."""
    return mapping.with_name(f"{mapping.name.removesuffix('.json')}{_ENDING}")


def find_pinned(folder: Path) -> PinnedSample | None:
    """Find the pinned sample in a folder; None if there is none (no folder, no `sample.json`)."""
    with translate_read_errors(str(folder)):
        if not (folder / ABOUT).is_file():
            return None
        files = _list_files(folder)
        facts = _read_facts(folder)
        stored = [folder / name for name in facts.stored]
        if missing := [path.name for path in stored if path not in files]:
            hint = "fetch it again, or: ingot map --pin-sample"
            raise SourceError(str(folder), f"{missing[0]} is missing in it", hint)
        digest = _sha256(folder, files)
    return PinnedSample(
        location=str(stored[0] if facts.direct and stored else folder / DATA),
        source_name=facts.source_name,
        rows=facts.rows,
        sha256=digest,
        lines=facts.lines,
    )


def _read_facts(folder: Path) -> SampleFacts:
    path = str(folder / ABOUT)
    try:
        document = load_json(folder / ABOUT)
    except ValueError as error:
        raise SourceError(path, "no JSON", "ingot map --pin-sample writes it") from error
    if faults := violations("sample", document):
        pointer, problem = faults[0]
        raise SourceError(
            path, f"{pointer or '/'}: {problem[:200]}", "ingot map --pin-sample writes it"
        )
    return decode(SampleFacts, document)


def _list_files(folder: Path) -> list[Path]:
    files: list[Path] = []
    size = 0
    for root, folders, names in os.walk(folder):
        for path in [folder, *(Path(root, name) for name in (*folders, *names))]:
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                problem = f"{path.name} is a link or a device"
                raise SourceError(str(folder), problem, "a pinned sample holds files only")
        files += [Path(root, name) for name in names]
        size += sum(Path(root, name).stat().st_size for name in names)
        if size > _MOST_BYTES:
            problem = f"more than {_MOST_BYTES >> 20} MiB"
            raise SourceError(str(folder), problem, "this is not a pinned sample")
    return sorted(files)


def _sha256(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        name, data = os.fsencode(path.relative_to(folder)), path.read_bytes()
        digest.update(b"%d %s %d\n" % (len(name), name, len(data)))
        digest.update(data)
    return digest.hexdigest()


_LONGEST_ENDING = 12


def redact_names(files: Sequence[SourceFile], hiding: SampleRedactor) -> dict[str, str]:
    """Return name -> name without secrets; different names stay different, endings stay."""
    names: dict[str, str] = {}
    for file in files:
        redacted = "/".join(_redact_part(part, hiding) for part in file.name.split("/"))
        path = PurePosixPath(file.name)
        inside = not path.is_absolute() and ".." not in path.parts and path.parts
        if inside and redacted not in names.values():
            names[file.name] = redacted
    return names


def _redact_part(part: str, hiding: SampleRedactor) -> str:
    redacted = hiding.text(part)
    if redacted == part:
        return part
    ending = part[part.rfind(".") :] if "." in part else ""
    return (
        redacted + ending
        if len(ending) <= _LONGEST_ENDING and hiding.text(ending) == ending
        else redacted
    )


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Check that a sample can be written there, before the work."""
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir() or not _is_pinned_sample(folder):
        problem = "already exists and is not a pinned sample, or holds other files too"
        raise OutputError(str(folder), problem, "move it away, or choose another name")
    if not overwrite:
        problem = "is there already"
        raise OutputError(str(folder), problem, "choose another name, or: --overwrite")


def _is_pinned_sample(folder: Path) -> bool:
    """Check that a folder holds a pinned sample and nothing else."""
    try:
        stored = _read_facts(folder).stored
        files = _list_files(folder)
    except (SourceError, OSError):
        return False
    return {folder / ABOUT, *(folder / name for name in stored)}.issuperset(files)


@contextmanager
def stage_sample(folder: Path) -> Iterator[Path]:
    """Open a hidden folder beside the destination, removed afterwards. Raises OutputError."""
    stage = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.tmp")
    with output_errors(folder):
        stage.mkdir(parents=True)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def write_files(stage: Path, name: str, files: Mapping[str, SafeBytes]) -> Path:
    """Write files below `stage/name`, in place of older ones, and return that folder."""
    top = stage / name
    with output_errors(top):
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        for path, data in files.items():
            file = top / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return top


def commit_sample(stage: Path, facts: SampleFacts, folder: Path) -> None:
    """Rename a finished stage to its destination; an old sample there is replaced."""
    with output_errors(folder):
        (stage / ABOUT).write_bytes(encode_json(encode(facts), sort_keys=False))
        sync_tree(stage)
        if folder.exists():
            old_path = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.old")
            old = replace_folder(stage, folder, old_path=old_path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            stage.rename(folder)
            sync_path(folder.parent)
