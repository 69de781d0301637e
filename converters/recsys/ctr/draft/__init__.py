"""A featuremap drafted from the statistics of a table."""
