"""What a model's mapping takes of other records: a text of one for all, one of all rows."""

import re
from collections.abc import Iterator

from ingot.agent.mappers.parts import Document, layouts, strings

# A name whose elements or values are walked: `data` of `data[*]` and `data.*`.
_WALKED = re.compile(r"([^.\[\]'\"]+)['\"]?\]?(?:\[\*\]|\.\*)")


def lumped(document: Document, groups: int, rows: int) -> list[str]:
    """Keys of a `group` that make one row of all sampled rows (three or more)."""
    group = document.get("group")
    return [repr(key) for key in group["by"]] if group and groups == 1 and rows > 2 else []


def borrowed(document: Document) -> list[str]:
    """Paths that lead from every record to one fixed element of the list that holds them all.

    One row could put its text into all records that way.
    """
    return [said for _, layout in layouts(document) for said in _borrowed(layout, document)]


def _borrowed(layout: Document, document: Document) -> Iterator[str]:
    each = layout.get("each") or document.get("each") or ""
    walked = [re.escape(name) for name in _WALKED.findall(each)]
    if not walked:
        return
    fixed = re.compile(rf"\^\.(?:[^{{}}]*\.)?(?:{'|'.join(walked)})'?\]?(?:\[(?!\*)|\.(?!\*))")
    for key in ("text", "messages", "system", "tools"):
        for text in strings(layout.get(key)):
            if fixed.search(text):
                yield repr(text)
