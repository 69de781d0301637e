"""Headers of tar archives: one that is damaged, or missing, is an error and never the end.

The standard library takes a header that it cannot read for the end of an archive, so that all
members behind it are lost without a word. Here an archive ends with its end mark, blocks of zeros,
behind which nothing lies.
"""

import tarfile
from collections.abc import Iterator
from tarfile import HeaderError, ReadError
from typing import BinaryIO, Final, Literal, Self

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
    """The header that follows, which the tar does not keep: an archive may hold a million."""
    info = tar.next()
    tar.members = []  # type: ignore[attr-defined]
    return info


def whole_headers(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """All headers of an archive, one after another. Raises tarfile.ReadError behind the last."""
    while (info := next_header(tar)) is not None:
        yield info
    place = tar.offset  # of the end mark, of which a block is read
    while rest := tar.fileobj.read(1 << 20):
        if rest.strip(b"\0"):
            raise ReadError(_BEHIND.format(place))
