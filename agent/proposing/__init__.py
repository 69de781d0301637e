"""Map a data set: a mapper is a function `propose(source, sample, request) -> Proposal`.

The mapper `rules` needs nothing else; the mappers that ask a model are made with their endpoint.
"""
