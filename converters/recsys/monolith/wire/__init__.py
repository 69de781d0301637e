"""Messages on the wire as byte offsets, without building objects."""
