"""Archives and compression: members in place, nothing unpacked to disk, damage is an error."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ingot.converters.errors import SourceError
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.storage import archives, compression
from ingot.converters.sources.storage.archives import TarMember
from ingot.converters.sources.storage.listing import Entry, LocalFile, list_location

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zst": zstandard.compress,
}
ROWS = b"".join(b'{"n": %d, "text": "row %d"}\n' % (n, n * n) for n in range(5000))


def noisy_rows(count: int) -> bytes:
    """Rows that compress badly, so that half of the compressed bytes are half of the rows."""
    chance = random.Random(1)
    return b"".join(b'{"n": %d, "t": "%d"}\n' % (n, chance.getrandbits(200)) for n in range(count))


def numbers(source: Source) -> list[int]:
    return [row["n"] for batch in source.batches() for row in batch.values]


def make_zip(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return str(path)


def make_tar(path: Path, files: dict[str, bytes], mode: str = "") -> str:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path.write_bytes(CODECS[mode](raw.getvalue()) if mode else raw.getvalue())
    return str(path)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows"])
def test_compression_is_told_by_content(tmp_path: Path, codec: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(CODECS[codec](ROWS))
    source = open_source(str(path))
    assert source.files[0].facts.compression == codec
    assert numbers(source) == list(range(5000))


def test_a_text_with_the_letters_of_a_tar_header_in_its_place_is_a_text(tmp_path: Path) -> None:
    text = "a" * 256 + "\nustar is a word in this text.\n" + "One more line. \n" * 40
    for name in ("notes.txt", "code.py"):
        (tmp_path / name).write_text(text)
    source = open_source(str(tmp_path / "notes.txt"))
    assert [row["text"] for batch in source.batches() for row in batch.values][1][:5] == "ustar"
    assert len(open_source(str(tmp_path)).files) >= 1


@pytest.mark.parametrize("codec", CODECS)
def test_several_streams_in_one_file(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CODECS[codec](ROWS) + CODECS[codec](ROWS))
    assert numbers(open_source(str(path))) == [*range(5000), *range(5000)]


def test_zstandard_frames_to_be_skipped_stand_before_others(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes((skipped + zstandard.compress(ROWS)) * 2)
    assert numbers(open_source(str(path))) == [*range(5000), *range(5000)]


@pytest.mark.parametrize("mode", ["", "gz"])
def test_of_tar_members_of_one_name_the_last_is_read(tmp_path: Path, mode: str) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for number in range(3):  # as `tar -r` leaves it
            info = tarfile.TarInfo("a.jsonl")
            data = b'{"n": %d}\n' % number
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path = tmp_path / "a.tar"
    path.write_bytes(CODECS[mode](raw.getvalue()) if mode else raw.getvalue())
    source = open_source(str(path))
    assert numbers(source) == [2]
    assert [one.name for one in source.left_out] == ["a.jsonl"] * 2


@pytest.mark.more
@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_off_stream_is_an_error_after_its_rows(tmp_path: Path, codec: str) -> None:
    data = CODECS[codec](noisy_rows(60_000))
    path = tmp_path / "rows.jsonl.x"
    path.write_bytes(data[: len(data) * 3 // 4])
    seen: list[int] = []
    batches = open_source(str(path)).batches()
    with pytest.raises(SourceError, match=rf"rows\.jsonl\.x: cut off: the {codec} data ends after"):
        seen.extend(row["n"] for batch in batches for row in batch.values)
    assert len(seen) > 10_000
    assert seen == list(range(len(seen)))


@pytest.mark.parametrize("codec", CODECS)
def test_damage_inside_a_stream_is_an_error(tmp_path: Path, codec: str) -> None:
    data = bytearray(CODECS[codec](noisy_rows(5000)))
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(bytes(data))
    with pytest.raises(SourceError, match=r"rows\.jsonl"):
        numbers(open_source(str(path)))


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.jsonl.zst"
    path.write_bytes(zstandard.compress(b'{"n": 1}\n' * 3_000_000))
    with pytest.raises(SourceError, match="decompression bomb"):
        numbers(open_source(str(path)))


MEMBERS = {
    "set/b.jsonl": ROWS,
    "set/a.jsonl": ROWS[: ROWS.index(b'{"n": 3,')],
    "set/README.md": b"x",
}


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.zst", "tar.bz2", "tar.xz"])
@pytest.mark.parametrize("name", ["data.{}", "data"])
def test_members_are_read_in_place(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / name.format(kind)
    if kind == "zip":
        make_zip(path, MEMBERS)
    else:
        make_tar(path, MEMBERS, kind.removeprefix("tar").removeprefix("."))
    source = open_source(str(path))
    # A compressed tar is only read forwards, so its members keep their order.
    order = ["set/a.jsonl", "set/b.jsonl"]
    forward = kind.startswith("tar.")
    assert [file.name for file in source.files] == (order[::-1] if forward else order)
    assert [item.name for item in source.left_out] == ["set/README.md"]
    expected = [[0, 1, 2], list(range(5000))]
    assert numbers(source) == [
        n for part in (expected[::-1] if forward else expected) for n in part
    ]
    assert [file.bytes for file in source.files] == [len(MEMBERS[f.name]) for f in source.files]
    backwards = [n for file in source.files[::-1] for b in source.batches([file]) for n in b.rows]
    assert len(backwards) == 5003
    with source.files[0].open_raw() as raw:
        assert raw.read() == MEMBERS[source.files[0].name]
    assert list(tmp_path.iterdir()) == [path]


def test_two_members_may_be_open_at_once(tmp_path: Path) -> None:
    for path in (
        make_zip(tmp_path / "a.zip", MEMBERS),
        make_tar(tmp_path / "a.tar", MEMBERS),
        make_tar(tmp_path / "a.tgz", MEMBERS, "gz"),
    ):
        source = open_source(path)
        both = zip(source.batches(source.files[:1]), source.batches(source.files[1:]), strict=False)
        first, second = next(iter(both))
        assert {first.values[0]["n"], second.values[0]["n"]} == {0}
        assert len(numbers(source)) == 5003


def test_reading_a_compressed_tar_in_order_is_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"{number:03d}.jsonl": b'{"n": %d}\n' % number for number in range(40)}
    source = open_source(make_tar(tmp_path / "a.tar.gz", files, "gz"))
    assert isinstance(source.files[0].place, TarMember)
    opened: list[int] = []
    original = LocalFile.open

    def counted(self: LocalFile) -> BinaryIO:
        opened.append(1)
        return original(self)

    monkeypatch.setattr(LocalFile, "open", counted)
    assert numbers(source) == list(range(40))
    assert len(opened) == 1


def test_an_archive_inside_a_folder(tmp_path: Path) -> None:
    make_zip(tmp_path / "part.zip", {"a.jsonl": ROWS})
    (tmp_path / "b.jsonl").write_bytes(ROWS)
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["b.jsonl", "part.zip/a.jsonl"]
    assert len(numbers(source)) == 10_000


def test_members_may_be_compressed_and_columnar(tmp_path: Path) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(10))}), table)
    packed = {"a.parquet": table.getvalue()}
    for path in (make_zip(tmp_path / "a.zip", packed), make_tar(tmp_path / "b.tgz", packed, "gz")):
        assert numbers(open_source(path)) == list(range(10))
    path = make_tar(tmp_path / "c.tar", {"x.jsonl.gz": gzip.compress(ROWS)})
    assert len(numbers(open_source(path))) == 5000


def test_names_that_point_outside_are_never_opened(tmp_path: Path) -> None:
    evil = {"../up.jsonl": ROWS, "/root.jsonl": ROWS, "a/../../b.jsonl": ROWS, "C:\\x.jsonl": ROWS}
    for path in (
        make_zip(tmp_path / "a.zip", {**evil, "good.jsonl": ROWS}),
        make_tar(tmp_path / "a.tar", {**evil, "good.jsonl": ROWS}),
    ):
        source = open_source(path)
        assert [file.name for file in source.files] == ["good.jsonl"]
        assert {item.why for item in source.left_out} == {"its name points outside the archive"}
        assert len(source.left_out) == 4


def test_links_in_a_tar_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("passwd.jsonl")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
        data = tarfile.TarInfo("good.jsonl")
        data.size = len(ROWS)
        archive.addfile(data, io.BytesIO(ROWS))
    source = open_source(str(path))
    assert [(item.name, item.why) for item in source.left_out] == [
        ("passwd.jsonl", "not a regular file")
    ]


def test_a_zip_bomb_is_refused_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(compression, "MAX_RATIO", 100)
    path = make_zip(tmp_path / "a.zip", {"a.jsonl": b" " * (8 << 20)})
    with pytest.raises(SourceError, match=r"a\.jsonl would be over 100 times its size"):
        open_source(path)


@pytest.mark.parametrize("kind", ["zip", "tar", "tgz"])
def test_a_broken_archive_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        make_zip(path, MEMBERS)
    else:
        make_tar(path, MEMBERS, "gz" if kind == "tgz" else "")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    problem = "not a whole zip archive" if kind == "zip" else ""
    with pytest.raises(SourceError, match=rf"a\.{kind}: {problem}"):
        numbers(open_source(str(path)))


def shards() -> dict[str, bytes]:
    return {f"p{n}.jsonl": b'{"n": %d, "text": "row"}\n' % n * 20 for n in range(3)}


def damaged_tars() -> dict[str, bytes]:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in shards().items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    sound = whole.getvalue()
    second, third = sound.index(b"p1.jsonl"), sound.index(b"p2.jsonl")
    end = sound.rindex(b"row") // 512 * 512 + 512
    changed = {
        f"bit {at} of a header": (at, bytes([sound[at] ^ 1]))
        for at in (second + 130, third + 110, third + 258)
    }
    changed["a header of zeros"] = (third, bytes(512))
    changed["a member of zeros"] = (second, bytes(third - second))
    found = {name: sound[:at] + new + sound[at + len(new) :] for name, (at, new) in changed.items()}
    return found | {
        "cut in a header": sound[: third + 300],
        "cut between two members": sound[:third],
        "cut in the padding": sound[: third - 10],
        "no end mark": sound[:end],
        "two archives": sound + sound,
        "a text behind it": sound + b'{"n": 1}\n',
    }


@pytest.mark.parametrize("codec", ["", "gz", "bz2"])
@pytest.mark.parametrize("damage", damaged_tars())
def test_a_tar_that_is_not_accounted_for_is_an_error(
    tmp_path: Path, damage: str, codec: str
) -> None:
    (tmp_path / "x.tar").write_bytes(CODECS.get(codec, bytes)(damaged_tars()[damage]))
    with pytest.raises(SourceError, match=r"x\.tar.*(at byte [\d,]+|end of data)"):
        open_source(str(tmp_path / "x.tar"))


def test_a_tar_that_is_filled_up_with_zeros_is_whole(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", shards())
    with Path(path).open("ab") as out:
        out.write(bytes(3_000_001))
    assert numbers(open_source(path)) == [0] * 20 + [1] * 20 + [2] * 20


def test_a_negative_size_ends_no_tar_in_a_circle(tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.jsonl")
        info.pax_headers = {"size": "-1024"}
        archive.addfile(info, io.BytesIO())
    (tmp_path / "x.tar").write_bytes(raw.getvalue())
    with pytest.raises(SourceError, match=r"x\.tar: .*damaged"):
        open_source(str(tmp_path / "x.tar"))


def write_sparse(path: Path, size: int, codec: str = "") -> str:
    """A member with a hole between two rows."""
    head, tail = b'{"n": 1}\n', b'\n{"n": 2}\n'
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, sparse in (("a.txt", False), ("b.jsonl", True)):
            info = tarfile.TarInfo(name)
            info.size = len(head + tail)
            holes = f"0,{len(head)},{size - len(tail)},{len(tail)}"
            told = {"major": "0", "minor": "1", "size": str(size), "map": holes, "numblocks": "2"}
            if sparse:
                info.pax_headers = {f"GNU.sparse.{key}": value for key, value in told.items()}
            archive.addfile(info, io.BytesIO(head + tail))
    path.write_bytes(CODECS.get(codec, bytes)(raw.getvalue()))
    return str(path)


@pytest.mark.parametrize("codec", ["", "gz"])
def test_a_member_with_holes_is_read_as_the_file_was(tmp_path: Path, codec: str) -> None:
    (archive,) = list_location(write_sparse(tmp_path / "x.tar", 700, codec)).entries
    _, member = archives.archive_members(archive, "tar")
    assert isinstance(member, Entry)
    with member.place.open() as stream:
        assert stream.read() == b'{"n": 1}\n' + bytes(681) + b'\n{"n": 2}\n'


@pytest.mark.parametrize("codec", ["", "gz"])
def test_a_member_of_holes_is_a_bomb(tmp_path: Path, codec: str) -> None:
    path = write_sparse(tmp_path / "x.tar", 1 << 50, codec)
    with pytest.raises(SourceError, match=r"x\.tar: member b\.jsonl would be over"):
        open_source(path)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    source = open_source(make_tar(tmp_path / "x.tar", {"a.jsonl": ROWS}))
    (tmp_path / "x.tar").write_bytes((tmp_path / "x.tar").read_bytes()[:100_000])
    with pytest.raises(SourceError, match=r"x\.tar::a\.jsonl: cut off: it ends [\d,]+ bytes early"):
        list(source.files[0].place.open())


def zip_bytes(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return raw.getvalue()


def damaged_zips() -> dict[str, bytes]:
    sound, other = zip_bytes(shards()), zip_bytes({"q.jsonl": shards()["p0.jsonl"]})
    directory, end = sound.index(b"PK\1\2"), sound.index(b"PK\5\6")
    second = sound.index(b"PK\1\2", directory + 1)
    less, one = struct.pack("<I", end - second), struct.pack("<HH", 2, 2)
    return {
        "one behind another": sound + other,
        "a text behind it": sound + b"more",
        "a part of another one": sound + other[: len(other) // 2],
        "fewer told": sound[: end + 8] + one + sound[end + 12 :],
        "a member not listed": sound[:directory]
        + sound[second:end]
        + sound[end : end + 8]
        + one
        + less
        + sound[end + 16 :],
        "a comment cut off": sound[:-2] + b"\x05\0abc",
    }


@pytest.mark.parametrize("damage", damaged_zips())
def test_a_zip_that_is_not_accounted_for_is_an_error(tmp_path: Path, damage: str) -> None:
    (tmp_path / "x.zip").write_bytes(damaged_zips()[damage])
    with pytest.raises(SourceError, match=r"x\.zip: .*(that it lists|directory lists|cut off)"):
        open_source(str(tmp_path / "x.zip"))


class Forwards(io.BytesIO):
    """What a zip is written to before the sizes of its members are known."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation


