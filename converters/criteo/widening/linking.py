"""Files of one result that belong to another one as they are."""

import os
import shutil
from pathlib import Path


def link(source: Path, target: Path) -> bool:
    """Give a file a second name, or copy it where the file system has no such thing.

    ingot never writes into a file that is finished, so that two results can share one. Who changes
    files in place changes both.

    Returns:
        Whether it is a link.

    Raises:
        OSError: the file cannot be copied.
    """
    target.unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)
        return False
    return True
