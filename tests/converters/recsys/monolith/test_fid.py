"""Feature ids against plain Python."""

from collections.abc import Callable

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith import fid

SLOTS = {"v1": st.integers(0, (1 << 10) - 1), "v2": st.integers(0, (1 << 15) - 1)}
SIGNATURES = {"v1": st.integers(0, (1 << 54) - 1), "v2": st.integers(0, (1 << 48) - 1)}
PACK = {"v1": fid.pack_v1, "v2": fid.pack_v2}
UNPACK = {"v1": fid.unpack_v1, "v2": fid.unpack_v2}


@pytest.mark.parametrize("version", ["v1", "v2"])
@given(data=st.data())
def test_packed_and_taken_apart(version: fid.Version, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(SLOTS[version], SIGNATURES[version]), min_size=1))
    slots, signatures = (list(part) for part in zip(*pairs, strict=True))
    shift = fid.BITS[version].signature
    packed = PACK[version](slots, signatures)
    assert packed.dtype == np.uint64
    assert packed.tolist() == [slot << shift | signature for slot, signature in pairs]
    apart = UNPACK[version](packed)
    assert [part.tolist() for part in apart] == [slots, signatures]
    one = PACK[version](*pairs[0])
    assert type(one) is int
    assert one == packed[0]
    assert UNPACK[version](one) == pairs[0]
    assert PACK[version](slots[0], signatures[:1]).tolist() == [one]


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_v1_to_v2(fids: list[int]) -> None:
    made, lost = fid.v1_to_v2(fids)
    assert made.tolist() == [(one & ((1 << 48) - 1)) | (one >> 54) << 48 for one in fids]
    assert lost.tolist() == [bool(one >> 48 & 0x3F) for one in fids]
    for one, new, gone in zip(fids, made.tolist(), lost.tolist(), strict=True):
        assert fid.v1_to_v2(one) == (new, gone)


def test_another_slot() -> None:
    assert fid.switch_slot(fid.pack_v2(3, 7), 32767, "v2") == fid.pack_v2(32767, 7)
    assert fid.switch_slot([fid.pack_v1(3, 7)], 4, "v1").tolist() == [fid.pack_v1(4, 7)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fid.pack_v1(1024, 0),
            "slot: 1024 is not in 0..2^10-1 (the range of a slot of v1)",
        ),
        (lambda: fid.pack_v1([1, -1], 0), "slot at 1: -1 is not in 0..2^10-1"),
        (lambda: fid.pack_v1(0, 1 << 54), "signature: 18014398509481984 is not in 0..2^54-1"),
        (lambda: fid.pack_v2(np.array([0, 40000], np.uint16), 0), "slot at 1: 40000 is not in"),
        (lambda: fid.pack_v2(0, [0, 1 << 48]), "signature at 1: 281474976710656 is not in"),
        (lambda: fid.unpack_v2([1 << 63, 1]), "fid at 0: 9223372036854775808 is not in 0..2^63-1"),
        (lambda: fid.unpack_v1([1 << 64, -1]), "fid at 0: 18446744073709551616 is not in"),
        (lambda: fid.unpack_v1(1.5), "fid: float is not a whole number"),
        (lambda: fid.pack_v2(True, 1), "slot: bool is not a whole number"),
        (lambda: fid.pack_v2(np.array([2.0]), 1), "slot at 0: float is not a whole number"),
        (lambda: fid.from_values(1, ["a"]), "value at 0: str is not a whole number (give hash="),
        (lambda: fid.from_values(1, [5, 1 << 48]), "value at 1: 281474976710656 is not in"),
        (lambda: fid.from_values(1, [None], hash="xxh64"), "NoneType cannot be hashed"),
        (lambda: fid.from_values(1, [1], "v3"), "version: 'v3' is not known"),
        (lambda: fid.from_values(1, [1], hash="md5"), "hash: 'md5' is not known"),
    ],
)
def test_out_of_range(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ConversionError) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize("version", ["v1", "v2"])
@given(slot=st.integers(0, 1023), values=st.lists(st.one_of(st.text(), st.binary(), st.integers())))
def test_hashed_values(version: fid.Version, slot: int, values: list[str | bytes | int]) -> None:
    shift = fid.BITS[version].signature
    made = fid.from_values(slot, values, version, hash="xxh64")
    for one, value in zip(made.tolist(), values, strict=True):
        raw = value if isinstance(value, bytes) else str(value).encode()
        assert one == slot << shift | xxhash.xxh64_intdigest(raw) & ((1 << shift) - 1)


def test_whole_numbers_are_their_own_signatures() -> None:
    assert fid.from_values(9, [0, 5], "v1").tolist() == [9 << 54, 9 << 54 | 5]
    assert fid.from_values(9, np.array([5], np.int8)).tolist() == [9 << 48 | 5]
    assert fid.from_values(9, [7], hash="xxh64") == fid.from_values(9, ["7"], hash="xxh64")
    assert len(fid.from_values(9, [])) == 0
