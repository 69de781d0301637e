"""`python -m ingot`, and the entry points of the commands `ingot` and `parquet2mbt`."""

import sys


def main() -> None:
    """Run the command line; ends the process with an exit code."""
    try:
        from ingot.cli.app import app

        app(prog_name="ingot")
    except KeyboardInterrupt:  # before or after a command had the word
        sys.exit(130)


def parquet2mbt() -> None:
    """Run `ingot tokens build` under its other name."""
    try:
        from ingot.cli.app import TOKENS

        TOKENS["build"].load("parquet2mbt")(prog_name="parquet2mbt")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
