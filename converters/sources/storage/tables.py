"""Tables that are folders with a log: which files of a listing are theirs.

Below such a folder lie the files of its current version beside those of former ones, and rows that
were deleted: only the log says which are which. Reading the files would bring deleted rows back.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ingot.converters.sources.storage.listing import Entry, Listing, LocalFile, enclosing_folders

# The folder of its log, and the names of the files there.
_LOGS: Final = {
    "Delta table": ("_delta_log", re.compile(r"\d{20}\.(json|checkpoint\..+)")),
    "Iceberg table": (
        "metadata",
        re.compile(
            r"(v\d{1,9}|\d{1,9}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})(\.gz)?\.metadata\.json"
        ),
    ),
    "Hudi table": (".hoodie", re.compile(r"hoodie\.properties")),
    "Lance table": ("_versions", re.compile(r"\d{1,20}\.manifest")),
}


def table_folders(entries: Iterable[Entry]) -> dict[str, str]:
    """The folders of a listing that are tables, "" for the listed one, each with its kind."""
    tables: dict[str, str] = {}
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        outer, _, last = folder.rpartition("/")
        for kind, (log, files) in _LOGS.items():
            if last == log and files.fullmatch(base):
                tables[outer] = kind
    return tables


def find_tables(listing: Listing) -> dict[str, str]:
    """As `table_folders`; "" is there also where a part of a local table is listed.

    That is one partition, or a glob of its files. A single file that is named is read as it is.
    """
    if listing.direct or not listing.entries:
        return {}
    tables, first = table_folders(listing.entries), listing.entries[0]
    if isinstance(first.place, LocalFile):
        top = Path(first.place.path.removesuffix(first.name)).absolute()
        if kind := next(filter(None, map(_kind_of_folder, (top, *top.parents))), None):
            tables[""] = kind
    return tables


def _kind_of_folder(folder: Path) -> str | None:
    """What table a local folder is."""
    for kind, (log, files) in _LOGS.items():
        with suppress(OSError):
            if any(files.fullmatch(file.name) for file in (folder / log).iterdir()):
                return kind
    return None


def table_reason(name: str, tables: Mapping[str, str]) -> str | None:
    """Why a file is not read on its own: it belongs to a table; None where it does not."""
    for folder in ("", *enclosing_folders(name)) if tables else ():
        if folder in tables:
            return f"part of a {tables[folder]}, which is not read"
    return None
