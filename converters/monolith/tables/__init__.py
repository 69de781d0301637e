"""Arrow tables of examples: made of rows, and rows made of them."""
