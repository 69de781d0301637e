"""Tokenizing engines behind one interface: the exact reference, and faster ones that are watched."""
