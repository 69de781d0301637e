"""Criteo click logs to what DLRM trains on: arrays, ids, KeyedJaggedTensor. Text: `docs/criteo.md`."""
