"""CTR data sets: raw rows and a featuremap in, the processed contract's Parquet and batches out.

The contract, the featuremap and every rule: `docs/ctr.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.converters.ctr.loading.collating import collate_fn
    from ingot.converters.ctr.loading.dataloader import ProcessedLoader, build_dataloader
    from ingot.converters.ctr.loading.streaming import ProcessedIterDataset

__all__ = ["ProcessedIterDataset", "ProcessedLoader", "build_dataloader", "collate_fn"]

_MODULES = {
    "ProcessedIterDataset": "loading.streaming",
    "ProcessedLoader": "loading.dataloader",
    "build_dataloader": "loading.dataloader",
    "collate_fn": "loading.collating",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    """Load what training reads with when it is asked for: torch is slow to import."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
