"""Criteo click logs: raw days in, dense, labels and ids as torchrec reads them, batches out.

What is written, every rule and the decisions: `docs/criteo.md`.
"""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.recsys.criteo.criteo_dataset import CriteoDataset
    from ingot.converters.recsys.criteo.kjt import CriteoBatch, KeyedJaggedTensor
    from ingot.converters.recsys.criteo.multihot.conversion import MultiHot

__all__ = ["CriteoBatch", "CriteoDataset", "KeyedJaggedTensor", "MultiHot"]

__getattr__ = lazy_names(
    __name__,
    {
        "CriteoBatch": "kjt",
        "CriteoDataset": "criteo_dataset",
        "KeyedJaggedTensor": "kjt",
        "MultiHot": "multihot.conversion",
    },
)
