"""What is in a stream: rows to read, and figures."""
