"""The wire format of Protocol Buffers in kernels: what a record says, as places in its bytes."""
