"""What a model is shown of a data set: cut, cleaned, redacted, and computed beforehand."""
