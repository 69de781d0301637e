"""Documents: running text, sections and blocks, and what only repeats them."""
