"""The form of a question: the step of the ladder, what is left out, the room of the reply."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.model.endpoint import Endpoint, known
from ingot.agent.model.store import DROPPED, LEVELS, ROOMS, STREAMING, Known
from ingot.converters.rows import Json

Message = dict[str, str]

_NAME = "mapping"
_LEAST_ROOM = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How a question is asked.

    Attributes:
        level: one of `LEVELS`.
        dropped: of `DROPPED` and `STREAMING`, what is left out.
        rooms: names of the parameter for the room that are still to be tried, best first.
        room: the room in tokens.
        heard: whether the reply is listened to while it comes.
    """

    level: str
    dropped: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ROOMS
    room: int
    heard: bool = False

    @property
    def streamed(self) -> bool:
        """Whether a stream is asked for."""
        return self.heard and "stream" not in self.dropped

    @property
    def lower(self) -> "Form | None":
        """The same form a step lower; None = there is no lower one."""
        at = LEVELS.index(self.level) + 1
        return replace(self, level=LEVELS[at]) if at < len(LEVELS) else None

    @property
    def known(self) -> Known:
        """What is worth remembering of it."""
        return Known(
            level=self.level, dropped=self.dropped, room=self.rooms[0] if self.rooms else None
        )


def first(endpoint: Endpoint, remembered: Known | None, below: str | None) -> Form:
    """The form to begin with: what is remembered, else what the preset says, under `below`."""
    preset = known(endpoint)
    level = preset.level if preset else LEVELS[0]
    form = Form(
        level=level, rooms=_rooms(preset.room if preset else ROOMS[0]), room=_room(endpoint)
    )
    if remembered:
        rooms = _rooms(remembered.room) if remembered.room else ()
        form = replace(form, level=remembered.level, dropped=remembered.dropped, rooms=rooms)
    if below in LEVELS and LEVELS.index(form.level) <= LEVELS.index(below):
        form = replace(form, level=below)
        return form.lower or form
    return form


def softer(form: Form, refused: str) -> Form | None:
    """The form without what was refused (as `Fault.refuses` names it); None = there is none."""
    if refused == "level":
        return form.lower
    if refused in DROPPED + STREAMING and refused not in form.dropped:
        return replace(form, dropped=(*form.dropped, refused))
    if refused == "room name" and form.rooms:
        return replace(form, rooms=form.rooms[1:])
    if refused == "room size" and form.rooms and form.room > _LEAST_ROOM:
        return replace(form, room=max(_LEAST_ROOM, form.room // 2))
    return None


def body(
    form: Form, endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json]
) -> dict[str, Json]:
    """The request that asks for a reply of that schema in that form."""
    asked: dict[str, Json] = {"model": endpoint.model, "messages": list(messages)}
    asked |= {name: 0 for name in DROPPED if name not in form.dropped}
    asked |= dict.fromkeys(form.rooms[:1], form.room)
    if form.streamed:
        asked["stream"] = True
        if "stream_options" not in form.dropped:
            asked["stream_options"] = {"include_usage": True}
    return asked | _constraint(form.level, schema)


def _constraint(level: str, schema: dict[str, Json]) -> dict[str, Json]:
    if level == "json_schema":
        strict = {"name": _NAME, "strict": True, "schema": schema}
        return {"response_format": {"type": level, "json_schema": strict}}
    if level == "json_object":
        return {"response_format": {"type": level}}
    if level == "tool":
        function = {"name": _NAME, "description": "Takes the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": _NAME}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {}


def _rooms(best: str) -> tuple[str, ...]:
    return (best, *(name for name in ROOMS if name != best))


def _room(endpoint: Endpoint) -> int:
    return max(1, endpoint.max_tokens)
