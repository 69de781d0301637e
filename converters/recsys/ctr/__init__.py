"""CTR data sets: raw rows and a featuremap in, the processed contract's Parquet and batches out.

The contract, the featuremap and every rule: `docs/ctr.md`.
"""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.recsys.ctr.loader.collation import collate_fn
    from ingot.converters.recsys.ctr.loader.dataloader import (
        ProcessedIterDataset,
        ProcessedLoader,
        build_dataloader,
    )

__all__ = ["ProcessedIterDataset", "ProcessedLoader", "build_dataloader", "collate_fn"]

__getattr__ = lazy_names(
    __name__,
    {
        "ProcessedIterDataset": "loader.dataloader",
        "ProcessedLoader": "loader.dataloader",
        "build_dataloader": "loader.dataloader",
        "collate_fn": "loader.collation",
    },
)
