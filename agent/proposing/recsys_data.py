"""Say of raw data that a target reads itself which command converts it.

What a file is the registry of recognizers knows; a recognizer without an entry here is named only.

The reasons go into manifests and reports, so they hold names inside the source and no paths.
"""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Final, TypeVar

from ingot.agent.privacy import redact
from ingot.agent.proposing.proposal import Evidence, Proposal
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.recognizers import RECOGNIZERS, Recognizer
from ingot.converters.sources.recognizers.aliccp import (
    ALICCP_HEAD,
    COMMON,
    SKELETON,
    recognize_aliccp,
)
from ingot.converters.sources.recognizers.criteo import (
    CRITEO_HEAD,
    WIDTHS,
    array_name,
    count_array_rows,
    recognize_criteo,
)
from ingot.converters.sources.recognizers.monolith import (
    MONOLITH_HEAD,
    MONOLITH_STREAM,
    MonolithStream,
    recognize_monolith,
)
from ingot.converters.sources.storage.archives import keep_archive_open
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, Place

T = TypeVar("T")


def read_head(place: Place, size: int) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with keep_archive_open(), place.open() as raw, translate_read_errors(str(place)):
        return open_decompressed(raw, str(place)).read(size)


def is_archive_member(file: SourceFile, source: Source) -> bool:
    """Return whether a file is a member of an archive."""
    return all(file.place != entry.place for entry in source.listing.entries)


def unpack_advice(name: str, command: str) -> str:
    """Return what to do with a file that lies in an archive."""
    return f"{redact(name)} lies in an archive: unpack it, and see {command} --help"


def recognize_place(recognize: Callable[[bytes], T | None], place: Place, size: int) -> T | None:
    """Return the kind of a file by its first bytes; damage is reported when it is read."""
    try:
        return recognize(read_head(place, size))
    except SourceError:
        return None


def shell_name(name: str | None) -> str:
    """Return a name as it can be typed on the command line."""
    return "FILE" if name is None else shlex.quote(redact(name))


def irrelevant_proposal(reason: str, why: str) -> Proposal:
    """Return the proposal that nothing is converted."""
    evidence = Evidence(target="decision", choice="irrelevant", why=why)
    return Proposal(
        decision="irrelevant", mapping=None, confidence=1.0, reason=reason, evidence=(evidence,)
    )


_MOST_PARTS = 8  # of which arrays are looked at
_CRITEO_COMMAND = (
    "Preprocess it with: ingot criteo preprocess --input-dir {} --out DIR "
    "(files day_0, day_1, ..., or train.txt)"
)
_CRITEO_LINES = "lines of Criteo: 0 or 1, 13 whole numbers, 26 values of 8 hex digits, tabs between"
_CRITEO_ARRAYS = "arrays of equally many rows: 13 dense values, a label, 26 ids"


def _criteo_log_proposal(source: Source) -> Proposal | None:
    """By the largest table: Kaggle's comes with a readme."""
    tables = [file for file in source.files if file.facts.delimiter == "\t"]
    largest = max(tables, key=lambda table: table.bytes or 0, default=None)
    if largest is None or recognize_place(recognize_criteo, largest.place, CRITEO_HEAD) is None:
        return None
    what = _CRITEO_COMMAND.format(_folder_argument(largest.name))
    if is_archive_member(largest, source):
        what = unpack_advice(largest.name, "ingot criteo preprocess")
    return irrelevant_proposal(
        f"This is raw Criteo data, clicks and no text. {what}", _CRITEO_LINES
    )


def _folder_argument(name: str) -> str:
    """The folder of a file below the location; the location itself is not told."""
    inside = str(PurePosixPath(name).parent)
    return "FOLDER" if inside == "." else shell_name(inside)


