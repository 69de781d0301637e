"""Many data sets under one folder: found, mapped, reviewed and converted with one budget."""
