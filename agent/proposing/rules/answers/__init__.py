"""Questions and answers in columns, lists and options."""
