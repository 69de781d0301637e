"""The repeats of a lake, not looked for again where no hash has changed.

A file beside the bitmaps keeps what the last search found and by which files: names, sizes and
times of change of the hashes, and of the bitmaps that it wrote. If one of them is another one the
search is made.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ingot import __version__
from ingot.converters.commit import encode, write_file, writing
from ingot.converters.json_files import load_json
from ingot.converters.lake.duplicates import Duplicates, Repeats, find
from ingot.converters.rows import Json

_FORMAT: Final = 1


def find_or_recall(
    files: Mapping[str, Path], memory: Path, drops: Path | None = None
) -> Duplicates:
    """As `duplicates.find`; what was found is kept in the file `memory`.

    Raises:
        ConversionError: a file holds no hashes.
        OutputError: something cannot be written.
    """
    asked = {"format": _FORMAT, "version": __version__, "files": _stamps(files)}
    known = _recalled(memory, json.loads(json.dumps(asked)), drops)
    if known is not None:
        return known
    found = find(files, drops, work=memory.with_name(f".{memory.name}.bins"))
    sets = [[name, asdict(one)] for name, one in found.sets.items()]
    written = {"asked": asked, "drops": _stamps(found.drops), "sets": sets}
    with writing(memory):
        write_file(memory, encode(written, sort_keys=False))
    return found


def _stamps(files: Mapping[str, Path]) -> list[list[Json]]:
    """Name, place, size and time of change of every file, by name; of one that is gone nothing."""
    return [[name, str(files[name].absolute()), *_stamp(files[name])] for name in sorted(files)]


def _stamp(file: Path) -> list[int]:
    try:
        facts = file.stat()
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns, facts.st_ino]


def _recalled(memory: Path, asked: Json, drops: Path | None) -> Duplicates | None:
    try:
        known = load_json(memory)
        sets = {name: Repeats(**facts) for name, facts in known["sets"]}
        written = {name: drops / f"{name}.npy" for name in sets} if drops else {}
        same = known["asked"] == asked and (not drops or known["drops"] == _stamps(written))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Duplicates(sets=sets, drops=written) if same else None
