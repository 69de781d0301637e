"""Feature ids: a slot and a signature in one number, packed, taken apart and made from values.

A fid of version 1 is `slot << 54 | signature` with 10 bits of slot, one of version 2
`slot << 48 | signature` with 15 bits of slot and a top bit of 0. Signature 0 is allowed.

Plain integers in give plain integers out; arrays and sequences give uint64 arrays of their shape.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError

Version = Literal["v1", "v2"]
Fids: TypeAlias = NDArray[np.uint64]
IntegerArray: TypeAlias = Sequence[int] | NDArray[np.integer]
Integers: TypeAlias = int | IntegerArray


class Bits(NamedTuple):
    """How a version divides its bits; those above them are 0."""

    slot: int
    signature: int


BITS: Final[dict[Version, Bits]] = {"v1": Bits(10, 54), "v2": Bits(15, 48)}


@overload
def pack_v1(slot: int, signature: int) -> int: ...
@overload
def pack_v1(slot: IntegerArray, signature: Integers) -> Fids: ...
@overload
def pack_v1(slot: int, signature: IntegerArray) -> Fids: ...
def pack_v1(slot: Integers, signature: Integers) -> int | Fids:
    """Pack slots and signatures, which are broadcast, into fids of version 1.

    Raises:
        ConversionError: a slot is not below 2^10 or a signature not below 2^54.
    """
    return _pack("v1", slot, signature)


@overload
def pack_v2(slot: int, signature: int) -> int: ...
@overload
def pack_v2(slot: IntegerArray, signature: Integers) -> Fids: ...
@overload
def pack_v2(slot: int, signature: IntegerArray) -> Fids: ...
def pack_v2(slot: Integers, signature: Integers) -> int | Fids:
    """Pack slots and signatures, which are broadcast, into fids of version 2.

    Raises:
        ConversionError: a slot is not below 2^15 or a signature not below 2^48.
    """
    return _pack("v2", slot, signature)


@overload
def unpack_v1(fids: int) -> tuple[int, int]: ...
@overload
def unpack_v1(fids: IntegerArray) -> tuple[Fids, Fids]: ...
def unpack_v1(fids: Integers) -> tuple[int, int] | tuple[Fids, Fids]:
    """Unpack fids of version 1 into slots and signatures.

    Raises:
        ConversionError: a fid is no number of 64 bits.
    """
    return _unpack("v1", fids)


@overload
def unpack_v2(fids: int) -> tuple[int, int]: ...
@overload
def unpack_v2(fids: IntegerArray) -> tuple[Fids, Fids]: ...
def unpack_v2(fids: Integers) -> tuple[int, int] | tuple[Fids, Fids]:
    """Unpack fids of version 2 into slots and signatures.

    Raises:
        ConversionError: a fid is not below 2^63: its top bit is set.
    """
    return _unpack("v2", fids)


@overload
def v1_to_v2(fids: int) -> tuple[int, bool]: ...
@overload
def v1_to_v2(fids: IntegerArray) -> tuple[Fids, NDArray[np.bool_]]: ...
def v1_to_v2(fids: Integers) -> tuple[int, bool] | tuple[Fids, NDArray[np.bool_]]:
    """Convert fids to version 2 with the same slots and the low 48 bits of their signatures.

    Returns:
        The fids, and where signature bits were lost: two fids may have become one there.

    Raises:
        ConversionError: a fid is no number of 64 bits.
    """
    slots, signatures = _split_fids(BITS["v1"], _check_range("fid", fids, 64))
    low_bits = signatures & np.uint64((1 << BITS["v2"].signature) - 1)
    converted, lost = slots << np.uint64(BITS["v2"].signature) | low_bits, low_bits != signatures
    return (int(converted), bool(lost)) if _is_scalar(fids) else (converted, lost)


@overload
def switch_slot(fids: int, slot: int, version: Version) -> int: ...
@overload
def switch_slot(fids: IntegerArray, slot: int, version: Version) -> Fids: ...
def switch_slot(fids: Integers, slot: Integers, version: Version) -> int | Fids:
    """Return fids with the same signatures in another slot.

    Raises:
        ConversionError: a fid or the slot is out of the version's range, or there is no such
            version.
    """
    return _pack(version, slot, _unpack(version, fids)[1])


def from_values(
    slot: int,
    values: Sequence[int] | Sequence[str] | Sequence[bytes] | NDArray[np.integer],
    version: Version = "v2",
    hash: Literal["none", "xxh64"] = "none",
) -> Fids:
    """Make fids of one slot from raw values.

    Without a hash, whole numbers are the signatures themselves. `xxh64` takes the low bits (54 or
    48) of xxh64, seed 0, over a value's UTF-8 bytes; a number is hashed as its decimal digits, so
    that 7 and "7" are one fid. Different values may share a fid: of n distinct values about
    n^2 / 2^49 pairs do under version 2 (of a million, one pair in 560 such sets) and n^2 / 2^55
    under version 1.

    Args:
        slot: of all of them.
        values: N whole numbers, texts or byte strings.
        version: v1 | v2.
        hash: none | xxh64.

    Returns:
        uint64[N].

    Raises:
        ConversionError: the slot, or a number that is not hashed, is out of range; texts without a
            hash; one text instead of some; values of another type; no such version or hash.
    """
    if isinstance(values, str | bytes):
        raise ConversionError("", "values: one text, and no list of them", "write [value]")
    if hash == "xxh64":
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        hashes = xxh64_hashes([_hash_input(index, value) for index, value in enumerate(listed)])
        signatures = hashes & np.uint64((1 << _version_bits(version).signature) - 1)
    elif hash == "none":
        signatures = _value_signatures(values, version)
    else:
        raise ConversionError("", f"hash: {hash!r} is not known", "none and xxh64 are")
    return np.atleast_1d(_pack(version, slot, signatures))


def xxh64_hashes(values: Sequence[bytes]) -> Fids:
    """Return xxh64, seed 0, of byte strings, all 64 bits: uint64[N]."""
    from xxhash import xxh64_intdigest

    return np.fromiter(map(xxh64_intdigest, values), np.uint64, len(values))


def _version_bits(version: Version) -> Bits:
    if version not in BITS:
        raise ConversionError("", f"version: {version!r} is not known", "v1 and v2 are")
    return BITS[version]


def _pack(version: Version, slot: Integers, signature: Integers) -> int | Fids:
    bits = _version_bits(version)
    slots = _check_range("slot", slot, bits.slot, version)
    signatures = _check_range("signature", signature, bits.signature, version)
    if slots.ndim and signatures.ndim and slots.shape != signatures.shape:
        problem = f"{slots.size} slots for {signatures.size} signatures"
        raise ConversionError("", problem, "give one slot, or one for each signature")
    packed: Fids = slots << np.uint64(bits.signature) | signatures
    return int(packed) if _is_scalar(slot) and _is_scalar(signature) else packed


def _unpack(version: Version, fids: Integers) -> tuple[int, int] | tuple[Fids, Fids]:
    bits = _version_bits(version)
    slots, signatures = _split_fids(bits, _check_range("fid", fids, sum(bits), version))
    return (int(slots), int(signatures)) if _is_scalar(fids) else (slots, signatures)


def _split_fids(bits: Bits, fids: Fids) -> tuple[Fids, Fids]:
    mask = np.uint64((1 << bits.signature) - 1)
    return fids >> np.uint64(bits.signature), fids & mask


def _is_scalar(values: object) -> bool:
    return isinstance(values, int | np.integer)


def _check_range(name: str, values: Integers, bits: int, version: str = "") -> Fids:
    """Numbers of so many bits as uint64, in their own shape."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        # Numbers past int64 among smaller ones, or no numbers.
        array = np.asarray(values, np.object_)
        for index, value in enumerate(array.flat):
            if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
                position = "" if array.ndim == 0 else f" at {index}"
                problem = f"{name}{position}: {type(value).__name__} is not a whole number"
                raise ConversionError("", problem, "give integers")
    out_of_range = (array < 0) | (array > (1 << bits) - 1)
    if out_of_range.any():
        index = int(np.argmax(out_of_range))
        position = "" if array.ndim == 0 else f" at {index}"
        version_text = f" of {version}" if version else ""
        problem = f"{name}{position}: {array.flat[index]} is not in 0..2^{bits}-1"
        raise ConversionError("", problem, f"the range of a {name}{version_text}")
    return array.astype(np.uint64)


def _value_signatures(values: Sequence[object] | NDArray[np.integer], version: Version) -> Fids:
    for index, value in enumerate([] if isinstance(values, np.ndarray) else values):
        if isinstance(value, str | bytes):
            problem = f"value at {index}: {type(value).__name__} is not a whole number"
            raise ConversionError("", problem, "give hash='xxh64' for texts")
    return _check_range("value", np.asarray(values), _version_bits(version).signature, version)


def _hash_input(index: int, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value).encode()
    problem = f"value at {index}: {type(value).__name__} cannot be hashed"
    raise ConversionError("", problem, "give texts, byte strings or whole numbers")
