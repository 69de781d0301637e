"""What a stream holds: documents and figures."""
