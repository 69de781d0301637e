"""The finished result that is exported: found, whole, and the records as its manifest has them."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ingot.converters.commit import MANIFEST, Finished, finished
from ingot.converters.errors import ConversionError
from ingot.converters.language import ROLES
from ingot.converters.record_kinds import Record
from ingot.converters.records import read_records, record_files
from ingot.converters.rows import Json
from ingot.converters.shard import RECORDS

_AGAIN: Final = "convert the data set again"


def result_of(folder: Path) -> Finished:
    """The finished result with records in a folder.

    Raises:
        ConversionError: there is none, it is damaged, or it holds no records.
    """
    result = finished(folder)
    if result is None:
        raise _not_finished(folder)
    if "decision" not in result.manifest or "trainer" in result.manifest:
        raise _no_result(folder)
    decision = result.manifest["decision"]
    if decision not in ("pt", "sft"):
        problem = f"holds no records: {decision}: {result.manifest.get('reason')}"
        raise ConversionError(str(folder), problem, "there is nothing to export")
    if not record_files(folder / RECORDS):
        raise ConversionError(str(folder), "holds no records", "there is nothing to export")
    return result


def _no_result(folder: Path) -> ConversionError:
    problem = "no finished result of `ingot run` or `ingot convert`"
    return ConversionError(str(folder), problem, "convert the data set first")


def _not_finished(folder: Path) -> ConversionError:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        damage = next(_damages(folder, manifest), None) if "decision" in manifest else None
    except ValueError:
        damage = f"{MANIFEST} is no JSON"
    except (OSError, KeyError, TypeError):
        return _no_result(folder)
    if damage is None:
        return _no_result(folder)
    return ConversionError(str(folder), f"the result is damaged: {damage}", _AGAIN)


def _damages(folder: Path, manifest: dict[str, Json]) -> Iterator[str]:
    for file in manifest["files"]:
        place, expected = folder / file["path"], file["bytes"]
        if not place.is_file():
            yield f"{file['path']} is missing"
        elif (found := place.stat().st_size) != expected:
            yield f"{file['path']} has {found:,} bytes, {expected:,} expected"


def check_records(result: Finished, file: Path) -> None:
    """Hold a file of records to the manifest of its result.

    Raises:
        ConversionError: the manifest does not name it, or it was changed.
    """
    name = file.relative_to(result.folder).as_posix()
    listed = {one["path"]: one["sha256"] for one in result.manifest["files"]}
    if name not in listed:
        raise _damaged(result, f"{name} is not in its manifest")
    try:
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise ConversionError(str(file), f"cannot be read: {error.strerror}") from error
    if found != listed[name]:
        raise _damaged(result, f"{name} was changed: its SHA-256 is not that of the manifest")


def _damaged(result: Finished, problem: str) -> ConversionError:
    return ConversionError(str(result.folder), f"the result is damaged: {problem}", _AGAIN)


def known_records(file: Path) -> Iterator[Record]:
    """The records of a file, in order.

    Raises:
        ConversionError: it holds no unified records, or a message has a role that none of them has.
    """
    for number, record in enumerate(read_records(file), start=1):
        odd = [one["role"] for one in record.get("messages", ()) if one["role"] not in ROLES]
        if odd:
            problem = f"a message has the role {json.dumps(odd[0])}"
            raise ConversionError(f"{file}: record {number:,}", problem, _AGAIN)
        yield record
