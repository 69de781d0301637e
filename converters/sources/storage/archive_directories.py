"""What tar and zip archives say that they hold, against their bytes: nothing is lost in silence.

The standard library takes a header of a tar that it cannot read for the end of the archive, and
believes the directory at the end of a zip. So all members behind the one, or not listed by the
other, would be lost without a word.
"""

import struct
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from tarfile import HeaderError, ReadError
from typing import BinaryIO, Final, Literal, Self
from zipfile import BadZipFile, ZipInfo

_MOST_HEADER: Final = 1 << 20
_HEADERS: Final = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_ENDED: Final = (
    "the tar archive ends at byte {:,} without its end mark: it may be cut off;"
    " if it is whole, add 1,024 bytes of zeros to it"
)
_BEHIND: Final = (
    "damaged: something lies behind the end mark of the tar, at byte {:,};"
    " if archives were joined, join them with `tar -A`, or keep them apart"
)


class _StrictHeader(tarfile.TarInfo):
    """A header of bounded size, without which an archive does not end, unless by its end mark."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except (HeaderError, IndexError) as error:  # the second of a map of holes
            kind = type(error).__name__
            if kind == "EOFHeaderError":
                raise
            is_cut = kind in ("EmptyHeaderError", "TruncatedHeaderError")
            damaged = "damaged: no header of a tar archive at byte {:,}"
            raise ReadError((_ENDED if is_cut else damaged).format(tarfile.offset)) from error

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        # Long names and attributes are no longer than names are: all are held.
        if self.size < 0 or (self.type in _HEADERS and self.size > _MOST_HEADER):
            raise ReadError(f"damaged: a header of {self.size:,} bytes at byte {self.offset:,}")
        info: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        if info.size < 0:  # by an attribute: the header would follow itself
            raise ReadError(f"damaged: a member of {info.size:,} bytes at byte {self.offset:,}")
        return info


def open_tar(stream: BinaryIO, *, forwards: bool) -> tarfile.TarFile:
    """Open a tar archive at its start, to be read `forwards` only or by offsets."""
    mode: Literal["r|", "r:"] = "r|" if forwards else "r:"
    return tarfile.open(fileobj=stream, mode=mode, tarinfo=_StrictHeader)


def next_header(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """Return the next header without keeping it in the tar: an archive may hold a million."""
    info = tar.next()
    tar.members = []  # type: ignore[attr-defined]
    return info


def whole_headers(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield all headers of an archive. Raises tarfile.ReadError behind the last."""
    while (info := next_header(tar)) is not None:
        yield info
    place = tar.offset  # of the end mark, of which a block is read
    while rest := tar.fileobj.read(1 << 20):
        if rest.strip(b"\0"):
            raise ReadError(_BEHIND.format(place))


# --- zip

_END: Final = b"PK\5\6"
_COUNTS: Final = struct.Struct("<10xH8xH")  # of members, and of the bytes of a comment behind it
_LENGTHS: Final = struct.Struct("<26xHH")  # of the name and the attributes of a member
_MOST_COMMENT: Final = 0xFFFF
_MANY: Final = 0xFFFF  # members: another record tells how many
_DESCRIPTOR: Final = 24  # bytes at most, behind a member whose sizes were not known before it
_SMALLEST: Final = 31  # bytes of a member
_BLOCK: Final = 1 << 20


def read_directory(raw: BinaryIO) -> list[ZipInfo]:
    """Return the members that the archive's directory lists. Raises BadZipFile."""
    with zipfile.ZipFile(raw) as archive:
        infos, start = archive.infolist(), archive.start_dir
    _check_end(raw, len(infos))
    placed = sorted(infos, key=lambda info: info.header_offset)
    places = [*(info.header_offset for info in placed), start]
    _check_unlisted(raw, 0, places[0])
    for info, (begin, stop) in zip(placed, pairwise(places), strict=True):
        end = begin + _LENGTHS.size + len(info.orig_filename) + info.compress_size
        if stop - end >= _SMALLEST:
            raw.seek(begin)
            end = begin + _LENGTHS.size + info.compress_size
            end += sum(_LENGTHS.unpack(raw.read(_LENGTHS.size).ljust(_LENGTHS.size)))
            _check_unlisted(raw, end + (_DESCRIPTOR if info.flag_bits & 8 else 0), stop)
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
