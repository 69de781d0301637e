"""A conversation as a value: what was ordered, the states of the mapping, and what was said.

It is plain JSON and holds no rows. Undo goes back to an earlier state; a change from there forgets
what came after it.
"""

from dataclasses import asdict, dataclass, field, replace

from ingot.agent.state import Order, State
from ingot.converters.rows import Json

FORM = 1  # of the JSON that a conversation is kept as
YOU, MODEL, INGOT = "you", "model", "ingot"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One state of the mapping.

    Attributes:
        words: what was said that led to it.
        by: who changed the mapping: `rules`, `llm` (proposals), `you` or `model`.
        state: the graph's state, checked on the sample.
    """

    words: str
    by: str
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Saying:
    """One thing that was said: by whom, its words, and the edits that a model made with it."""

    who: str
    text: str
    edits: tuple[dict[str, Json], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """One conversation.

    Attributes:
        id: by which it is taken up again.
        order: what was ordered; `out` may be settled later.
        steps: the states, oldest first; `at` is the number of the current one.
        said: what was said, oldest first.
        usage: what asking a model took, as in a graph's state.
        done: the folder that was written, "" before.
    """

    id: str
    order: Order
    steps: tuple[Step, ...]
    at: int = 0
    said: tuple[Saying, ...] = ()
    usage: dict[str, Json] = field(default_factory=dict)
    done: str = ""

    @property
    def state(self) -> State:
        """The current state."""
        return self.steps[self.at].state

    @property
    def mapping(self) -> dict[str, Json]:
        """The current mapping without its provenance; of nothing to convert an empty one."""
        found = (self.state.get("proposal") or {}).get("mapping") or {"version": 2}
        return {key: value for key, value in found.items() if key != "provenance"}

    @property
    def decision(self) -> str:
        """`pt`, `sft`, or why there is no mapping."""
        return str((self.state.get("proposal") or {}).get("decision", "no mapping"))

    def stepped(self, step: Step) -> "Conversation":
        """With a new state behind the current one; later ones are forgotten."""
        return replace(self, steps=(*self.steps[: self.at + 1], step), at=self.at + 1, done="")

    def moved(self, by: int) -> "Conversation | None":
        """At an earlier (-1) or later (1) state; None where there is none."""
        place = self.at + by
        return replace(self, at=place, done="") if 0 <= place < len(self.steps) else None

    def heard(self, *sayings: Saying) -> "Conversation":
        """With more that was said."""
        return replace(self, said=(*self.said, *sayings))

    def to_json(self) -> dict[str, Json]:
        """The conversation as plain JSON types."""
        return {
            "form": FORM,
            "id": self.id,
            "order": self.order.to_json(),
            "steps": [asdict(one) for one in self.steps],
            "at": self.at,
            "said": [asdict(one) for one in self.said],
            "usage": self.usage,
            "done": self.done,
        }

    @classmethod
    def from_json(cls, document: dict[str, Json]) -> "Conversation":
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the document is of another form.
        """
        if document["form"] != FORM:
            raise ValueError(document["form"])
        said = (Saying(**{**one, "edits": tuple(one["edits"])}) for one in document["said"])
        return cls(
            id=document["id"],
            order=Order(**document["order"]),
            steps=tuple(Step(**one) for one in document["steps"]),
            at=document["at"],
            said=tuple(said),
            usage=document["usage"],
            done=document["done"],
        )
