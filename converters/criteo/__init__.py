"""Criteo click logs: raw days in, dense, labels and ids as torchrec reads them, batches out.

What is written, every rule and the decisions: `docs/criteo.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.converters.criteo.kjt import KeyedJaggedTensor
    from ingot.converters.criteo.loading.batch import CriteoBatch
    from ingot.converters.criteo.loading.dataset import CriteoDataset
    from ingot.converters.criteo.multihot import MultiHot

__all__ = ["CriteoBatch", "CriteoDataset", "KeyedJaggedTensor", "MultiHot"]

_MODULES = {
    "CriteoBatch": "loading.batch",
    "CriteoDataset": "loading.dataset",
    "KeyedJaggedTensor": "kjt",
    "MultiHot": "multihot",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    """Load what training reads with when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