def test_zips_as_programs_write_them_are_whole(tmp_path: Path) -> None:
    out = Forwards()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name, data in shards().items():
            archive.writestr(f"folder/ä{name}", data)
        archive.comment = b"a comment"
    (tmp_path / "x.zip").write_bytes(out.getvalue())
    assert len(numbers(open_source(str(tmp_path / "x.zip")))) == 60


def test_of_members_of_one_name_the_last_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in shards().values():
            archive.writestr("a.jsonl", data)
    source = open_source(str(tmp_path / "x.zip"))
    assert numbers(source) == [2] * 20
    assert [one.name for one in source.left_out] == ["a.jsonl", "a.jsonl"]


@pytest.mark.parametrize("codec", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("tail", [b"more of it", b"\0\0\0\0damaged"])
def test_what_follows_the_last_stream_is_an_error(tmp_path: Path, codec: str, tail: bytes) -> None:
    rows, pack = b'{"n": 1}\n' * 9, CODECS[codec]
    (tmp_path / "x.jsonl").write_bytes(pack(rows) + tail + pack(rows))
    with pytest.raises(SourceError, match=r"x\.jsonl: cannot decompress it"):
        numbers(open_source(str(tmp_path / "x.jsonl")))


@pytest.mark.parametrize("codec", ["gz", "bz2", "xz", "zst"])
def test_empty_streams_between_others_are_nothing(tmp_path: Path, codec: str) -> None:
    rows, pack = b'{"n": 1}\n' * 9, CODECS[codec]
    (tmp_path / "x.jsonl").write_bytes(pack(rows) + pack(b"") + pack(rows))
    assert numbers(open_source(str(tmp_path / "x.jsonl"))) == [1] * 18


def test_an_archive_without_data_is_an_empty_source(tmp_path: Path) -> None:
    source = open_source(make_zip(tmp_path / "a.zip", {"README.md": b"x"}))
    assert source.files == ()


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_an_archive_has_so_many_members(
    make: Callable[[Path, dict[str, bytes]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    files = {f"{n}.jsonl": b'{"n": %d, "text": "some words"}\n' % n for n in range(4)}
    whole = open_source(make(tmp_path / "a", dict(list(files.items())[:3])))
    assert numbers(whole) == [0, 1, 2]
    with pytest.raises(SourceError, match="more than 3 members"):
        open_source(make(tmp_path / "b", files))
