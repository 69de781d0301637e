"""Commands about one data set."""
