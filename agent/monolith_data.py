"""Streams of Monolith's messages: `ingot monolith` reads these, and the answer names it."""

from ingot.agent.mappers.proposal import Proposal
from ingot.agent.raw_data import head, irrelevant, shown
from ingot.agent.redaction import redact
from ingot.converters.errors import SourceError
from ingot.converters.monolith.recognizing import HEAD, WHY, Stream, stream_of
from ingot.converters.readers import Source
from ingot.converters.readers.compression import compression_of, first_bytes
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Entry, Place

_NAMES = {"example": "Examples", "examplebatch": "ExampleBatches", "instance": "Instances"}
_OF_STREAMS = "sizes and messages of {} one behind the other, read with the framing {}"


def raw_monolith(source: Source) -> Proposal | None:
    """Streams of Monolith hold nothing to convert; None for others.

    What was left out as one is looked at, where nothing else is there or it is the largest file.
    """
    streams = {one.name for one in source.left_out if one.why == WHY}
    if not streams:
        return None
    largest = max(source.listing.entries, key=lambda one: one.bytes)
    found = largest if largest.name in streams else _first(source, streams)
    if source.files and found is not largest:
        return None
    return _packed(min(streams)) if found is None else _told(source, found)


def _first(source: Source, streams: set[str]) -> Entry | None:
    """The first of them that is no file of an archive."""
    return next((one for one in source.listing.entries if one.name in streams), None)


def _packed(name: str) -> Proposal:
    where = f"{redact(name)} lies in an archive: unpack it, and see ingot monolith convert --help"
    return irrelevant(f"These are messages for Monolith and no text. {where}", WHY)


def _told(source: Source, found: Entry) -> Proposal | None:
    try:
        stream = stream_of(head(found.place, HEAD))
    except SourceError:  # what is damaged is told where it is read
        stream = None
    if stream is None:
        return None
    where = shown(found.name) if source.listing.direct else "FOLDER"
    packed = _foreign(found.place)
    what = f"Undo {packed} first, and see ingot monolith convert --help" if packed else ""
    reason = f"These are {_NAMES[stream.kind]} for Monolith and no text. "
    reason += what or _command(stream, where)
    return irrelevant(reason, _OF_STREAMS.format(_NAMES[stream.kind], stream.framing))


def _foreign(place: Place) -> str:
    """A compression that Monolith has no name for; empty where there is none."""
    with place.open() as raw, reading(str(place)):
        codec = compression_of(first_bytes(raw))
    return codec if codec in ("bz2", "xz") else ""


def _command(stream: Stream, where: str) -> str:
    """What converts it; the target is one that it is not yet."""
    framing = "" if stream.framing == "sort_id" else f" --framing {stream.framing}"
    packed = "" if stream.compression == "none" else f" --compression {stream.compression}"
    target = "example" if stream.kind != "example" else "examplebatch"
    command = f"ingot monolith convert {where} OUT --from {stream.kind} --to {target}"
    return f"Convert them with: {command}{framing}{packed} (look first: ingot monolith cat {where})"
