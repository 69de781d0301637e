"""The mapping language: parsing, binding, checking and two executors."""
