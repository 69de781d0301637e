"""Data sets that are none: cut off, of other kinds, empty, or what a failed download leaves."""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Final

import writing
from sets import Made
from shapes import SHAPES
from words import Writer

PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3
PAGE: Final = (
    "<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head>\n<body><h1>403</h1>\n"
    "<p>You have no access to this object. Sign in and try again.</p></body></html>\n"
)
REFUSED: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>'
    "<Message>Access Denied</Message><RequestId>5K3H</RequestId></Error>\n"
)
POINTER: Final = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4665a5ea423c2713d436b5ee50593a9640e0018c1550b5a0002f74190d6caea8\nsize 12345678\n"
)
_FAILS: Final = ("failed", "no_training_text", "waiting", "left out")


def _rows(write: Writer, shape: str, count: int) -> list[dict[str, object]]:
    one = SHAPES[shape]
    return [one.lay(one.make(write, "en"), number, "en")[0] for number in range(count)]


def _lines(write: Writer, count: int = 30) -> bytes:
    return writing.json_lines(_rows(write, "plain", count)).encode()


def _noise(write: Writer, size: int = 4000) -> bytes:
    return b"\x00\xff" + write.chance.randbytes(size)


def _cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def _blank_rows(write: Writer) -> bytes:
    return writing.json_lines([{"id": n, "text": "", "title": ""} for n in range(30)]).encode()


_KINDS: Final[dict[str, Callable[[Writer], dict[str, bytes]]]] = {
    "cut-gz": lambda w: {"rows.jsonl.gz": _cut(writing.packed(_lines(w), "gz"))},
    "cut-xz": lambda w: {"rows.jsonl.xz": _cut(writing.packed(_lines(w), "xz"))},
    "cut-zst": lambda w: {"rows.jsonl.zst": _cut(writing.packed(_lines(w), "zst"))},
    "cut-bz2": lambda w: {"rows.jsonl.bz2": _cut(writing.packed(_lines(w), "bz2"))},
    "cut-zip": lambda w: {"rows.zip": _cut(writing.zipped({"a.jsonl": _lines(w)}))},
    "cut-tar": lambda w: {"rows.tar.gz": _cut(writing.tarred({"a.jsonl": _lines(w)}, "gz"))},
    "cut-parquet": lambda w: {"a.parquet": _cut(writing.parquet(_rows(w, "plain", 40)))},
    "cut-arrow": lambda w: {"a.arrow": _cut(writing.arrow(_rows(w, "plain", 40), stream=False))},
    "noise-parquet": lambda w: {"a.parquet": b"PAR1" + _noise(w) + b"PAR1"},
    "cut-list": lambda w: {"a.json": writing.json_list(_rows(w, "question", 20)).encode()[:-900]},
    "empty": lambda w: {"a.jsonl": b"", "b.csv": b"", "c.txt": b""},
    "blank": lambda w: {"a.txt": b"\n \n\n", "b.jsonl": b"\n\n"},
    "noise": lambda w: {"a.bin": _noise(w), "b.dat": _noise(w)},
    "zeros": lambda w: {"a.jsonl": bytes(5000)},
    "images": lambda w: {f"{n}.png": PNG for n in range(3)},
    "images-unnamed": lambda w: {"one": PNG, "two": PNG},
    "web-page": lambda w: {"data.jsonl": PAGE.encode()},
    "web-page-parquet": lambda w: {"train.parquet": PAGE.encode()},
    "refused": lambda w: {"data.csv": REFUSED.encode()},
    "pointer": lambda w: {"train.parquet": POINTER.encode(), "test.parquet": POINTER.encode()},
    "pickle": lambda w: {"data.pkl": pickle.dumps(_rows(w, "plain", 5), 4)},
    "archive-7z": lambda w: {"data.7z": b"7z\xbc\xaf\x27\x1c" + _noise(w)},
    "side-files": lambda w: {"README.md": b"# Nothing yet\n", "LICENSE": b"MIT\n"},
    "hidden": lambda w: {".data.jsonl.swp": _lines(w), ".cache/a.jsonl": _lines(w)},
    "blank-rows": lambda w: {"a.jsonl": _blank_rows(w)},
    "header-only": lambda w: {"a.csv": b"id,question,answer\n"},
    "scalars": lambda w: {"a.json": b"null\n", "b.json": b"42\n"},
    "no-json": lambda w: {"a.jsonl": b"".join(b'{"text": "broken %d\n' % n for n in range(30))},
    "wrong-bytes": lambda w: {"a.txt": bytes(w.chance.randrange(0x80, 0x100) for _ in range(3000))},
    "odd-members": lambda w: {
        "a.zip": writing.zipped({"../../up.jsonl": _lines(w), "/abs.jsonl": _lines(w)})
    },
    "numbers-list": lambda w: {"a.json": json.dumps([[n, n / 7] for n in range(200)]).encode()},
    "dead-archive": lambda w: {"a.zip": b"PK\x05\x06" + bytes(18)},
}
# What is read as text and may be taken for some: nothing says that it is not.
_MAY_CONVERT: Final = ("web-page", "web-page-parquet", "refused", "pointer", "wrong-bytes")
KINDS: Final = tuple(_KINDS)


def broken(write: Writer, kinds: tuple[str, ...] = KINDS) -> Iterator[Made]:
    """Sets of which none holds anything that can be trained on."""
    for kind in kinds:
        may = ("converted",) if kind in _MAY_CONVERT else ()
        yield Made(
            key=f"broken-{kind}",
            place=f"inbox/broken/{kind}",
            files=_KINDS[kind](write),
            kind="broken",
            status=(*_FAILS, *may),
            notes=kind,
        )
    if len(kinds) == len(KINDS):
        yield _one_bad_shard(write)


def _one_bad_shard(write: Writer) -> Made:
    good = {f"part-{n}.jsonl.gz": writing.packed(_lines(write), "gz") for n in range(3)}
    return Made(
        key="broken-shard",
        place="inbox/broken/one-bad-shard",
        files={**good, "part-3.jsonl.gz": _cut(good["part-0.jsonl.gz"])},
        kind="broken",
        status=("failed",),
        notes="one of four shards is cut off",
    )
