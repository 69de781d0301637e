"""`python -m ingot`, and the entry points of the commands `ingot` and `parquet2mbt`."""

import io
import os
import sys

from ingot.converters.imports import prepare_process


def main(name: str = "ingot") -> None:
    """Run the command line; ends the process with an exit code."""
    _begin()
    try:
        from ingot.cli.app import TOKENS, app
        from ingot.converters.output.sharding import state_command

        is_whole = name == "ingot"
        state_command([*(() if is_whole else ("tokens", "build")), *sys.argv[1:]])
        command = app if is_whole else TOKENS["build"].load(name)
        command(prog_name=name)
    except KeyboardInterrupt:  # outside a command
        from ingot.converters.errors import ExitCode

        sys.exit(ExitCode.INTERRUPTED)


def parquet2mbt() -> None:
    """Run `ingot tokens build` under its other name."""
    main("parquet2mbt")


def _begin() -> None:
    """Names of files are UTF-8 in every locale, and every console takes every letter."""
    if sys.getfilesystemencoding() != "utf-8":  # Python knows it by its start only
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    prepare_process()


if __name__ == "__main__":
    main()