def _criteo_array_proposal(source: Source) -> Proposal | None:
    entries = source.listing.entries
    places = {entry.name: entry.place for entry in entries if entry.name.endswith(".npy")}
    if not places:
        return None
    ends = array_name("", "sparse")
    parts = (name.removesuffix(ends) for name in places if name.endswith(ends))
    part = next(
        (part for part in islice(parts, _MOST_PARTS) if _is_criteo_part(part, places)), None
    )
    if part is None:
        return None
    command = f"Look at it with: ingot criteo inspect {_folder_argument(part)}"
    reason = f"This is preprocessed Criteo data, arrays and no text. {command}"
    return irrelevant_proposal(reason, _CRITEO_ARRAYS)


def _is_criteo_part(part: str, places: dict[str, Place]) -> bool:
    rows = {_criteo_array_rows(places.get(array_name(part, kind)), kind) for kind in WIDTHS}
    return len(rows) == 1 and None not in rows


def _criteo_array_rows(place: Place | None, kind: str) -> int | None:
    if place is None:
        return None
    try:
        with place.open() as stream, translate_read_errors(str(place)):
            return count_array_rows(stream, kind)
    except SourceError:  # what cannot be read is none
        return None


_LEAST_ROWS = 20
_MOST_FILES = 64  # looked at beside the first
_ALICCP_LINES = (
    "lines of Ali-CCP: 0 or 1 twice, tokens of field, id and value between \\x01, \\x02, \\x03"
)


def _aliccp_proposal(source: Source) -> Proposal | None:
    """Raw files of Ali-CCP hold nothing to convert; None for every other source."""
    first = next((file for file in source.files if file.facts.format in ("csv", "text")), None)
    if first is None or recognize_aliccp(read_head(first.place, ALICCP_HEAD)) is None:
        return None
    if is_archive_member(first, source):
        what = unpack_advice(first.name, "ingot ctr build")
    else:
        kinds: dict[str, list[str]] = {SKELETON: [], COMMON: []}
        entries: Sequence[Entry] = sorted(
            source.listing.entries, key=lambda entry: -(entry.bytes or 0)
        )
        for entry in islice(entries, _MOST_FILES):
            if (kind := recognize_place(recognize_aliccp, entry.place, ALICCP_HEAD)) is not None:
                kinds[kind].append(entry.name)
        what = _aliccp_command(kinds)
    return irrelevant_proposal(
        f"This is raw Ali-CCP data, clicks and no text. {what}", _ALICCP_LINES
    )


def click_log_hint(source: Source, rows: Sequence[Json]) -> str:
    """Return the command that builds from a table if it is clearly a click log, else ""."""
    from ingot.converters.recsys.ctr.draft.feature_choice import names_click, names_user

    tables = [row for row in rows if isinstance(row, dict)]
    if len(tables) < _LEAST_ROWS or source.files[0].facts.format not in ("csv", "parquet", "arrow"):
        return ""
    clicks = [name for name in tables[0] if names_click(name)]
    users = any(names_user(name) for name in tables[0])
    if not users or not any(_is_click_label([row.get(name) for row in tables]) for name in clicks):
        return ""
    what = shlex.quote(redact(source.files[0].name)) if len(source.files) == 1 else "FOLDER"
    return f" A log of clicks it seems to be: ingot ctr draft {what} -o featuremap.yaml"


def _is_click_label(cells: Sequence[Json]) -> bool:
    return {str(cell).lower() for cell in cells} == {"0", "1"} or set(cells) == {False, True}


def _aliccp_command(kinds: dict[str, list[str]]) -> str:
    """What builds the first pair of files, and which others there are."""
    pairs = [(name, _nearest_common(name, kinds[COMMON])) for name in kinds[SKELETON]]
    pairs = sorted(pairs, key=lambda pair: "train" not in pair[0])
    skeleton, common = pairs[0] if pairs else (None, next(iter(kinds[COMMON]), None))
    further_pairs = [f"{shell_name(name)} with {shell_name(common)}" for name, common in pairs[1:3]]
    more = f" (and then {', '.join(further_pairs)}, with its --vocab)" if further_pairs else ""
    files = f"--skeleton {shell_name(skeleton)} --common {shell_name(common)}"
    return f"Build it with: ingot ctr build {files} --featuremap aliccp --out DIR{more}"


