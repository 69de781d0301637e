"""Tokenizing engines behind one interface: the exact reference, and faster ones under watch."""
