"""Help texts of commands with many options: under the headings that the options name."""

from typing import Any

from typer.core import TyperCommand


class Sections(TyperCommand):
    """A command whose help shows every option under its `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the options, those without a heading first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                heading = getattr(param, "rich_help_panel", None) or "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
