"""ingot turns raw data sets into what training reads, by way of one reviewed field mapping."""

__version__ = "0.1.0"
