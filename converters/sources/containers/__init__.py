"""Files that hold rows of other shapes than lines, tables and JSON."""
