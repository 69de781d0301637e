"""Runs a part of a job (`--shard I/N`) in a pod, where a part that is done is a success.

`ingot` ends with 5 when a part is done, for others remain. An Indexed Job of Kubernetes takes every
exit code but 0 for a failure. All other codes stay as they are.
"""

import sys

from ingot.__main__ import main
from ingot.converters.errors import ExitCode


def run_part() -> None:
    """Run the command line that was given; ends the process."""
    try:
        main()
    except SystemExit as end:
        sys.exit(ExitCode.DONE if end.code == ExitCode.PART_DONE else end.code)


if __name__ == "__main__":
    run_part()
