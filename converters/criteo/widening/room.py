"""Disk space, asked for before hours of work are spent."""

import shutil
from pathlib import Path

from ingot.converters.errors import OutputError


def check_room(folder: Path, need: int, what: str) -> None:
    """See that a folder's disk has room.

    Args:
        folder: on the disk, existing.
        need: bytes.
        what: they are for, for the message.

    Raises:
        OutputError: it has not.
        OSError: it cannot be asked.
    """
    free = shutil.disk_usage(folder).free
    if free < need:
        said = f"{need / 1e9:,.1f} GB for {what}, {free / 1e9:,.1f} are free"
        raise OutputError(str(folder), f"the disk is too small: {said}", "choose another folder")
