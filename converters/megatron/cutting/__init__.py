"""Very long texts cut into pieces whose ids, one after another, are the ids of the whole."""
