"""What one does with a finished token data set."""
