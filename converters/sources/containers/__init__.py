"""Files that hold several tables or files: workbooks, databases, archives."""
