"""Where files lie: folders, archives, buckets, HTTP."""
