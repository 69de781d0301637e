"""The trainers that there are exporters for."""

from typing import Final

from ingot.converters.export import axolotl, llamafactory, swift, torchtune, trl
from ingot.converters.export.layout import Trainer

TRAINERS: Final[dict[str, Trainer]] = {
    one.TRAINER.name: one.TRAINER for one in (llamafactory, swift, axolotl, trl, torchtune)
}
