"""Where pinned files are stored: their names, and the archives that they were members of."""

from collections.abc import Iterator, Mapping, Sequence

from ingot.agent.pinning.hiding import Hiding
from ingot.agent.pinning.packing import compressed, tarred, within, zipped
from ingot.agent.pinning.task import Content
from ingot.converters.readers import Source, SourceFile
from ingot.converters.readers.archives import TarMember, ZipMember
from ingot.converters.readers.compression import compression_of, first_bytes
from ingot.converters.readers.storage import Entry, Place

_LONGEST_ENDING = 12


def hidden_names(files: Sequence[SourceFile], hiding: Hiding) -> dict[str, str]:
    """Name -> name without secrets, different where the names were; endings stay."""
    names: dict[str, str] = {}
    for file in files:
        shown = "/".join(_hidden(part, hiding) for part in file.name.split("/"))
        if within(file.name) and shown not in names.values():
            names[file.name] = shown
    return names


def _hidden(part: str, hiding: Hiding) -> str:
    shown = hiding.text(part)
    if shown == part:
        return part
    ending = part[part.rfind(".") :] if "." in part else ""
    return (
        shown + ending
        if len(ending) <= _LONGEST_ENDING and hiding.text(ending) == ending
        else shown
    )


def stored(
    source: Source, files: Mapping[str, SourceFile], contents: Mapping[str, Content], hiding: Hiding
) -> Iterator[tuple[str, bytes]]:
    """The files of a sample's `data`: name and bytes, by name.

    Args:
        source: the original.
        files: the original files by their pinned names.
        contents: what is pinned of them, by the same names.
        hiding: redacts the names of archives.

    Raises:
        SourceError: an archive cannot be read again.
    """
    members: dict[Place, dict[str, bytes]] = {}
    found: dict[str, bytes] = {}
    for name, file in files.items():
        data = compressed(contents[name].data, file.facts.compression)
        if isinstance(file.place, ZipMember | TarMember):
            members.setdefault(file.place.archive, {})[name] = data
        else:
            found[name] = data
    for entry in source.listing.entries:
        if entry.place in members:
            name = "/".join(_hidden(part, hiding) for part in entry.name.split("/"))
            inner = members[entry.place]
            if not source.listing.direct:
                inner = {one.removeprefix(f"{name}/"): data for one, data in inner.items()}
            found[name] = _archive(entry, inner)
    yield from sorted(found.items())


def _archive(entry: Entry, members: Mapping[str, bytes]) -> bytes:
    with entry.place.open() as raw:
        head = first_bytes(raw)
    if head.startswith(b"PK"):
        return zipped(members)
    return tarred(members, compression_of(head))
