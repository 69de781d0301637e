"""Documents on their way to an engine: cut where no id changes."""
