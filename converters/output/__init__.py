"""Folders and files that appear whole or not at all, and the pages about them."""
