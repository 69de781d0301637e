"""Names that have moved to `output.files`."""

from ingot.converters.output.files import check_unchanged, file_entry, list_files, whole_file

__all__ = ["check_unchanged", "file_entry", "list_files", "whole_file"]
