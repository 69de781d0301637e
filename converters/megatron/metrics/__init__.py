"""What a token build reports while it runs."""
