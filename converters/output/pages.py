"""Figures as one HTML page: no script, nothing from elsewhere; how numbers are spelled there.

A page is a template of its own that extends `page.html.j2`: blocks title, style and body.
"""

import math
from importlib import resources
from typing import Final

_PAGE: Final = "page.html.j2"
_UNKNOWN: Final = "–"
_MANY: Final = 1000


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


def share_of(part: int, whole: int) -> float | None:
    """A part of a whole; None where there is no whole."""
    return part / whole if whole else None


def format_percent(share: float | None) -> str:
    """A share in percent with three figures that count; a dash where it is not known."""
    if share is None:
        return _UNKNOWN
    hundredths = 100 * share
    if hundredths == 0 or hundredths >= 100:
        return f"{hundredths:.0f} %"
    places = min(6, max(0, 2 - math.floor(math.log10(hundredths))))
    return f"{hundredths:.{places}f} %"


def format_count(value: int | None) -> str:
    """A count with thousands apart; a dash where it is not known."""
    return _UNKNOWN if value is None else f"{value:,}"


def format_number(value: float | None) -> str:
    """A number with thousands apart, one place where it is not whole; a dash if not known."""
    if value is None:
        return _UNKNOWN
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def format_measure(value: float | None) -> str:
    """A number with four figures that count, and all before the point; a dash if not known."""
    if value is None or value == int(value) or abs(value) >= _MANY:
        return format_number(value)
    return f"{value:.4g}"
