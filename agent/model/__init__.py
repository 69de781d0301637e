"""One question to a model endpoint: retries, limits, budgets, memory of answers."""
