"""A model's part in a conversation: what it says, and the edits that it makes.

Its edits are applied by code and tried on the sample before anybody sees them; what does not pass
goes back to it, at most twice. It sees no rows but those that the person sees too, redacted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

from ingot.agent.chat import telling
from ingot.agent.chat.alternatives import alternatives
from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.edits import KINDS, Edit
from ingot.agent.chat.trying import changed, refused
from ingot.agent.context import Context
from ingot.agent.mappers import question
from ingot.agent.mappers.asking import Asking
from ingot.agent.mappers.llm import MOST_SAID
from ingot.agent.mappers.reply import (
    completed_message,
    completed_parts,
    schema_problem,
    shortened,
)
from ingot.agent.mappers.spelling import Document, Unreadable, only_object
from ingot.agent.mappers.turn import MOST_ANSWERS
from ingot.agent.model import ladder
from ingot.agent.model.budget import Spent, estimate, tokens_in
from ingot.agent.model.ladder import Hear
from ingot.agent.model.partial import Following
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.prompting import prompts_hash
from ingot.agent.redaction import redact
from ingot.agent.state import State
from ingot.agent.trial import try_out
from ingot.converters import contracts
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

_EXAMPLES = 2
_WHERE = "the model's reply"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of asking.

    Attributes:
        say: its words.
        edits: what it changed.
        state: the state with the edits, None = nothing was changed.
        problems: why its last edits were not made.
        usage: what asking took so far in this conversation.
    """

    say: str
    edits: tuple[Edit, ...]
    state: State | None
    problems: tuple[Problem, ...]
    usage: Document


def ask(conversation: Conversation, words: str, context: Context, hear: Hear) -> Answer:
    """One turn of the model.

    Args:
        conversation: as it is before the turn.
        words: what the person says.
        context: has somebody to ask.
        hear: is told what the model says, as it comes; None = forget it, it begins again.

    Raises:
        ModelError: the endpoint gave no answer.
        BudgetReached: a budget is used up.
        SourceError: the source cannot be read any more.
    """
    if context.asking is None:
        raise ValueError("nobody to ask")
    asking, order = context.asking, conversation.order
    source, sample = context.drawn(order.source, stated_spec(order))
    messages = telling.messages(
        conversation,
        words,
        source,
        sample,
        examples=_examples(conversation, context),
        others=alternatives(conversation, context),
    )
    asking.ledger.open_set(Spent.from_json(conversation.usage))
    _announce(asking, messages)
    facts = question.inventory(source, sample)
    for left in reversed(range(MOST_ANSWERS)):
        completion = _completion(asking, messages, hear)
        say, edits, state, problems = _tried(completion, conversation, context)
        if not problems:
            break
        hear(None)
        if not left:
            break
        messages += [
            {"role": "assistant", "content": redact(completion.text[:MOST_SAID])},
            telling.again(problems, facts, share=order.share_values),
        ]
    usage = spent(conversation.usage, context)
    return Answer(say=say, edits=edits, state=state, problems=problems, usage=usage)


def _announce(asking: Asking, messages: list[question.Message]) -> None:
    tokens = sum(tokens_in(one["content"]) for one in messages)
    taken = estimate(tokens, asking.endpoint.max_tokens, MOST_ANSWERS, asking.ledger.price)
    asking.announce(f"asking {asking.endpoint.model} at {asking.endpoint.host}: {taken} a turn")


def _examples(conversation: Conversation, context: Context) -> telling.Examples:
    mapping = (conversation.state.get("proposal") or {}).get("mapping")
    if not mapping or not conversation.state.get("check"):
        return ()
    trial = try_out(context, conversation.order, mapping, where="the mapping", show=_EXAMPLES)
    return trial.report.examples


def _completion(asking: Asking, messages: list[question.Message], hear: Hear) -> ladder.Completion:
    following = [Following("say")]

    def on_text(delta: str | None) -> None:
        if delta is None:
            following[0] = Following("say")
            hear(None)
        elif new := following[0].hear(delta):
            hear(new)

    return ladder.ask(
        asking.endpoint,
        messages,
        contracts.schema("chat"),
        store=asking.store,
        ledger=asking.ledger,
        hear=on_text,
    )


def _tried(
    completion: ladder.Completion, conversation: Conversation, context: Context
) -> tuple[str, tuple[Edit, ...], State | None, tuple[Problem, ...]]:
    """What a reply says, and the state that its edits give; problems where they give none."""
    try:
        reply = read(completion.text, cut_off=completion.cut_off)
    except MappingError as error:
        return "", (), None, error.problems
    edits = tuple(reply["edits"])
    if not edits:
        return reply["say"], (), None, ()
    try:
        state = changed(conversation.state, edits, context, provenance=_provenance(context))
    except MappingError as error:
        return reply["say"], (), None, error.problems
    found = tuple(Problem(**one) for one in state["problems"])
    worse = len(found) > len(conversation.state.get("problems", []))
    if problems := refused(conversation.state, state, edits) or (found if worse else ()):
        return reply["say"], (), None, problems
    return reply["say"], edits, state, ()


