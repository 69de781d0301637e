"""Batch runs of the agent over a lake of data sets."""
