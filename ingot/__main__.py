"""`python -m ingot`, and the entry point of the `ingot` command."""

import sys


def main() -> None:
    """Run the command line; ends the process with an exit code."""
    try:
        from ingot.cli.app import app

        app(prog_name="ingot")
    except KeyboardInterrupt:  # before or after a command had the word
        sys.exit(130)


if __name__ == "__main__":
    main()
