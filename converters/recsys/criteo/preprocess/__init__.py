"""Raw Criteo days to arrays and ids."""
