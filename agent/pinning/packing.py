"""Pinned files as they are stored: compressed, in their archives, the same bytes every time."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

import zstandard

_LEVEL = 9
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)

_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, _LEVEL, mtime=0),
    "zst": lambda data: zstandard.ZstdCompressor(level=_LEVEL).compress(data),
    "bz2": lambda data: bz2.compress(data, _LEVEL),
    "xz": lzma.compress,
}


def compressed(data: bytes, codec: str | None) -> bytes:
    """The data compressed as `gz`, `zst`, `bz2` or `xz`; as it is for None."""
    return data if codec is None else _COMPRESSORS[codec](data)


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _ZIP_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return out.getvalue()


def tarred(members: Mapping[str, bytes], codec: str | None) -> bytes:
    """A tar archive of these members in their order, perhaps compressed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return compressed(out.getvalue(), codec)


def within(name: str) -> bool:
    """Whether a name stays inside the folder that it is joined to."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)
