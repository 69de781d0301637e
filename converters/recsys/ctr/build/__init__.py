"""Raw rows to the processed CTR contract, in two passes."""
