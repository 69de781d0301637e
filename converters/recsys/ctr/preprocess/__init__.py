"""Building the processed contract: raw files and a featuremap to Parquet."""
