"""What `ingot doctor` looks at: the installation, the places that are written to, the endpoint."""
