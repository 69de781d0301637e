"""The command line as tests call it: in this process, with standard input that is no terminal."""

import contextlib
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from ingot.cli.app import app


def ingot(
    *words: object,
    code: int | None = 0,
    folder: Path | None = None,
    lines: str | bytes | None = None,
    **environment: str,
) -> Result:
    """Run a command in a folder and hold its exit code (None: any); errors are raised."""
    with contextlib.chdir(folder or Path.cwd()):
        ran = CliRunner().invoke(app, [*map(str, words)], input=lines, env=environment)
    if ran.exception and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert code in (None, ran.exit_code), ran.output
    return ran
