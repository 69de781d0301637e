"""Data sets of clicks: `ingot ctr` builds these, and the answer names its command."""

import shlex
from collections.abc import Sequence
from itertools import islice, takewhile
from pathlib import PurePosixPath

from ingot.agent.mappers.proposal import Proposal
from ingot.agent.raw_data import head, irrelevant, is_inside, shown, unpack
from ingot.agent.redaction import redact
from ingot.converters.ctr.recognizing import COMMON, HEAD, SKELETON, raw_kind
from ingot.converters.errors import SourceError
from ingot.converters.readers import Source
from ingot.converters.readers.storage import Entry
from ingot.converters.rows import Json

_LEAST_ROWS = 20
_MOST_FILES = 64  # looked at beside the first
_WHY = "lines of Ali-CCP: 0 or 1 twice, tokens of field, id and value between \\x01, \\x02, \\x03"


def raw_aliccp(source: Source) -> Proposal | None:
    """Raw files of Ali-CCP hold nothing to convert; None for every other source.

    Raises:
        SourceError: the first file cannot be read.
    """
    first = next((one for one in source.files if one.facts.format in ("csv", "text")), None)
    if first is None or raw_kind(head(first.place, HEAD)) is None:
        return None
    packed = is_inside(first, source)
    what = unpack(first, "ingot ctr build") if packed else _command(_found(source))
    return irrelevant(f"This is raw Ali-CCP data, clicks and no text. {what}", _WHY)


def hint_at_log(source: Source, rows: Sequence[Json]) -> str:
    """What builds a table that plainly is a log of clicks, "" where that is not plain.

    Args:
        source: where the rows come from.
        rows: sampled rows, of which nothing can be converted.
    """
    from ingot.converters.ctr.drafting.roles import names_click, names_user

    tables = [row for row in rows if isinstance(row, dict)]
    if len(tables) < _LEAST_ROWS or source.files[0].facts.format not in ("csv", "parquet", "arrow"):
        return ""
    clicks = [name for name in tables[0] if names_click(name)]
    users = any(names_user(name) for name in tables[0])
    if not users or not any(_is_label([row.get(name) for row in tables]) for name in clicks):
        return ""
    what = shlex.quote(redact(source.files[0].name)) if len(source.files) == 1 else "FOLDER"
    return f" A log of clicks it seems to be: ingot ctr draft {what} -o featuremap.yaml"


def _is_label(cells: Sequence[Json]) -> bool:
    return {str(cell).lower() for cell in cells} == {"0", "1"} or set(cells) == {False, True}


def _found(source: Source) -> dict[str, list[str]]:
    """The names of the raw files by kind, the biggest first."""
    found: dict[str, list[str]] = {SKELETON: [], COMMON: []}
    entries: Sequence[Entry] = sorted(source.listing.entries, key=lambda one: -(one.bytes or 0))
    for entry in islice(entries, _MOST_FILES):
        try:
            kind = raw_kind(head(entry.place, HEAD))
        except SourceError:  # a damaged neighbour is not what this is about
            continue
        if kind is not None:
            found[kind].append(entry.name)
    return found


def _command(found: dict[str, list[str]]) -> str:
    """What builds the first pair of files, and which others there are."""
    pairs = [(name, _nearest(name, found[COMMON])) for name in found[SKELETON]]
    pairs = sorted(pairs, key=lambda pair: "train" not in pair[0])
    skeleton, common = pairs[0] if pairs else (None, next(iter(found[COMMON]), None))
    others = [f"{shown(name)} with {shown(near)}" for name, near in pairs[1:3]]
    more = f" (and then {', '.join(others)}, with its --vocab)" if others else ""
    files = f"--skeleton {shown(skeleton)} --common {shown(common)}"
    return f"Build it with: ingot ctr build {files} --featuremap aliccp --out DIR{more}"


def _nearest(skeleton: str, commons: Sequence[str]) -> str | None:
    """The common features of a skeleton: the file whose name ends most like it."""

    def alike(name: str) -> tuple[bool, int]:
        beside = PurePosixPath(name).parent == PurePosixPath(skeleton).parent
        ends = zip(reversed(name), reversed(skeleton), strict=False)
        return beside, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))

    return max(commons, key=alike, default=None)
