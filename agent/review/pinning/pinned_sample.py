"""A pinned sample that is there: found, looked over, described."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import violations
from ingot.converters.rows import Json
from ingot.converters.sources.storage.read_errors import translate_read_errors

ABOUT, DATA = "sample.json", "data"
_ENDING = ".sample"
_MOST_BYTES = 64 << 20  # of a folder that claims to be a pinned sample


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedSample:
    """A pinned sample.

    Attributes:
        folder: `NAME.sample`.
        location: what to open as the source: its `data`, or the one file in it where the source was
            one file.
        source_name: default of `meta.source`.
        rows: pinned rows, those that cannot be read included.
        sha256: of the names and bytes of all its files.
        about: `sample.json`.
    """

    folder: Path
    location: str
    source_name: str
    rows: int
    sha256: str
    about: dict[str, Json]


def pinned_folder(mapping: Path) -> Path:
    """Where the pinned sample of a mapping lies: `foo.json` has `foo.sample`."""
    stem = mapping.stem if mapping.suffix == ".json" else mapping.name
    return mapping.with_name(f"{stem}{_ENDING}")


def find_pinned(folder: Path) -> PinnedSample | None:
    """The pinned sample in a folder, None where there is none (no folder, or no `sample.json`)."""
    with translate_read_errors(str(folder)):
        if not (folder / ABOUT).is_file():
            return None
        files = list_files(folder)
        about = read_about(folder)
        stored = [folder / name for name in about["stored"]]
        if missing := [path.name for path in stored if path not in files]:
            hint = "fetch it again, or: ingot map --pin-sample"
            raise SourceError(str(folder), f"{missing[0]} is missing in it", hint)
        digest = _sha256(folder, files)
    return PinnedSample(
        folder=folder,
        location=str(stored[0] if about["direct"] and stored else folder / DATA),
        source_name=about["source_name"],
        rows=about["rows"],
        sha256=digest,
        about=about,
    )


def read_about(folder: Path) -> dict[str, Json]:
    """The `sample.json` of a folder. Raises SourceError for what is none."""
    where = str(folder / ABOUT)
    try:
        about = json.loads((folder / ABOUT).read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(where, "no JSON", "ingot map --pin-sample writes it") from error
    if found := violations("sample", about):
        pointer, said = found[0]
        raise SourceError(
            where, f"{pointer or '/'}: {said[:200]}", "ingot map --pin-sample writes it"
        )
    document: dict[str, Json] = about
    return document


def list_files(folder: Path) -> list[Path]:
    """Every file below a folder, by name."""
    found: list[Path] = []
    size = 0
    for root, folders, names in os.walk(folder):
        for path in [folder, *(Path(root, name) for name in (*folders, *names))]:
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                problem = f"{path.name} is a link or a device"
                raise SourceError(str(folder), problem, "a pinned sample holds files only")
        found += [Path(root, name) for name in names]
        size += sum(Path(root, name).stat().st_size for name in names)
        if size > _MOST_BYTES:
            problem = f"more than {_MOST_BYTES >> 20} MiB"
            raise SourceError(str(folder), problem, "this is no pinned sample")
    return sorted(found)


def _sha256(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        name, data = os.fsencode(path.relative_to(folder)), path.read_bytes()
        digest.update(b"%d %s %d\n" % (len(name), name, len(data)))
        digest.update(data)
    return digest.hexdigest()
