"""The results of many data sets: duplicates, splits, catalog, page."""
