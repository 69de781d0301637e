"""The loader that CTR and Criteo share: which batches a rank gets, in which order, and resuming."""
