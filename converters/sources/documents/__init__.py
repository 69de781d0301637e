"""Documents: one file is one row; kinds by name, front matter, web pages, notebooks, code."""
