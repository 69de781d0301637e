"""A model's part in a conversation: what it says, and the edits that it makes.

Its edits are applied by code and tried on the sample before anybody sees them; what does not pass
goes back to it, at most twice. It sees no rows but those that the person sees too, redacted.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import isfinite

from ingot.agent.chat import prompt
from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.edits import KINDS, Edit
from ingot.agent.chat.operations import change_mapping, find_alternatives, refusal_problems
from ingot.agent.context import Context
from ingot.agent.judging.trial import try_out
from ingot.agent.model import client
from ingot.agent.model.budget import Spent, Usage, estimate_cost, estimate_tokens
from ingot.agent.model.client import OnText
from ingot.agent.model.json_text import JsonObject, PartialString, UnreadableReply, only_object
from ingot.agent.nodes.discover import spec_of_order
from ingot.agent.privacy import redact
from ingot.agent.proposing.llm import question
from ingot.agent.proposing.llm.mapper import MOST_ANSWER_CHARS
from ingot.agent.proposing.llm.model_access import ModelAccess
from ingot.agent.proposing.llm.prompt_files import prompts_hash
from ingot.agent.proposing.llm.reply import (
    complete_message,
    complete_parts,
    schema_fault,
    shorten_value,
)
from ingot.agent.proposing.proposal import MOST_ANSWERS
from ingot.agent.state import State
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

_EXAMPLES = 2
_WHERE = "the model's reply"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
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
    usage: Usage | None


def ask_model(
    conversation: Conversation, words: str, context: Context, hear: OnText
) -> ModelAnswer:
    """One turn of the model."""
    if context.asking is None:
        raise ValueError("nobody to ask")
    asking, order = context.asking, conversation.order
    source, sample = context.source_and_sample(order.source, spec_of_order(order))
    messages = prompt.build_messages(
        conversation,
        words,
        source,
        sample,
        examples=_example_rows(conversation, context),
        others=find_alternatives(conversation, context),
    )
    asking.ledger.open_set(conversation.usage.spent if conversation.usage else Spent())
    _announce(asking, messages)
    facts = question.shown_inventory(source, sample)
    for left in reversed(range(MOST_ANSWERS)):
        completion = _request_completion(asking, messages, hear)
        say, edits, state, problems = _try_reply(completion, conversation, context)
        if not problems:
            break
        hear(None)
        if not left:
            break
        messages += [
            {"role": "assistant", "content": redact(completion.text[:MOST_ANSWER_CHARS])},
            prompt.correction_message(problems, facts, share=order.share_values),
        ]
    usage = count_spending(conversation.usage, context)
    return ModelAnswer(say=say, edits=edits, state=state, problems=problems, usage=usage)


def _announce(asking: ModelAccess, messages: list[question.Message]) -> None:
    tokens = sum(estimate_tokens(one["content"]) for one in messages)
    taken = estimate_cost(tokens, asking.endpoint.max_tokens, MOST_ANSWERS, asking.ledger.price)
    asking.announce(f"asking {asking.endpoint.model} at {asking.endpoint.host}: {taken} a turn")


def _example_rows(conversation: Conversation, context: Context) -> prompt.Examples:
    proposal = conversation.state.get("proposal")
    mapping = proposal.mapping if proposal else None
    if not mapping or not conversation.state.get("check"):
        return ()
    trial = try_out(context, conversation.order, mapping, where="the mapping", show=_EXAMPLES)
    return trial.report.examples


def _request_completion(
    asking: ModelAccess, messages: list[question.Message], hear: OnText
) -> client.Completion:
    following = [PartialString("say")]

    def on_text(delta: str | None) -> None:
        if delta is None:
            following[0] = PartialString("say")
            hear(None)
        elif new := following[0].hear(delta):
            hear(new)

    return client.ask_model(
        asking.endpoint,
        messages,
        json_yaml.schema("chat"),
        store=asking.store,
        ledger=asking.ledger,
        hear=on_text,
    )


def _try_reply(
    completion: client.Completion, conversation: Conversation, context: Context
) -> tuple[str, tuple[Edit, ...], State | None, tuple[Problem, ...]]:
    """What a reply says, and the state that its edits give; problems where they give none."""
    try:
        reply = read_reply(completion.text, cut_off=completion.cut_off)
    except MappingError as error:
        return "", (), None, error.problems
    edits = tuple(reply["edits"])
    if not edits:
        return reply["say"], (), None, ()
    try:
        state = change_mapping(conversation.state, edits, context, provenance=_provenance(context))
    except MappingError as error:
        return reply["say"], (), None, error.problems
    found = state["problems"]
    worse = len(found) > len(conversation.state.get("problems", ()))
    if problems := refusal_problems(conversation.state, state, edits) or (found if worse else ()):
        return reply["say"], (), None, problems
    return reply["say"], edits, state, ()


def _provenance(context: Context) -> JsonObject:
    """Which model changed the mapping, told what; stays with it whatever a person changes then."""
    model = context.asking.endpoint.model if context.asking else ""
    return {"edited_with": {"model": model, "prompt_sha256": prompt_hash()}}


def read_reply(text: str, *, cut_off: bool = False) -> JsonObject:
    """A reply as the schema allows it, nullable keys that were left out filled in."""
    try:
        found, _ = only_object(text, _problem_rank, cut_off=cut_off)
    except UnreadableReply as error:
        problem = Problem("", "not_json", error.expected, shorten_value(error.got))
        raise MappingError(_WHERE, (problem,)) from error
    reply = {"say": "", "edits": [], **_whole_numbers(found)}
    if isinstance(reply["edits"], list):
        reply["edits"] = [_complete_edit(one) for one in reply["edits"]]
    problems = list(_schema_problems(reply))
    if problems:
        raise MappingError(_WHERE, tuple(problems[: question.MOST_PROBLEMS]))
    return reply


def _whole_numbers(value: Json) -> Json:
    """The same with 2 in place of 2.0, as JSON Schema counts; numbers that are none as texts."""
    if isinstance(value, dict):
        return {key: _whole_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(one) for one in value]
    if isinstance(value, float):
        if not isfinite(value) or abs(value) > _MOST_NUMBER:
            return str(value)
        return int(value) if value == int(value) else value
    return str(value) if isinstance(value, int) and abs(value) > _MOST_NUMBER else value


_MOST_NUMBER = 2**53


def _schema_problems(reply: JsonObject) -> Iterator[Problem]:
    """What the schema does not allow; of an edit what its own kind does not allow."""
    from jsonschema import Draft202012Validator

    for error in json_yaml.validator("chat").iter_errors(reply):
        place = list(error.absolute_path)
        if len(place) != len(_AN_EDIT) or error.validator != "anyOf":
            yield schema_fault(error)
            continue
        known = _edit_schema(error.instance)
        if known is None:
            pointer, said = f"/edits/{place[1]}/set", ", ".join(KINDS)
            yield Problem(pointer, "schema", f"one of {said}", shorten_value(error.instance))
            continue
        alone = {**known, "$defs": json_yaml.schema("chat")["$defs"]}
        for fault in Draft202012Validator(alone).iter_errors(error.instance):
            found = schema_fault(fault)
            yield replace(found, pointer=f"/edits/{place[1]}{found.pointer}")


_AN_EDIT = ("edits", 0)


def _edit_schema(edit: Json) -> JsonObject | None:
    """The schema of an edit's kind, None where there is no such kind."""
    branches = json_yaml.schema("chat")["properties"]["edits"]["items"]["anyOf"]
    named = edit.get("set") if isinstance(edit, dict) else None
    return next((one for one in branches if one["properties"]["set"]["enum"] == [named]), None)


