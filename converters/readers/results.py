"""Folders that ingot itself wrote below a source: they are results and never data of that source.

A result is told by its `manifest.json`, a lake by its state, a proposal and a pinned sample by name
and files, an unfinished run by its name. A location that is such a folder itself is read like any
other: its records are data.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import orjson

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Entry, Listing

WHY = "a result of ingot"
_MANIFEST = "manifest.json"
_MOST_BYTES = 256 << 20  # of a manifest, which names every file of the source
_PROPOSAL = ".proposal"
_OF_PROPOSAL = frozenset({"mapping.json", "report.md"})
_SAMPLE = re.compile(r"(.*\.sample)/(sample\.json|data/.*)", re.DOTALL)
_LAKE = re.compile(r"(.+)/\.ingot-lake/state\.sqlite", re.DOTALL)
_UNFINISHED = re.compile(r"\..+\.ingot-.+")


def without_results(listing: Listing) -> Listing:
    """The listing without the folders that hold results; their names are in its `results`.

    Only the manifests that the listing shows are opened.

    Raises:
        StorageError: a remote manifest cannot be reached.
    """
    if listing.direct:
        return listing
    entries = listing.entries
    found = {*_unfinished(entries), *_proposals(entries), *_samples(entries)}
    found.update(_lakes(entries))
    found.update(_finished(entries))
    if not found:
        return listing
    outer = {folder for folder in found if found.isdisjoint(list(_parents(folder))[:-1])}
    kept = tuple(entry for entry in entries if outer.isdisjoint(_folders(entry)))
    return replace(listing, entries=kept, results=tuple(sorted(outer)))


def _parents(name: str) -> Iterator[str]:
    """`a`, `a/b`, `a/b/c` of `a/b/c`."""
    cut = name.find("/")
    while cut >= 0:
        yield name[:cut]
        cut = name.find("/", cut + 1)
    yield name


def _folders(entry: Entry) -> list[str]:
    """The folders that an entry lies in, below the location, outermost first."""
    return list(_parents(entry.name))[:-1]


def _finished(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        if folder and base == _MANIFEST and _is_of_ingot(entry):
            yield folder


def _is_of_ingot(entry: Entry) -> bool:
    """Whether a manifest is one of ingot; one that cannot be read is not, and is judged as data."""
    if entry.bytes > _MOST_BYTES:
        return False
    try:
        with reading(str(entry.place)), entry.place.open() as raw:
            manifest = orjson.loads(raw.read())
    except SourceError:
        return False
    versions = manifest.get("versions") if isinstance(manifest, dict) else None
    return isinstance(versions, dict) and isinstance(versions.get("ingot"), str)


def _proposals(entries: Sequence[Entry]) -> Iterator[str]:
    held: dict[str, set[str]] = {}
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        if folder.endswith(_PROPOSAL):
            held.setdefault(folder, set()).add(base)
    return (folder for folder, names in held.items() if names >= _OF_PROPOSAL)


def _lakes(entries: Sequence[Entry]) -> Iterator[str]:
    """Folders that hold a lake's state: with its mappings, catalog and page."""
    return (match[1] for entry in entries if (match := _LAKE.fullmatch(entry.name)))


def _samples(entries: Sequence[Entry]) -> Iterator[str]:
    """Folders `NAME.sample/` with `sample.json` and something in `data/`."""
    held: dict[str, set[bool]] = {}
    for entry in entries:
        if match := _SAMPLE.fullmatch(entry.name):
            held.setdefault(match[1], set()).add(match[2] == "sample.json")
    return (folder for folder, both in held.items() if len(both) == 2)


def _unfinished(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        for folder in _folders(entry) if ".ingot-" in entry.name else ():
            if _UNFINISHED.fullmatch(folder.rpartition("/")[2]):
                yield folder
