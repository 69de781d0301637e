"""A featuremap proposed for a table, with the reasons."""
