"""Two folders trade places in one step, where the operating system can do that.

Linux has renameat2 with RENAME_EXCHANGE; a file system that lacks it (some network ones) and other
systems say no, and the caller goes the longer way.
"""

import ctypes
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(one: Path, other: Path) -> bool:
    """Let two existing paths trade places atomically; False where that cannot be done here."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    done: int = renameat2(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_RENAME_EXCHANGE))
    return done == 0
