"""The page of a lake: index.html, one file that needs nothing else and asks nobody.

Its script is this project's own and the only one that may run: the page's policy names it by its
hash, as it does its style, and forbids every connection. Data lies beside it in blocks of JSON and
is shown as text and in no other way. A table of 5,000 data sets is drawn in slices.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

from ingot.converters import pages
from ingot.converters.lake import page_data
from ingot.converters.lake.facts import STATUSES, SetFacts
from ingot.converters.rows import Json

_PACKAGE: Final = "ingot.converters.lake"
_TEMPLATE: Final = "index.html.j2"
_STYLE: Final = ("lake.css",)
_SCRIPT: Final = ("lake_parts.js", "lake_set.js", "lake.js")


def render(sets: Sequence[SetFacts], *, title: str, told: Mapping[str, Json]) -> bytes:
    """The page; the same bytes for the same facts.

    Args:
        sets: all data sets, in the order in which the page shows them at first.
        title: name of the lake.
        told: of the lake as a whole: `files`, `left_out`, `dedup`, `split`; what is not there is
            not shown.
    """
    from markupsafe import Markup

    style, script = _joined(_STYLE), _joined(_SCRIPT)
    lake = {"title": title, "told": dict(told), "totals": page_data.totals(sets)}
    facts = [page_data.facts(one) for one in sets]
    page = pages.render(
        _PACKAGE,
        _TEMPLATE,
        title=title.encode("utf-8", "backslashreplace").decode("utf-8"),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        lake=_block({**lake, "statuses": STATUSES, "sets": facts}),
        details=_block(page_data.details(sets)),
    )
    return page.encode("utf-8")


def _block(value: Json) -> str:
    """JSON that a script block holds as it is."""
    from markupsafe import Markup

    return Markup(page_data.embedded(value))


def _joined(names: Sequence[str]) -> str:
    return "\n".join((resources.files(_PACKAGE) / name).read_text("utf-8") for name in names)


def _policy(style: str, script: str) -> str:
    """What the page may do: nothing but its own style and script."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
