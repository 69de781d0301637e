"""The settings of a preprocessing run."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from ingot.converters.errors import ConversionError
from ingot.converters.progress import usable_cores
from ingot.converters.settings import Setting, existing_folder, limit_problems

DenseForm = Literal["ln3", "min2"]
Compat = Literal["exact", "torchrec_f32"]
Encode = Literal["stream", "columns"]
Unseen = Literal["new", "1"]

_THREADS: Final = 16
_of_values = partial(Setting, section="Values and ids")
SHUFFLE: Final = "Shuffle"
RUN: Final = "Performance and error handling"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How raw lines become arrays."""

    dense: Annotated[
        DenseForm,
        _of_values("Transform dense values by ln(x + 3), or by ln(x - minimum of the file + 2)."),
    ] = "ln3"
    frequency_threshold: Annotated[
        int,
        _of_values(
            "Give id 1 to values that occur less often than this; 0 and 1 keep all.",
            metavar="N",
            minimum=0,
            maximum=(1 << 63) - 1,
        ),
    ] = 0
    # None keeps the order
    shuffle_seed: Annotated[
        int | None,
        Setting(
            "Seed for shuffling the rows of all training days together.",
            metavar="SEED",
            section=SHUFFLE,
            minimum=0,
            maximum=(1 << 32) - 1,
        ),
    ] = 0
    compat: Annotated[
        Compat,
        Setting(
            "torchrec_f32 rounds the ids of shuffled days through float32, as in the public files.",
            section=SHUFFLE,
        ),
    ] = "exact"
    encode: Annotated[
        Encode,
        Setting(
            "Number the values of as many columns at a time as there are threads (stream), or of "
            "one (columns), which takes less memory; the result is the same.",
            section=RUN,
        ),
    ] = "stream"
    vocab: Annotated[
        Path | None,
        _of_values(
            "Result of an earlier run, whose values keep their ids.",
            metavar="DIR",
            parse=existing_folder,
        ),
    ] = None
    unseen: Annotated[Unseen, _of_values("With `vocab`: give other values new ids, or id 1.")] = (
        "new"
    )
    accept_unseen: Annotated[
        bool, _of_values("With `vocab`: go on although the values do not fit to it.")
    ] = False
    strict: Annotated[bool, Setting("Stop at the first line that is not a row.", section=RUN)] = (
        False
    )
    threads: Annotated[
        int,
        Setting(
            "Number of threads, or processes with `runner`, 0.4 GB of memory each; 0 = one per "
            "core, at most 16. The result is the same.",
            metavar="N",
            section=RUN,
            minimum=0,
        ),
    ] = 0
    block_bytes: int = 4 << 20
    # at most so many are put in order at a time by the shuffle, 164 bytes each; the result is the
    # same
    bucket_rows: int = 1 << 20

    def __post_init__(self) -> None:
        kinds = {"dense": DenseForm, "compat": Compat, "encode": Encode, "unseen": Unseen}
        for name, kind in kinds.items():
            if (value := getattr(self, name)) not in get_args(kind):
                hint = f"it can be: {', '.join(get_args(kind))}"
                raise ConversionError("", f"`{name}` is {value}", hint)
        for problem in limit_problems(self):
            raise ConversionError("", problem)
        for name in ("block_bytes", "bucket_rows"):
            if (value := getattr(self, name)) <= 0:
                raise ConversionError("", f"`{name}` is {value}", "it can be: 1 or more")
        if self.unseen == "1" and self.vocab is None:
            problem = "`unseen` 1 needs `vocab`, a folder whose values are known"
            raise ConversionError("", problem, "give the folder of an earlier run")

    @property
    def threshold(self) -> int:
        """Return the least count of a value with an id of its own; 0 and 1 mean the same."""
        return max(self.frequency_threshold, 1)

    @property
    def workers(self) -> int:
        """Return the number of threads, by default limited: more would only take memory."""
        return self.threads or min(usable_cores(), _THREADS)
