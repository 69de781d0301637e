"""CTR data sets: raw rows and a featuremap in, the processed contract's Parquet and batches out.

The contract, the featuremap and every rule: `docs/ctr.md`.
"""
