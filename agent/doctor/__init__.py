"""What works in this installation and what does not."""
