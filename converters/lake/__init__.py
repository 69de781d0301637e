"""A lake of data sets: what is measured over all of them, repeats, splits, catalog and page."""
