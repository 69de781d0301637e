"""Seeded damage: to bytes, to the pages inside a container, to values of rows of JSON."""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\n", b"\r", b"\t", b";", b"-", b"''"),
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b'""', b"null"),
    *(b"NaN", b"1e999", b"\\ud800", b"\\u0000", b"9" * 400, b"[" * 3000, b'{"a":' * 500),
    *(b"PAR1", b"ARROW1", b"\x1f\x8b\x08", b"PK\x03\x04", b"BZh9", b"\xfd7zXZ\x00"),
)
NUMBERS = (0, 1, 255, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 1 << 20)
LONG_NUMBERS = (0, -1, 255, 1 << 40, 1 << 62, -(1 << 63))
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, 10**30, 2.0**60, "", "\n", "\u0000", "x" * 5000, [], {}, [[]]),
    *({"": ""}, ["a", 1, None], {"a": {"b": {"c": [1]}}}, '{"a":1}', "[1,2", "User: x\nBot: y"),
    *("<|im_start|>user", "A", "😀" * 50, "{{x}}", "\u202e abc", "a.b[0]", "$", "^", "~", "*"),
)
ODD_NAMES = ("", "a b", "x.y", "a[0]", "\n", "role", "content", "'", "\u200b", "~")
LARGEST = 2_000_000

Mutation = Callable[[bytes, random.Random], bytes]


def mutate_bytes(data: bytes, dice: random.Random) -> bytes:
    """Flip, cut, repeat, overwrite or add some bytes, anywhere."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 5, 12))):
        at = dice.randrange(len(out) + 1)
        if dice.random() < 0.25:
            at = dice.choice((0, max(0, len(out) - 1 - dice.randrange(64))))
        dice.choice(_CHANGES)(out, at, dice)
        del out[LARGEST:]
    return bytes(out)


def mutate_inside(data: bytes, dice: random.Random) -> bytes:
    """Change few bytes and keep the size, before the last third: footers and indexes stay sound."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 9))):
        at = 4 + dice.randrange(max(1, len(out) * 2 // 3 - 20))
        size = dice.choice((1, 1, 3, 4))
        new = struct.pack("<I", dice.choice(NUMBERS)) if size == 4 else dice.randbytes(size)
        if dice.random() < 0.3:
            new = bytes([out[at] ^ 1 << dice.randrange(8)])
        out[at : at + len(new)] = new
    return bytes(out)


def mutate_rows(data: bytes, dice: random.Random) -> bytes:
    """Replace values and names in lines of JSON by odd ones; a whole column at times."""
    rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    share = dice.choice((0.02, 0.05, 0.2, 0.6))
    if dice.random() < 0.4:
        name, value = dice.choice(list(rows[0])), dice.choice(ODD_VALUES)
        rows = [{**row, name: value} if dice.random() < 0.95 else row for row in rows]
    return "".join(json.dumps(_strange(row, share, dice)) + "\n" for row in rows).encode()


def mutate_json(data: bytes, dice: random.Random) -> bytes:
    """Replace values and names in a document of JSON, which stays one; else bytes."""
    try:
        document = json.loads(data)
    except ValueError:
        return mutate_bytes(data, dice)
    return json.dumps(_strange(document, dice.choice((0.001, 0.01, 0.05)), dice)).encode()


def _strange(value: Any, share: float, dice: random.Random) -> Any:
    if dice.random() < share:
        return dice.choice(ODD_VALUES)
    if isinstance(value, dict):
        return {
            dice.choice(ODD_NAMES) if dice.random() < share / 2 else name: _strange(
                one, share, dice
            )
            for name, one in value.items()
        }
    if isinstance(value, list):
        times = dice.choice((0, 2, 30)) if dice.random() < share else 1
        return [_strange(one, share, dice) for one in value] * times
    return value


def _flip(out: bytearray, at: int, dice: random.Random) -> None:
    out[at : at + 1] = bytes(byte ^ 1 << dice.randrange(8) for byte in out[at : at + 1])


def _overwrite(out: bytearray, at: int, dice: random.Random) -> None:
    out[at : at + dice.choice((1, 1, 16))] = dice.randbytes(dice.choice((1, 1, 16)))


def _remove(out: bytearray, at: int, dice: random.Random) -> None:
    del out[at : at + dice.choice((1, 2, 4, 16, 64, 400))]


def _insert(out: bytearray, at: int, dice: random.Random) -> None:
    out[at:at] = dice.choice(TOKENS)


def _repeat(out: bytearray, at: int, dice: random.Random) -> None:
    out[at:at] = out[at : at + dice.choice((1, 8, 64, 300))] * dice.choice((1, 2, 20))


def _cut_off(out: bytearray, at: int, _: random.Random) -> None:
    del out[at:]


def _put_number(out: bytearray, at: int, dice: random.Random) -> None:
    number = dice.choice((*NUMBERS, dice.randrange(1 << 32)))
    out[at : at + 4] = struct.pack("<I", number)


def _put_long_number(out: bytearray, at: int, dice: random.Random) -> None:
    out[at : at + 8] = struct.pack("<q", dice.choice(LONG_NUMBERS))


def _reverse(out: bytearray, at: int, dice: random.Random) -> None:
    end = at + dice.randrange(2000)
    out[at:end] = out[at:end][::-1]


def _blank(out: bytearray, at: int, dice: random.Random) -> None:
    end = min(len(out), at + dice.choice((1, 16, 128)))
    out[at:end] = bytes(end - at)


_CHANGES = (
    *(_flip, _overwrite, _remove, _insert, _repeat, _cut_off),
    *(_put_number, _put_long_number, _reverse, _blank),
)
