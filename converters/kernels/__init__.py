"""What compiled inner loops share."""
