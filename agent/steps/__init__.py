"""The nodes of the graph, one small step each."""
