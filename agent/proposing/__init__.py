"""Mappers: who proposes a mapping (rules, an LLM, a script).

A mapper is a function `propose(source, sample, request) -> Proposal`. `rules` needs nothing else;
the others are made with what they need (an endpoint, answers) by whoever wires them.
"""
