"""The rules by which a change of a mapping is named and classed: change_rules.json holds them.

Those of modifiers stand beside the fields of the tree that they are about.

A class is a claim about the rows that were converted before the change, by severity:

- `none`: they give the same records.
- `additive`: they give the same records, others may come.
- `meta`: the same texts with other metadata.
- `training`: the same texts, of which other parts are trained on.
- `breaking`: records change, vanish or are renumbered.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from ingot.converters.mapping.documents.writer import part_document
from ingot.converters.mapping.language import MODIFIERS

CLASSES = ("none", "additive", "meta", "training", "breaking")

# rule -> (class, what it means)
RULES: dict[str, tuple[str, str]] = {
    rule: (kind, text)
    for kind, rules in json.loads((files(__package__) / "change_rules.json").read_bytes()).items()
    for rule, text in rules.items()
}
RULES |= {f"value_{one.key}": (one.review, one.change) for one in MODIFIERS if one.change}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference between two mappings: its rule (a key of RULES) and its class `kind`.

    The target is `text`, `messages 2 content`, `meta.language` or `alternative 1: text`, counted
    from 1. `old` and `new` are words, None = not there; the JSON Pointer goes into the new normal
    form, or into the old one for what was removed.
    """

    target: str
    rule: str
    kind: str
    old: str | None
    new: str | None
    pointer: str

    @property
    def identity(self) -> tuple[str, str, str | None, str | None]:
        """Return what the change says, without its position."""
        return self.target, self.rule, self.old, self.new


def make_change(rule: str, target: str, old: str | None, new: str | None, pointer: str) -> Change:
    """Make a change by the name of its rule, which has its class."""
    return Change(target=target, rule=rule, kind=RULES[rule][0], old=old, new=new, pointer=pointer)


def worst_class(changes: Iterable[Change]) -> str:
    """Return the most severe class of some changes; `none` if there are none."""
    return max((one.kind for one in changes), key=CLASSES.index, default="none")


def exact_text(part: object) -> str:
    """Return a text that only parts share that convert alike: `true` is not 1, nor is 1.0."""
    return json.dumps(part_document(part), ensure_ascii=False, sort_keys=True)