def _provenance(context: Context) -> Document:
    """Which model changed the mapping, told what; stays with it whatever a person changes then."""
    model = context.asking.endpoint.model if context.asking else ""
    return {"edited_with": {"model": model, "prompt_sha256": prompt_hash()}}


def read(text: str, *, cut_off: bool = False) -> Document:
    """A reply as the schema allows it, nullable keys that were left out filled in.

    Raises:
        MappingError: what is wrong with it, for the model.
    """
    try:
        found, _ = only_object(text, _rank, cut_off=cut_off)
    except Unreadable as error:
        problem = Problem("", "not_json", error.expected, shortened(error.got))
        raise MappingError(_WHERE, (problem,)) from error
    reply = {"say": "", "edits": [], **_whole(found)}
    if isinstance(reply["edits"], list):
        reply["edits"] = [_completed(one) for one in reply["edits"]]
    problems = list(_faults(reply))
    if problems:
        raise MappingError(_WHERE, tuple(problems[: question.MOST_PROBLEMS]))
    return reply


def _whole(value: Json) -> Json:
    """The same with 2 in place of 2.0, as JSON Schema counts; numbers that are none as texts."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, float):
        if not isfinite(value) or abs(value) > _MOST_NUMBER:
            return str(value)
        return int(value) if value == int(value) else value
    return str(value) if isinstance(value, int) and abs(value) > _MOST_NUMBER else value


_MOST_NUMBER = 2**53


def _faults(reply: Document) -> Iterator[Problem]:
    """What the schema does not allow; of an edit what its own kind does not allow."""
    from jsonschema import Draft202012Validator

    for error in contracts.validator("chat").iter_errors(reply):
        place = list(error.absolute_path)
        if len(place) != len(_AN_EDIT) or error.validator != "anyOf":
            yield schema_problem(error)
            continue
        known = _kind(error.instance)
        if known is None:
            pointer, said = f"/edits/{place[1]}/set", ", ".join(KINDS)
            yield Problem(pointer, "schema", f"one of {said}", shortened(error.instance))
            continue
        alone = {**known, "$defs": contracts.schema("chat")["$defs"]}
        for fault in Draft202012Validator(alone).iter_errors(error.instance):
            found = schema_problem(fault)
            yield replace(found, pointer=f"/edits/{place[1]}{found.pointer}")


_AN_EDIT = ("edits", 0)


def _kind(edit: Json) -> Document | None:
    """The schema of an edit's kind, None where there is no such kind."""
    branches = contracts.schema("chat")["properties"]["edits"]["items"]["anyOf"]
    named = edit.get("set") if isinstance(edit, dict) else None
    return next((one for one in branches if one["properties"]["set"]["enum"] == [named]), None)


def _rank(found: Document) -> int:
    return 2 if "edits" in found else int("say" in found)


def _completed(edit: Json) -> Json:
    """The edit with the keys that may be null, and without null ones that its kind has not."""
    kind = _kind(edit)
    if kind is None:
        return edit
    known = kind["properties"]
    nullable = {"alternative": None, "number": None, "message": None, "path": None}
    made = {key: value for key, value in nullable.items() if key in known}
    said = {key: value for key, value in edit.items() if key in known or value is not None}
    return _with_messages({**made, **said})


def _with_messages(edit: Document) -> Document:
    """Messages and parts with their own nullable keys."""
    made = dict(edit)
    if isinstance(made.get("message"), dict):
        made["message"] = completed_message(made["message"])
    if isinstance(made.get("messages"), list):
        made["messages"] = [
            one if isinstance(one, dict) and "current" in one else completed_message(one)
            for one in made["messages"]
        ]
    if "parts" in made:
        made["parts"] = completed_parts(made["parts"]) or []
    return made


def spent(before: Document, context: Context) -> Document:
    """What asking took so far in this conversation, as in a graph's state."""
    asking = context.asking
    if asking is None or asking.ledger.data_set.calls < before.get("calls", 0):
        return before  # nobody was asked since it was taken up again
    told = {"host": asking.endpoint.host, "model": asking.endpoint.model}
    notes = {"notes": before["notes"]} if before.get("notes") else {}
    return {**told, **asking.ledger.data_set.to_json(), **notes}


def prompt_hash() -> str:
    """Hash of the prompt files behind a conversation."""
    return prompts_hash("chat", "chat_small", "chat_data", "chat_turn", "chat_again")
