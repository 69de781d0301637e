"""Which places of the rows a mapping takes texts from, as a tree; what may lie beside them."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ingot.converters.mapping.language import Mapping, Message, Tree
from ingot.converters.mapping.path_uses import PathUse, outer_path, path_uses
from ingot.converters.paths import Key, Mark, Names, PathSyntaxError, compile_path

MEDIA_KINDS: Final = frozenset(
    f"{before}{kind}{behind}"
    for before in ("", "input_")
    for kind in ("image", "audio", "video")
    for behind in ("", "_url", "_file")
)
# Names of what was thought before something was said, and how blocks and speakers are called so.
_THOUGHT = (
    r"(?:is_?)?(?:reasoning|thinking|thoughts?)(?:[_-]?(?:content|text|details|blocks?|trace))?"
)
THOUGHTS: Final = re.compile(
    rf"(?i){_THOUGHT}|think|cot|chain_of_thought|scratchpad|inner_(?:monologue|thoughts)"
    r"|(?:thinking|reasoning|thought)_(?:process|trajector(?:y|ies))|思考(?:过程|過程)?|推理(?:过程)?"
    r"|raisonnement|razonamiento|추론"
)
THOUGHT_KINDS: Final = frozenset(
    spelt
    for kind in ("reasoning", "thinking", "thought", "thoughts")
    for spelt in (kind, kind.title(), kind.upper())
)
# Names of fields that hold what was said beside a text: nobody stores it there for looks.
CARRIES: Final = re.compile(
    r"(?i).*(?:tool|function)[_-]?(?:call|use|result|response|invocation|output)s?"
    rf"|{_THOUGHT}|refusal|audio|attachments"
)
_OFFERED_TOOLS = re.compile(r"(?i)(?:^|_)(?:tool|function)s?(?:_(?:defs?|definitions?|schemas?))?$")
KIND: Final = re.compile(r"(?:\w+_)?type|kind|role|from|speaker|author|sender")
_LABEL = re.compile(r"index|status|cache_control|(?:.*[_-])?ids?|.*I[dD]s?")
DECORATION = re.compile(r"avatar|icon|logo|thumb|profile|badge|头像|アイコン", re.IGNORECASE)
_TEXTS = re.compile(r"(?:/any_of/\d+)?(?:/messages/\d+/content|/text|/system|/tools)(?:/|$)")
_KNOWN = re.compile(r"(?:/any_of/\d+)?/(?:messages/\d+/(?:role|loss_mask)|meta/)")


@dataclass(slots=True, eq=False)
class Taken:
    """A place of the rows: what is below it, and whether a text is taken from it.

    Attributes:
        below: by key what the mapping reads for any purpose but conditions.
        each: what is below every element of a list, or every value of an object.
        whole: the value here is taken as a text.
        texts: a text is taken from here or from inside.
        top: a row is here, as an object.
    """

    below: dict[str, "Taken"] = field(default_factory=dict)
    each: "Taken | None" = None
    whole: bool = False
    texts: bool = False
    top: bool = False

    def at(self, key: str) -> "Taken":
        """Return what is taken of the value of a key."""
        return self.below.get(key) or self.each or NOWHERE

    def open_place(self, key: str | None) -> "Taken":
        """Return what is below a key (None: each element), where nothing was, a new place."""
        if key is not None:
            return self.below.setdefault(key, Taken())
        self.each = self.each or Taken()
        return self.each

    def has_beside(self, key: str) -> bool:
        """Return whether what objects here have at a key matters beside what is taken of them."""
        if key in self.below:
            return self.below[key].texts and bool(THOUGHTS.fullmatch(key))
        if self.top:
            return bool(_OFFERED_TOOLS.search(key))
        return self.texts and not (KIND.fullmatch(key) or _LABEL.fullmatch(key))


NOWHERE: Final = Taken()


def taken_places(mapping: Mapping, *, only: str = "") -> Taken:
    """Return the places from which a mapping, or a part such as `/tools`, takes texts."""
    root = Taken(top=mapping.group is None)
    for use in path_uses(mapping):
        texts = bool(_TEXTS.match(use.pointer)) and only in use.pointer
        walks = use.pointer.rsplit("/", 1)[-1] in ("each", "children", "tree")
        known = texts or (_KNOWN.match(use.pointer) and not only)
        if known and not walks and not use.of_row:
            with suppress(PathSyntaxError):  # of lookups: what they lead to is no list of messages
                *around, place = _follow(root, use)
                place.whole = place.whole or texts
                for one in (*around, place):
                    one.texts = one.texts or texts
    return root


def _follow(root: Taken, use: PathUse) -> list[Taken]:
    """The places on a path, the last to which it leads; of a tree its root, as all may be taken."""
    text = use.path.text
    for around in reversed(use.scope):
        if isinstance(around, Tree):
            text = around.path.text
        else:
            text = outer_path(around.each if isinstance(around, Message) else around, text)
    places = [root]
    for key in _keys(text):
        if key == "^":
            places = places[:-1] or [root]
            while len(places) > 1 and places[-2].each is places[-1]:
                places.pop()
        else:
            places.append(places[-1].open_place(key))
    return places


def _keys(text: str) -> Iterator[str | None]:
    """The keys of a path; None for elements, whichever, and `^` for the object around."""
    for step in compile_path(text).steps:
        if isinstance(step, Names):
            yield from step.names
        elif isinstance(step, Key):
            yield step.name
        elif step != Mark("~"):
            yield "^" if step == Mark("^") else None
