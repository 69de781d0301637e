"""From raw lines to arrays: read, parsed, given ids, shuffled."""
