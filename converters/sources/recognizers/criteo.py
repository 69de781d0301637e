"""Raw Criteo logs and arrays, recognized by the beginning of their content."""

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import BinaryIO, Final, Literal

DENSE: Final = 13


SPARSE: Final = 26


WIDTHS: Final = {"dense": DENSE, "labels": 1, "sparse": SPARSE}


def array_name(part: str, kind: str) -> str:
    """Return the name of a part's array file, of shape (rows, width of the kind).

    `kind` is `dense`, `labels` or `sparse`.
    """
    return f"{part}_{kind}.npy"


CRITEO_HEAD: Final = 64 << 10
"""Bytes that are enough to judge a file by."""
_LINES: Final = 200
_SHARE: Final = 0.8  # of the lines: some are broken
_LEAST_HASHES: Final = 8  # of the 26 sparse fields that have all their digits
_FIELDS: Final = rb"(?:-?[0-9]{1,10})?(?:\t(?:-?[0-9]{1,10})?){12}((?:\t[0-9a-fA-F]{0,8}){26})\r?"
_KINDS: Final[dict[Literal["labelled", "unlabelled"], re.Pattern[bytes]]] = {
    "labelled": re.compile(rb"[01]?\t" + _FIELDS),
    "unlabelled": re.compile(_FIELDS),
}
_HEADER_BYTES: Final = 256
_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<(?P<kind>[fi])[0-9]', 'fortran_order': False, "
    rb"'shape': \((?P<rows>[0-9]{1,18}), (?P<width>[0-9]{1,4})\), *\}",
    re.DOTALL,
)
"""As numpy writes it: its own reader evaluates what it finds, and fails in many ways."""
_LETTER: Final = re.compile(rb"[a-fA-F]")


def recognize_criteo(head: bytes) -> Literal["labelled", "unlabelled"] | None:
    """Return whether a file begins as raw Criteo logs do, and with a label.

    None for any other file.
    """
    lines = [line.removeprefix(BOM_UTF8) for line in head.split(b"\n") if line.strip()]
    judged = (lines[:-1] if len(lines) > 1 else lines)[:_LINES]
    return next((kind for kind, line in _KINDS.items() if _is_criteo_kind(line, judged)), None)


def _is_criteo_kind(pattern: re.Pattern[bytes], lines: Sequence[bytes]) -> bool:
    matches = [match[1] for line in lines if (match := pattern.fullmatch(line))]
    hits = sum(map(_has_hashes, matches))
    return hits > 0 and hits >= _SHARE * len(lines)


def _has_hashes(fields: bytes) -> bool:
    """Whether sparse fields look as hashes do, which dates and numbers of 8 digits do not."""
    whole = [field for field in fields.split(b"\t") if len(field) == 8]
    return len(whole) >= _LEAST_HASHES and 2 * sum(map(bool, map(_LETTER.search, whole))) >= len(
        whole
    )


def count_array_rows(stream: BinaryIO, kind: str) -> int | None:
    """Return the rows of a preprocessed array; None for any other file."""
    match = _HEADER.match(stream.read(_HEADER_BYTES))
    if match is None or int(match["width"]) != WIDTHS[kind]:
        return None
    return int(match["rows"]) if match["kind"] == (b"f" if kind == "dense" else b"i") else None
