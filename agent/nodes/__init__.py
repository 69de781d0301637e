"""One small file per node of the graph."""
