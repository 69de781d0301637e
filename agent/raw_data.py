"""Raw data sets of other kinds than text: what their recognisers share.

What is said here goes into manifests and reports, so it holds names inside the source, no paths.
"""

import shlex

from ingot.agent.mappers.proposal import Evidence, Proposal
from ingot.agent.redaction import redact
from ingot.converters.readers import Source, SourceFile
from ingot.converters.readers.archives import kept_open
from ingot.converters.readers.compression import decompressed
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Place


def head(place: Place, size: int) -> bytes:
    """The first bytes of a file, decompressed.

    Raises:
        SourceError: it cannot be read.
    """
    with kept_open(), place.open() as raw, reading(str(place)):
        return decompressed(raw, str(place)).read(size)


def is_inside(file: SourceFile, source: Source) -> bool:
    """Whether a file is one of an archive."""
    return all(file.place != entry.place for entry in source.listing.entries)


def unpack(file: SourceFile, command: str) -> str:
    """What is to be done with a file that lies in an archive."""
    return f"{redact(file.name)} lies in an archive: unpack it, and see {command} --help"


def shown(name: str | None) -> str:
    """A name as it can be given on the command line."""
    return "FILE" if name is None else shlex.quote(redact(name))


def irrelevant(reason: str, why: str) -> Proposal:
    """The proposal that nothing is converted.

    Args:
        reason: what the data is, and the command for it.
        why: by what it was told.
    """
    evidence = Evidence(target="decision", choice="irrelevant", why=why)
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=1.0,
        reason=reason,
        evidence=(evidence,),
    )
