"""Folders of MDS shards: which files `index.json` names, and what hashes they should have."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.containers.mds import HASH_MARK, new_hash
from ingot.converters.sources.formats.row_chunks import JsonTextError, parse_json
from ingot.converters.sources.storage.listing import Entry, Listing

_INDEX: Final = "index.json"
_MOST_INDEX: Final = 256 << 20
_FORMS: Final = ("raw_data", "zip_data")
_CODECS: Final = ("zstd", "gz", "bz2")  # by which a compressed shard is known from its content


def read_mds_indexes(listing: Listing) -> Listing:
    """The listing with the shards that the indexes of its folders name; others are `unreadable`.

    Raises SourceError where the listed folder itself lacks one; a folder below it is `closed`.
    """
    if listing.direct:
        return listing
    by_name = {entry.name: entry for entry in listing.entries}
    for entry in listing.entries:
        folder, _, base = entry.name.rpartition("/")
        shards = _read_index(entry) if base == _INDEX else None
        if shards is None:
            continue
        try:
            found, others = _named_files(folder, shards, by_name)
        except ValueError as error:
            if not folder:
                raise SourceError(str(entry.place), str(error), "copy the folder again") from error
            why = f"part of an MDS data set, which is not read: {error}"
            listing = replace(listing, closed={**listing.closed, folder: why})
            continue
        by_name |= found
        for name in others:
            by_name.pop(name, None)
        listing = replace(listing, unreadable=(*listing.unreadable, *others.items()))
    entries = tuple(by_name[one.name] for one in listing.entries if one.name in by_name)
    return replace(listing, entries=entries)


def _read_index(entry: Entry) -> list[dict[str, Json]] | None:
    """The shards of an index of MDS; None of any other file."""
    if entry.bytes > _MOST_INDEX:
        return None
    with entry.place.open() as raw, translate_read_errors(str(entry.place)):
        data = raw.read()
    try:
        index = parse_json(data)
    except JsonTextError:
        return None
    shards = index.get("shards") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not shards:
        return None
    found = [one for one in shards if isinstance(one, dict) and one.get("format") == "mds"]
    return found if len(found) == len(shards) else None


def _named_files(
    folder: str, shards: list[dict[str, Json]], by_name: Mapping[str, Entry]
) -> tuple[dict[str, Entry], dict[str, str]]:
    """The shards to read, and why other files are left out. Raises ValueError."""
    inner = f"{folder}/" if folder else ""
    found: dict[str, Entry] = {}
    others = {inner + _INDEX: "auxiliary file (index of MDS shards)"}
    for shard in shards:
        told = {key: one if isinstance(one := shard.get(key), dict) else {} for key in _FORMS}
        names = {key: f"{inner}{one.get('basename')}" for key, one in told.items()}
        present = [(key, by_name[name]) for key, name in names.items() if name in by_name]
        if not present:
            problem = f"shard {told['raw_data'].get('basename')!r} is gone"
            raise ValueError(problem[:200])
        (key, entry), *copies = present
        codec = str(shard.get("compression")).partition(":")[0]
        if key == "zip_data" and codec not in _CODECS:
            raise ValueError(f"shards compressed by {codec[:40]}")
        size = told[key].get("bytes")
        if size not in (None, entry.bytes):
            problem = f"shard {entry.name} has {entry.bytes:,} bytes and not {size}"
            raise ValueError(problem[:200])
        mark = _content_mark(told["raw_data"].get("hashes"))
        found[entry.name] = replace(entry, etag=mark or entry.etag)
        others |= {copy.name: f"a copy of {entry.name}" for _, copy in copies}
    for name in by_name:
        if name.rpartition("/")[0] == folder and ".mds" in name and name not in found:
            others.setdefault(name, "an MDS shard that index.json does not name")
    return found, others


def _content_mark(hashes: Json) -> str | None:
    """The mark of a shard's content: a hash that can be checked, None where there is none."""
    for algorithm, digest in hashes.items() if isinstance(hashes, dict) else ():
        if isinstance(digest, str) and new_hash(algorithm) is not None:
            return f"{HASH_MARK}:{algorithm}:{digest}"
    return None
