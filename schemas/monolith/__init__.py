"""Monolith's messages: the `.proto` files, and the code that `make protos` generates of them."""
