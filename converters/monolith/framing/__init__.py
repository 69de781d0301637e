"""Streams of records: how they are framed, compressed, opened, read and written."""
