"""`ingot tokens`: token data sets as Megatron reads them."""
