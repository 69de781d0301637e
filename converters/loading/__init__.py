"""What the loaders of batches have in common: who delivers what, ranks, passes that go on."""
