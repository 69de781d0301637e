"""How figures are declared and spelled: facts, tables of columns, sections of them, and units.

    columns: Columns[Part] = {
        "part": lambda one: one.name,
        "rows": lambda one: format_count(one.rows),
    }
    Section(tabulate(columns, parts), "Parts")

A terminal shows the sections; an HTML page spells numbers in the same units. Cells that are not
known are empty, and a column that is empty in every row is not shown.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final, Protocol, TypeAlias, TypeVar

_UNKNOWN: Final = "–"
_MANY: Final = 1000
_PAGE: Final = "page.html.j2"

Row = TypeVar("Row")
Value = TypeVar("Value")
Cells: TypeAlias = Sequence[str]
Columns: TypeAlias = Mapping[str, Callable[[Row], str]]
"""Headings, and what a cell below each of them says of a row."""


@dataclass(frozen=True)
class Section:
    """Lines of cells, or a text, under a title; without either it is not shown."""

    rows: Sequence[Cells] = ()
    title: str = ""
    text: str = ""
    is_warning: bool = False


class Figures(Protocol):
    """Figures that can be shown."""

    def to_document(self) -> Mapping[str, object]:
        """Return the figures as JSON."""


def tabulate(columns: Columns[Row], rows: Iterable[Row]) -> list[Cells]:
    """Return headings and cells, without columns that are empty in all rows; nothing for none."""
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    used = [any(column) for column in zip(*cells, strict=True)]
    return [
        [cell for cell, is_used in zip(line, used, strict=True) if is_used]
        for line in ([list(columns), *cells] if cells else [])
    ]


def list_facts(facts: Mapping[str, str | None]) -> list[Cells]:
    """Return names with what is known of them."""
    return [(name, text) for name, text in facts.items() if text]


def format_known(unit: Callable[[Value], str], value: Value | None) -> str:
    """Return a value in its unit; an empty text where it is not known."""
    return "" if value is None else unit(value)


def share_of(part: int | None, total: int) -> float | None:
    """Return a part of a whole; None where it is not known or there is no whole."""
    return None if part is None or not total else part / total


def format_percent(share: float | None) -> str:
    """Return a share in percent with three significant digits; a dash where it is not known."""
    if share is None:
        return _UNKNOWN
    hundredths = 100 * share
    if hundredths == 0 or hundredths >= 100:
        return f"{hundredths:.0f} %"
    decimals = min(6, max(0, 2 - math.floor(math.log10(hundredths))))
    return f"{hundredths:.{decimals}f} %"


def format_whole_percent(share: float) -> str:
    """Return a share as limits name it: "98 %"."""
    return f"{100 * share:.0f} %"


def format_share(part: int, total: int) -> str:
    """Return a count and its share, never rounded up: "196/200 (98.0 %)"."""
    if not total:
        return f"{part}/{total}"
    return f"{part}/{total} ({math.floor(1000 * part / total) / 10:.1f} %)"


def format_count(value: int | None) -> str:
    """Return a count with thousands apart; a dash where it is not known."""
    return _UNKNOWN if value is None else f"{value:,}"


def format_number(value: float | None) -> str:
    """Return a number with one place where it is not whole; a dash where it is not known."""
    if value is None:
        return _UNKNOWN
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def format_measure(value: float | None) -> str:
    """Return a number with four significant digits, all before the point; a dash if not known."""
    if value is None or value == int(value) or abs(value) >= _MANY:
        return format_number(value)
    return f"{value:.4g}"


def render_page(package: str, template: str, **values: object) -> str:
    """Return an HTML page with no script and nothing from elsewhere; every text is escaped.

    Its template extends `page.html.j2`: blocks title, style and body.
    """
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
    return environment.get_template(template).render(**values)


def _read_template(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text("utf-8")
