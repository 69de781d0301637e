"""Converse about a mapping: edits as data, tried on the sample, kept between sessions."""
