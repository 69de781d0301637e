"""`ingot lake`: many data sets under one folder."""
