"""The directory of a zip archive, held against the bytes of the file.

The standard library believes the directory at the end: members that it does not list, as those of
an archive that another one was appended to, are lost without a word.
"""

import struct
import zipfile
from itertools import pairwise
from typing import BinaryIO, Final
from zipfile import BadZipFile, ZipInfo

_END: Final = b"PK\5\6"
_COUNTS: Final = struct.Struct("<10xH8xH")  # of members, and of the bytes of a comment behind it
_LENGTHS: Final = struct.Struct("<26xHH")  # of the name and the attributes of a member
_MOST_COMMENT: Final = 0xFFFF
_MANY: Final = 0xFFFF  # members: another record tells how many
_DESCRIPTOR: Final = 24  # bytes at most, behind a member whose sizes were not known before it
_SMALLEST: Final = 31  # bytes of a member
_BLOCK: Final = 1 << 20


def read_directory(raw: BinaryIO) -> list[ZipInfo]:
    """The members of an archive, each of which its directory lists. Raises BadZipFile."""
    with zipfile.ZipFile(raw) as archive:
        infos, start = archive.infolist(), archive.start_dir
    _check_end(raw, len(infos))
    placed = sorted(infos, key=lambda info: info.header_offset)
    places = [*(info.header_offset for info in placed), start]
    _check_unlisted(raw, 0, places[0])
    for info, (begin, stop) in zip(placed, pairwise(places), strict=True):
        told = begin + _LENGTHS.size + len(info.orig_filename) + info.compress_size
        if stop - told >= _SMALLEST:
            raw.seek(begin)
            told = begin + _LENGTHS.size + info.compress_size
            told += sum(_LENGTHS.unpack(raw.read(_LENGTHS.size).ljust(_LENGTHS.size)))
            _check_unlisted(raw, told + (_DESCRIPTOR if info.flag_bits & 8 else 0), stop)
    return infos


def _check_end(raw: BinaryIO, members: int) -> None:
    """See that a directory lists as many members as it tells, and that it ends the file."""
    size = raw.seek(0, 2)
    first = raw.seek(max(0, size - _COUNTS.size - _MOST_COMMENT))
    tail = raw.read()
    at = tail.rfind(_END)
    count, comment = _COUNTS.unpack_from(tail, at)
    if count not in (_MANY, members & _MANY):
        raise BadZipFile(f"damaged: its directory lists {members:,} of {count:,} members")
    end = at + _COUNTS.size + comment
    if end > len(tail):
        raise BadZipFile("cut off: it ends inside its comment")
    _check_unlisted(raw, first + end, size)


def _check_unlisted(raw: BinaryIO, start: int, stop: int) -> None:
    """See that there is nothing but zeros between two places."""
    raw.seek(start)
    for at in range(start, stop, _BLOCK):
        if raw.read(min(_BLOCK, stop - at)).strip(b"\0"):
            problem = f"damaged: bytes {start:,} to {stop:,} are of no member that it lists"
            raise BadZipFile(f"{problem} (were archives joined, or members taken out?)")
