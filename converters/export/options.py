"""The settings of an export."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from ingot.converters.settings import Setting

TRAINER_NAMES: Final = ("llamafactory", "swift", "axolotl", "trl", "torchtune")
PART_BYTES: Final = 256 << 20  # trainers read several files in parallel


def _check_name(marks: str, words: str, text: str) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9{marks}-]{{0,63}}", text):
        raise ValueError(f"only letters, digits, {words}, a letter or digit first")
    return text


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The settings of an export; a file ends with the row group at which it has `part_bytes`."""

    name: Annotated[
        str | None,
        Setting(
            "Name of the data set in the trainer's config.",
            metavar="NAME",
            default="the name of DIR",
            parse=partial(_check_name, "._", "`-`, `_` and `.`"),
        ),
    ] = None
    split: Annotated[
        str,
        Setting(
            "What the data is for, such as train or test; it selects no rows.",
            metavar="NAME",
            flag="split-name",
            parse=partial(_check_name, "_", "`-` and `_`"),
        ),
    ] = "train"
    lossy: Annotated[
        bool, Setting("Also write records that the trainer would train on differently.")
    ] = False
    overwrite: Annotated[bool, Setting("Replace an existing export.")] = False
    part_bytes: int = PART_BYTES
