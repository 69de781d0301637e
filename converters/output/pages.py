"""Figures as one HTML page: no script, nothing from elsewhere.

A page is a template of its own that extends `page.html.j2`: blocks title, style and body.
"""

from importlib import resources
from typing import Final

from ingot.converters.output.figures import (
    format_count,
    format_measure,
    format_number,
    format_percent,
)

_PAGE: Final = "page.html.j2"


def render_page(package: str, template: str, **told: object) -> str:
    """The page, UTF-8 text. Every text that is told is escaped."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    sources = {
        _PAGE: _read_template("ingot.converters.output", _PAGE),
        template: _read_template(package, template),
    }
    environment = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=format_percent, count=format_count, number=format_number, measure=format_measure
    )
    return environment.get_template(template).render(**told)


def _read_template(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text("utf-8")
