"""The form of a question: the step of the ladder, what is left out, the room of the reply."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import TypedDict

from ingot.agent.model.budget import estimate_tokens
from ingot.agent.model.cache import (
    BOUNDS,
    DROPPABLE,
    FORM_LEVELS,
    LEFT_OUT,
    ROOM_PARAMETERS,
    KnownForm,
)
from ingot.agent.model.endpoint import Endpoint, known_preset
from ingot.converters.rows import Json, Safe


class Message(TypedDict):
    """A part of a question; a server is sent nothing else of the data."""

    role: str
    content: Safe


_NAME = "mapping"
_LEAST_ROOM = 512
_BOUND_KEYS = ("maxItems", "maxLength")


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestForm:
    """How a question is asked: `rooms` are names of the room's parameter still to be tried."""

    level: str
    dropped: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ROOM_PARAMETERS
    room: int
    heard: bool = False
    enforced: bool = False

    @property
    def streamed(self) -> bool:
        """Return whether a stream is asked for."""
        return self.heard and "stream" not in self.dropped

    @property
    def lower(self) -> "RequestForm | None":
        """Return the same form a step lower; None = there is no lower one."""
        lower = FORM_LEVELS[FORM_LEVELS.index(self.level) + 1 :]
        return replace(self, level=lower[0], enforced=False) if lower else None

    @property
    def known(self) -> KnownForm:
        """Return what is worth remembering of it."""
        return KnownForm(
            level=self.level,
            dropped=self.dropped,
            room=self.rooms[0] if self.rooms else None,
            enforced=self.enforced,
        )


def first_form(endpoint: Endpoint, remembered: KnownForm | None, below: str | None) -> RequestForm:
    """Return the form to begin with: what is remembered, else what the preset says, under `below`.

    What was seen to be enforced is asked for again: a reply without its form has another cause.
    """
    preset = known_preset(endpoint)
    level = preset.level if preset else FORM_LEVELS[0]
    form = RequestForm(
        level=level,
        dropped=preset.dropped if preset else (),
        rooms=_room_parameters(preset.room if preset else ROOM_PARAMETERS[0]),
        room=max(1, endpoint.max_tokens),
    )
    if remembered:
        rooms = _room_parameters(remembered.room) if remembered.room else ()
        form = replace(
            form,
            level=remembered.level,
            dropped=remembered.dropped,
            rooms=rooms,
            enforced=remembered.enforced,
        )
    if form.enforced or below not in FORM_LEVELS:
        return form
    if FORM_LEVELS.index(form.level) <= FORM_LEVELS.index(below):
        form = replace(form, level=below)
        return form.lower or form
    return form


def softer_form(form: RequestForm, refused: str) -> RequestForm | None:
    """Return the form without what was refused (as `Fault.refuses` names it).

    None = there is none.
    """
    if refused == "level" or (refused in BOUNDS and refused in form.dropped):
        return form.lower
    if refused in LEFT_OUT and refused not in form.dropped:
        return replace(form, dropped=(*form.dropped, refused))
    if refused == "room name" and form.rooms:
        return replace(form, rooms=form.rooms[1:])
    if refused == "room size" and form.rooms and form.room > _LEAST_ROOM:
        return replace(form, room=max(_LEAST_ROOM, form.room // 2))
    return None


def request_body(
    form: RequestForm, endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json]
) -> dict[str, Json]:
    """Return the request that asks for a reply of that schema in that form."""
    asked: dict[str, Json] = {"model": endpoint.model, "messages": list(messages)}
    asked |= {name: 0 for name in DROPPABLE if name not in form.dropped}
    asked |= dict.fromkeys(form.rooms[:1], form.room)
    if form.streamed:
        asked["stream"] = True
        if "stream_options" not in form.dropped:
            asked["stream_options"] = {"include_usage": True}
    return asked | _reply_constraint(form, endpoint, schema)


def question_tokens(
    form: RequestForm, endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json]
) -> int:
    """Return about how many tokens a question has, the schema that goes with it included."""
    text = "\n".join(message["content"] for message in messages)
    constraint = _reply_constraint(form, endpoint, schema)
    return estimate_tokens(text) + estimate_tokens(dumps(constraint))


def _reply_constraint(
    form: RequestForm, endpoint: Endpoint, schema: dict[str, Json]
) -> dict[str, Json]:
    preset = known_preset(endpoint)
    sent = _sent_schema(schema, bounded="bounds" not in form.dropped)
    if form.level == "json_schema":
        strict = {"name": _NAME, "strict": True, "schema": sent}
        return {"response_format": {"type": form.level, "json_schema": strict}}
    if form.level == "json_object":
        schema_form = {"schema": sent} if preset and preset.object_schema else {}
        return {"response_format": {"type": form.level, **schema_form}}
    if form.level == "tool":
        function = {"name": _NAME, "description": "Takes the answer.", "parameters": sent}
        choice = {"type": "function", "function": {"name": _NAME}}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": (preset and preset.forced_call) or choice,
        }
    return {}


def _sent_schema(schema: Json, *, bounded: bool) -> Json:
    """A schema as it is sent: its bounds left out, or one above what is valid.

    A server that enforces them ends a circle there, and what it cut is then too long to be valid.
    """
    if isinstance(schema, list):
        return [_sent_schema(part, bounded=bounded) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value + 1 if key in _BOUND_KEYS else _sent_schema(value, bounded=bounded)
        for key, value in schema.items()
        if bounded or key not in _BOUND_KEYS
    }


def _room_parameters(best: str) -> tuple[str, ...]:
    return (best, *(name for name in ROOM_PARAMETERS if name != best))
