"""Archives: numpy's bytes, whatever the order of writing; sizes and places beyond 32 bits."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.multihot.job import NpzWriter, archive_directory, place_members


def older(archive: bytes) -> bytes:
    """An archive of numpy's as Python before 3.11.4 writes it: plain sizes in local headers."""
    made = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for one in opened.infolist():
            struct.pack_into("<H", made, one.header_offset + 4, 20)
            sizes = (one.compress_size, one.file_size)
            struct.pack_into("<LL", made, one.header_offset + 18, *sizes)
        at = opened.start_dir
    while made[at : at + 4] == b"PK\1\2":
        made[at + 4], made[at + 6] = 20, 20
        lengths = struct.unpack_from("<HHH", made, at + 28)
        at += 46 + sum(lengths)
    return bytes(made)


def write(path: Path, matrices: list[np.ndarray], step: int) -> bytes:
    rows = len(matrices[0])
    with NpzWriter(path, rows, [matrix.shape[1] for matrix in matrices]) as npz:
        for start in range(0, rows, step):
            for place in reversed(range(len(matrices))):
                npz.write(place, matrices[place][start : start + step])
    return path.read_bytes()


@given(st.integers(1, 60), st.lists(st.integers(1, 7), min_size=1, max_size=30), st.integers(1, 70))
def test_bytes_are_numpys(tmp_path_factory, rows, widths, step):
    rng = np.random.default_rng(rows)
    matrices = [rng.integers(0, 2**31 - 1, (rows, width)).astype(np.int32) for width in widths]
    path = tmp_path_factory.mktemp("npz") / "made.npz"
    buffer = io.BytesIO()
    np.savez(buffer, **{str(place): matrix for place, matrix in enumerate(matrices)})
    assert write(path, matrices, step) == older(buffer.getvalue())
    with np.load(path) as loaded:
        assert loaded.files == [str(place) for place in range(len(widths))]
        for place, matrix in enumerate(matrices):
            np.testing.assert_array_equal(loaded[str(place)], matrix)
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None


def test_members_can_be_mapped(tmp_path):
    matrices = [np.arange(12, dtype=np.int32).reshape(4, 3), np.ones((4, 1), np.int32)]
    path = tmp_path / "made.npz"
    write(path, matrices, 3)
    for one, matrix in zip(place_members(4, [3, 1]), matrices, strict=True):
        at = one.data + len(one.npy)
        np.testing.assert_array_equal(np.memmap(path, "<i4", "r", at, matrix.shape), matrix)


def test_what_is_beyond_32_bits_is_as_zipfile_reads_it(tmp_path):
    """A file of 14 GB with holes: sizes, places and the directory need 64 bits."""
    rows, widths = 600_000_000, [1, 2, 3]
    path, placed, crcs = tmp_path / "large.npz", place_members(rows, widths), [7, 8, 9]
    with path.open("wb") as file:
        for one, crc in zip(placed, crcs, strict=True):
            file.seek(one.offset)
            file.write(one.local_header(crc) + one.npy)
        end = placed[-1].data + placed[-1].size
        file.seek(end)
        file.write(archive_directory(placed, crcs, end))
    assert path.stat().st_size > 14e9
    with zipfile.ZipFile(path) as opened:
        for one, told, crc in zip(placed, opened.infolist(), crcs, strict=True):
            assert (told.filename, told.CRC, told.file_size) == (one.name, crc, one.size)
            assert told.header_offset == one.offset
            assert told.compress_type == zipfile.ZIP_STORED
            with opened.open(told) as member:
                shape = (rows, widths[int(one.name[0])])
                assert np.lib.format.read_magic(member) == (1, 0)
                assert np.lib.format.read_array_header_1_0(member)[0] == shape
            header = zipfile.ZipInfo(one.name)
            header.file_size = header.compress_size = one.size
            header.CRC, header.create_system = crc, 3
            assert one.local_header(crc) == header.FileHeader(zip64=True)


def test_rows_that_are_missing_are_told(tmp_path):
    npz = NpzWriter(tmp_path / "made.npz", 2, [1, 2])
    npz.write(0, np.zeros((2, 1), np.int32))
    npz.write(1, np.zeros((1, 2), np.int32))
    with pytest.raises(ValueError, match=r"1\.npy: 136 of 144 bytes were written"):
        npz.__exit__(None, None, None)
