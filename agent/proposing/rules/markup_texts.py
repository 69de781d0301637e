"""Take the text that a field's HTML shows, where most of its sampled values are HTML.

Programs in HTML are trained on as they are: a field that may hold them is left as it is, and the
evidence says so, so that a person decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from ingot.agent.proposing.columns import View, last_name, values_at
from ingot.agent.proposing.proposal import Evidence, value_strings
from ingot.converters.mapping.language import Mapping, Message, Value
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.path_uses import outer_path
from ingot.converters.paths import Path

_MOST = 0.5  # of the values of a field have to be HTML
_FEW = 0.02  # of them, or of what stands beside them, may look like programs
_FEWEST = 3  # values
_LOOK = 20_000  # characters of a value
_OPENED = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)(?=[\s>/])[^<>]*>")
_CLOSED = re.compile(r"</([a-zA-Z][a-zA-Z0-9]*)\s*>")
# What editors of texts write; other tags make pages and forms, which somebody has programmed.
_RICH_TAGS = (
    "a abbr b big blockquote br caption cite code col colgroup dd del div dl dt em figcaption "
    "figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li ol p pre q s small span strike strong sub "
    "sup table tbody td tfoot th thead tr tt u ul var"
)
_RICH = frozenset(_RICH_TAGS.split())
_PROGRAM_NAME = re.compile(r"(?i)code|snippet|source|program|script|markup|template|widget|\bhtml$")
_ABOUT_PROGRAMS = re.compile(
    r"(?i)\b(?:html5?|css|javascript|xml|markup|web ?(?:page|site)s?|tags?|snippets?)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """A field of HTML: the share of its values that are, and why these may be programs."""

    path: str
    share: float
    tags: tuple[str, ...]
    doubt: str

    def evidence(self, target: str) -> Evidence:
        """Say what is taken of the field, or why that is left to a person."""
        found = f"{self.share:.0%} of the values are HTML ({', '.join(self.tags)})"
        if self.doubt:
            why = f"{found} and stay as they are: {self.doubt}"
            return Evidence(target="doubt", choice=self.path, why=why)
        why = f"{found}: the text that it shows is taken"
        return Evidence(target=target, choice=self.path, why=why, confidence=round(self.share, 2))


def take_shown_texts(mapping: Mapping, view: View) -> tuple[Mapping, tuple[Evidence, ...]]:
    """Return a mapping that takes the texts which HTML shows, with the evidence for it."""
    found: dict[tuple[str, str], Evidence] = {}

    def change(value: Value, around: tuple[Path, ...], target: str) -> Value:
        if not _is_plain(value):
            parts = () if value.each else value.parts
            changed = tuple(change(one, around, target) for one in parts)
            return replace(value, parts=changed or value.parts)
        path = outer_path(around, value.path.text if value.path else "")
        field = _judge_field(path, view)
        if field is None:
            return value
        found[target, path] = field.evidence(target)
        return value if field.doubt else replace(value, text_of_html=True)

    def change_message(one: Message) -> Message:
        target = f"messages.{one.role if isinstance(one.role, str) else 'content'}"
        return replace(one, content=one.content and change(one.content, one.each, target))

    outer = replace(
        mapping.outer,
        text=mapping.outer.text and change(mapping.outer.text, (), "text"),
        messages=mapping.outer.messages and tuple(map(change_message, mapping.outer.messages)),
    )
    if outer != mapping.outer:
        mapping = replace(mapping, outer=outer)
    return mapping, tuple(found.values())


def _is_plain(value: Value) -> bool:
    """Whether a value is a field as it stands: several hits of it may have a separator."""
    plain = replace(value, sep="\n").is_bare
    return bool(value.path) and plain and not isinstance(value.path, Lookup)


def _judge_field(path: str, view: View) -> _Field | None:
    """What is known of a field of which most values are HTML; None of others."""
    rows = [{one for one in values_at(path, node) if isinstance(one, str)} for node in view.nodes]
    texts = [one[:_LOOK] for row in rows for one in row if one.strip()]
    marked = [tags for tags in map(_paired_tags, texts) if tags]
    if len(texts) < _FEWEST or len(marked) <= _MOST * len(texts):
        return None
    beside = [
        one[:_LOOK]
        for node, row in zip(view.nodes, rows, strict=True)
        for one in value_strings(node.value)
        if one not in row
    ]
    return _Field(
        path=path,
        share=len(marked) / len(texts),
        tags=tuple(sorted(set.union(*marked)))[:4],
        doubt=_program_doubt(path, texts, beside),
    )


def _paired_tags(text: str) -> set[str]:
    """The tags of rich text that are opened and closed again: `<think>` is none of them."""
    opened, closed = ({name.lower() for name in rule.findall(text)} for rule in (_OPENED, _CLOSED))
    return opened & closed & _RICH


def _program_doubt(path: str, texts: Sequence[str], beside: Sequence[str]) -> str:
    """Why texts in HTML may be programs, "" where nothing says so."""
    if _PROGRAM_NAME.search(last_name(path)):
        return "its name is that of programs"
    tags = ({name.lower() for name in _OPENED.findall(text)} for text in texts)
    if sum(bool(found - _RICH) for found in tags) > _FEW * len(texts):
        return "they have tags of pages and forms"
    if sum(bool(_ABOUT_PROGRAMS.search(text)) for text in beside) > _FEW * len(texts):
        return "the texts beside them are about HTML"
    if find_spec("lxml") is None:
        return 'the package that reads HTML is not installed: pip install "ingot[html]"'
    return ""
