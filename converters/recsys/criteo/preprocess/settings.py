"""What a user decides about a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from ingot.converters.errors import ConversionError
from ingot.converters.progress import usable_cores

DenseForm = Literal["ln3", "min2"]
Compat = Literal["exact", "torchrec_f32"]
Encode = Literal["stream", "columns"]
Unseen = Literal["new", "1"]

_THREADS: Final = 16
_LARGEST_SEED: Final = (1 << 32) - 1
_LARGEST_THRESHOLD: Final = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How raw lines become arrays.

    Attributes:
        dense: ln3: ln(x + 3); min2: ln(x - least value of the part + 2).
        frequency_threshold: values seen less often get id 1; 0 and 1 keep all.
        shuffle_seed: of the permutation of the training days; None leaves the order.
        compat: torchrec_f32: ids of shuffled days go through float32, as in the public files.
        encode: stream: ids while reading, all maps in memory; columns: one map at a time. The
            result is the same.
        vocab: folder of a run whose ids are kept, or None.
        unseen: what values get that `vocab` does not have: an id of their own, or 1.
        strict: whether the first reject ends the run.
        threads: that parse, encode and shuffle, 0.4 GB each; 0: one a core, 16 at most. The result
            is the same.
        block_bytes: read at a time; the result is the same.
        bucket_rows: put in order at a time by the shuffle, 164 bytes each; the result is the same.
    """

    dense: DenseForm = "ln3"
    frequency_threshold: int = 0
    shuffle_seed: int | None = 0
    compat: Compat = "exact"
    encode: Encode = "stream"
    vocab: Path | None = None
    unseen: Unseen = "new"
    strict: bool = False
    threads: int = 0
    block_bytes: int = 16 << 20
    bucket_rows: int = 1 << 20

    def __post_init__(self) -> None:
        kinds = {"dense": DenseForm, "compat": Compat, "encode": Encode, "unseen": Unseen}
        for name, kind in kinds.items():
            _check(getattr(self, name) in get_args(kind), name, getattr(self, name), get_args(kind))
        seed, threshold = self.shuffle_seed, self.frequency_threshold
        _check(seed is None or 0 <= seed <= _LARGEST_SEED, "shuffle_seed", seed, "0 to 2**32 - 1")
        _check(0 <= threshold <= _LARGEST_THRESHOLD, "frequency_threshold", threshold, "0 or more")
        _check(self.threads >= 0, "threads", self.threads, "0 (all cores) or more")
        _check(self.block_bytes > 0, "block_bytes", self.block_bytes, "1 or more")
        _check(self.bucket_rows > 0, "bucket_rows", self.bucket_rows, "1 or more")
        if self.unseen == "1" and self.vocab is None:
            problem = "unseen values get id 1, and there is no vocabulary that has seen any"
            raise ConversionError("", problem, "give the folder of an earlier run: --vocab DIR")

    @property
    def threshold(self) -> int:
        """The least count of a value with an id of its own; 0 and 1 say the same."""
        return max(self.frequency_threshold, 1)

    @property
    def workers(self) -> int:
        """Threads, counted: more than so many by themselves would only take memory."""
        return self.threads or min(usable_cores(), _THREADS)


def _check(fine: bool, name: str, value: object, expected: object) -> None:
    if not fine:
        told = ", ".join(expected) if isinstance(expected, tuple) else expected
        raise ConversionError("", f"{name} is {value}", f"it can be: {told}")