def _problem_rank(found: JsonObject) -> int:
    return 2 if "edits" in found else int("say" in found)


def _complete_edit(edit: Json) -> Json:
    """The edit with the keys that may be null, and without null ones that its kind has not."""
    kind = _edit_schema(edit)
    if kind is None:
        return edit
    known = kind["properties"]
    nullable = {"alternative": None, "number": None, "message": None, "path": None}
    made = {key: value for key, value in nullable.items() if key in known}
    said = {key: value for key, value in edit.items() if key in known or value is not None}
    return _complete_messages({**made, **said})


def _complete_messages(edit: JsonObject) -> JsonObject:
    """Messages and parts with their own nullable keys."""
    made = dict(edit)
    if isinstance(made.get("message"), dict):
        made["message"] = complete_message(made["message"])
    if isinstance(made.get("messages"), list):
        made["messages"] = [
            one if isinstance(one, dict) and "current" in one else complete_message(one)
            for one in made["messages"]
        ]
    if "parts" in made:
        made["parts"] = complete_parts(made["parts"]) or []
    return made


def count_spending(before: Usage | None, context: Context) -> Usage | None:
    """What asking took so far in this conversation, as in a graph's state."""
    asking = context.asking
    if asking is None or asking.ledger.data_set.calls < (before.calls if before else 0):
        return before  # nobody was asked since it was taken up again
    return Usage(
        host=asking.endpoint.host,
        model=asking.endpoint.model,
        **asdict(asking.ledger.data_set),
        notes=before.notes if before else (),
    )


def prompt_hash() -> str:
    """Hash of the prompt files behind a conversation."""
    return prompts_hash("chat", "chat_small", "chat_data", "chat_turn", "chat_again")
