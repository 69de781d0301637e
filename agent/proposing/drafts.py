"""A draft: one way to read the rows, with a score and the reasons for it.

A conversation found at one place of the rows, and the ground that finders of it share.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ingot.agent.proposing.columns import View, has_scalars, last_name, text_of, values_at
from ingot.agent.proposing.field_names import name_strength, speaker_role
from ingot.agent.proposing.proposal import Evidence
from ingot.converters.paths import Mark, compile_path, steps_text
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts, profile_values


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One way to read the rows of a view.

    Attributes:
        kind: `pt` or `sft`.
        score: 0..1, how well names and values speak for it.
        explicit: names or speakers say that this is a conversation; or, of a text, that it is one.
        unknown: speakers without a role: rows that fail on them do not speak against the draft.
    """

    kind: str
    body: dict[str, Json]
    score: float
    why: str
    used: frozenset[str] = frozenset()
    explicit: bool = True
    pair: bool = False
    evidence: tuple[Evidence, ...] = field(default=())
    most: float = 1.0
    unknown: frozenset[str] = frozenset()

    def times(self, factor: float) -> "Draft":
        """The same draft, trusted more or less."""
        return replace(self, score=min(1.0, self.score * factor))


def join_parts(parts: list[Json]) -> Json:
    """Parts of a text: one part stands for itself."""
    return parts[0] if len(parts) == 1 else parts


def question_answer_messages(user: list[Json], assistant: list[Json]) -> list[dict[str, Json]]:
    """The messages of one question and one answer."""
    return [
        {"role": "user", "content": join_parts(user)},
        {"role": "assistant", "content": join_parts(assistant)},
    ]


MAX_PLACES = 4


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation found at one place.

    Attributes:
        path: of the list (`messages`), without its wildcard.
        score: 0..1.
        ends_open: share of the rows whose conversation ends without an assistant's turn.
    """

    path: str
    entries: tuple[dict[str, Json], ...]
    score: float
    why: str
    ends_open: float
    evidence: tuple[Evidence, ...] = ()
    used: frozenset[str] = frozenset()
    most: float = 1.0
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Field:
    """A scalar below the elements of a list: its path inside an element, and its facts."""

    inner: str
    facts: PathFacts

    @property
    def name(self) -> str:
        """Its own name."""
        return last_name(self.inner) if self.inner != "$" else ""


def path_below(path: str, prefix: str) -> str:
    """What is left of a path below a prefix (`$` where nothing is)."""
    rest = path[len(prefix) :]
    return rest.removeprefix(".") or "$"


def join_inner_path(element: str, inner: str) -> str:
    """The path of a field in its row."""
    if inner == "$":
        return element
    return element + inner if inner.startswith("[") else f"{element}.{inner}"


def list_elements(view: View) -> Iterator[tuple[str, str]]:
    """Places with several elements: their path, and the path of an element (`[*]` or `.*`)."""
    for facts in view.facts.paths:
        steps = compile_path(facts.path).steps
        if steps and isinstance(steps[-1], Mark) and steps[-1].mark in ("[*]", "*"):
            before = [step for step in steps[:-1] if isinstance(step, Mark)]
            if not before:
                yield steps_text(steps[:-1]), facts.path


def element_fields(view: View, element: str) -> list[Field]:
    """Scalars inside the elements, not inside further lists; the places of short lists too."""
    found = short_list_places(view, element)
    for facts in view.facts.paths:
        if not facts.path.startswith(element) or facts.path == element:
            continue
        inner = path_below(facts.path, element)
        if inner[0] != "[" or inner.startswith("['"):
            wild = [s for s in compile_path(inner).steps if isinstance(s, Mark)]
            if not wild and has_scalars(facts):
                found.append(Field(inner=inner, facts=facts))
    return found


def short_list_places(view: View, element: str) -> list[Field]:
    """The places of elements that are lists of one short length, such as a speaker and a text."""
    facts = view.facts.get(element)
    if facts is None or not facts.items or not 2 <= facts.items.low <= MAX_PLACES:
        return []
    if facts.items.high != facts.items.low:
        return []
    inner = [f"[{place}]" for place in range(int(facts.items.low))]
    held = [[v for row in view.nodes for v in values_at(element + one, row)] for one in inner]
    found = [
        Field(inner=one, facts=profile_values(values).paths[0])
        for one, values in zip(inner, held, strict=True)
        if values
    ]
    return [one for one in found if has_scalars(one.facts)]


def field_sequences(view: View, element: str, inner: str) -> list[list[str]]:
    """Per row the texts of a field of its elements, in order."""
    path = join_inner_path(element, inner)
    return [[text_of(v) for v in values_at(path, row)] for row in view.nodes]


def name_sides(name: str) -> tuple[float, float]:
    """How far a name is the user's side of a turn, and the assistant's."""
    role = speaker_role(name)
    user = max(
        name_strength(name, "question"),
        0.8 * name_strength(name, "input"),
        0.8 * name_strength(name, "instruction"),
    )
    assistant = name_strength(name, "answer")
    return max(user, float(role == "user")), max(assistant, float(role == "assistant"))


def text_weight(one: Field) -> float:
    """How much running text a field of the elements carries."""
    facts = one.facts
    if not facts.chars or facts.types.get("string", 0) == 0:
        return 0.0
    if (
        max(facts.looks.get(k, 0.0) for k in ("url", "uuid", "hash", "time", "number", "file"))
        > 0.7
    ):
        return 0.0
    total = facts.chars.total
    if facts.distinct <= max(2, 0.05 * facts.filled) and facts.filled > 20:
        total *= 0.05
    total *= 0.3 + 0.7 * facts.distinct / max(1, facts.filled)
    total *= facts.filled / max(1, facts.places)
    return total * (1 + name_strength(one.name, "utterance"))