def _nearest_common(skeleton: str, commons: Sequence[str]) -> str | None:
    """The common features of a skeleton: the file whose name ends most like it."""

    def alike(name: str) -> tuple[bool, int]:
        is_sibling = PurePosixPath(name).parent == PurePosixPath(skeleton).parent
        ends = zip(reversed(name), reversed(skeleton), strict=False)
        return is_sibling, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))

    return max(commons, key=alike, default=None)


_MESSAGE_NAMES = {"example": "Examples", "examplebatch": "ExampleBatches", "instance": "Instances"}
_STREAM_EVIDENCE = "sizes and messages of {} one behind the other, read with the framing {}"


def _monolith_proposal(source: Source) -> Proposal | None:
    """Streams of Monolith hold nothing to convert; None for others.

    What was left out as one is looked at, where nothing else is there or it is the largest file.
    """
    streams = {file.name for file in source.left_out if file.form == "monolith"}
    if not streams:
        return None
    largest = max(source.listing.entries, key=lambda entry: entry.bytes)
    plain = [entry for entry in source.listing.entries if entry.name in streams]
    stream = largest if largest.name in streams else next(iter(plain), None)
    if source.files and stream is not largest:
        return None
    if stream is not None:
        return _stream_proposal(source, stream)
    where = unpack_advice(min(streams), "ingot monolith convert")
    reason = f"These are messages for Monolith and no text. {where}"
    return irrelevant_proposal(reason, MONOLITH_STREAM)


def _stream_proposal(source: Source, found: Entry) -> Proposal | None:
    stream = recognize_place(recognize_monolith, found.place, MONOLITH_HEAD)
    if stream is None:
        return None
    where = shell_name(found.name) if source.listing.direct else "FOLDER"
    # A compression that Monolith has no name for.
    with found.place.open() as raw, translate_read_errors(str(found.place)):
        codec = detect_compression(peek_first_bytes(raw))
    packed = codec if codec in ("bz2", "xz") else ""
    what = f"Undo {packed} first, and see ingot monolith convert --help" if packed else ""
    reason = f"These are {_MESSAGE_NAMES[stream.kind]} for Monolith and no text. "
    reason += what or _monolith_command(stream, where)
    return irrelevant_proposal(
        reason, _STREAM_EVIDENCE.format(_MESSAGE_NAMES[stream.kind], stream.framing)
    )


def _monolith_command(stream: MonolithStream, where: str) -> str:
    """What converts it; the target is one that it is not yet."""
    framing = "" if stream.framing == "sort_id" else f" --framing {stream.framing}"
    packed = "" if stream.compression == "none" else f" --compression {stream.compression}"
    target = "example" if stream.kind != "example" else "examplebatch"
    command = f"ingot monolith convert {where} OUT --from {stream.kind} --to {target}"
    return f"Convert them with: {command}{framing}{packed} (look first: ingot monolith cat {where})"


_PROPOSALS: Final[dict[str, Callable[[Source], Proposal | None]]] = {
    "aliccp": _aliccp_proposal,
    "criteo": lambda source: _criteo_log_proposal(source) or _criteo_array_proposal(source),
    "monolith": _monolith_proposal,
}


def raw_data_proposal(source: Source) -> Proposal | None:
    """Return the proposal for data that a target reads itself, None for other data."""
    for name, recognizer in RECOGNIZERS.items():
        propose = _PROPOSALS.get(name, partial(_plain_proposal, name, recognizer))
        if (proposal := propose(source)) is not None:
            return proposal
    return None


def _plain_proposal(name: str, recognizer: Recognizer, source: Source) -> Proposal | None:
    """By the first file, or by what was left out where there is none."""
    if source.files:
        head = read_head(source.files[0].place, recognizer.head_bytes)
        recognized = recognizer.recognize(head) is not None
    else:
        recognized = any(file.form == name for file in source.left_out)
    reason = f"This is {recognizer.what} and no text."
    return irrelevant_proposal(reason, recognizer.what) if recognized else None
