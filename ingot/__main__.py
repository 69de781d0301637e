"""`python -m ingot`, and the entry point of the `ingot` command."""


def main() -> None:
    """Run the command line; ends the process with an exit code."""
    from ingot.cli.app import app

    app(prog_name="ingot")


if __name__ == "__main__":
    main()
