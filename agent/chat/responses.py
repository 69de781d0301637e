"""Answer one line of a conversation: carry out a command, or ask the model.

A model's edits are applied by code and tried on the sample before anybody sees them; what does not
pass goes back to it, at most twice. It sees no rows but those that the person sees too, redacted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import NamedTuple

from ingot.agent.chat import operations, prompt
from ingot.agent.chat.alternatives import Alternative, find_alternatives
from ingot.agent.chat.commands import CHANGE, CommandSyntaxError, ParsedCommand, parse_command
from ingot.agent.chat.conversation import INGOT, MODEL, YOU, Conversation, Step, Utterance
from ingot.agent.chat.edits import KINDS, Edit
from ingot.agent.chat.suggestions import suggest_commands
from ingot.agent.context import Context, list_fields
from ingot.agent.judging.policy import failed_gates
from ingot.agent.judging.trial import shown_problems, shown_report, try_out
from ingot.agent.model import client
from ingot.agent.model.budget import Spent, Usage, estimate_cost
from ingot.agent.model.client import OnText
from ingot.agent.model.json_text import JsonObject, PartialString, UnreadableReply, only_object
from ingot.agent.model.request_form import Message
from ingot.agent.privacy import Redactor, Safe, SafeProblem, redact
from ingot.agent.proposing.llm import question
from ingot.agent.proposing.llm.data_block import read_data
from ingot.agent.proposing.llm.mapper import MOST_ANSWER_CHARS, ModelAccess
from ingot.agent.proposing.llm.question import prompts_hash
from ingot.agent.proposing.llm.reply import (
    NOT_JSON,
    complete_conditions,
    complete_message,
    complete_parts,
    schema_fault,
    shorten_value,
)
from ingot.agent.proposing.proposal import MOST_ANSWERS
from ingot.agent.state import State
from ingot.converters import json_yaml
from ingot.converters.errors import BudgetReached, MappingError, ModelError, Problem
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The result of a line: the conversation as it is now, words for the person, and what to show.

    Attributes:
        heard: words of a model, which the person may have seen as they came.
        show: names of `ingot.cli.commands.chat_terminal.VIEWS`, in order.
        before: the conversation before a change, None if nothing was changed.
        text: what a view is about, or the argument of `do`.
        do: what the command line has to do: `convert`, `edit`, `save`, `quit`; "" = nothing.
    """

    conversation: Conversation
    say: str = ""
    heard: str = ""
    show: tuple[str, ...] = ()
    before: Conversation | None = None
    problems: tuple[SafeProblem, ...] = ()
    others: tuple[Alternative, ...] = ()
    number: int = 0
    text: str = ""
    do: str = ""


def respond(
    conversation: Conversation, line: str, context: Context, hear: OnText = lambda _: None
) -> Reply:
    """Carry out a command; plain language goes to the model if there is one."""
    words = line.strip()
    if not words:
        return Reply(conversation=conversation)
    try:
        fields = list_fields(context.open(conversation.order).readings.read(conversation.spec))
        command = parse_command(words, conversation.mapping, fields)
    except CommandSyntaxError as error:
        if context.asking is None or words.startswith("/"):
            return _unknown_line_reply(conversation, words, error)
        return _ask_model(conversation, words, context, hear)
    reply = _run_command(conversation, words, command, context)
    if reply.problems and context.asking and not words.startswith("/"):
        return _ask_model(conversation, words, context, hear)  # it was plain language after all
    return reply


# --- commands


def _run_command(
    conversation: Conversation, words: str, command: ParsedCommand, context: Context
) -> Reply:
    if command.name == CHANGE:
        updated = conversation.heard(Utterance(who=YOU, text=redact(words)))
        try:
            state = operations.change_mapping(conversation.state, command.edits, context)
        except MappingError as error:
            return Reply(
                conversation=updated, problems=_safe_problems(error.problems, updated, context)
            )
        return reply_to_change(updated, words, state, edits=command.edits)
    if command.name in ("undo", "redo"):
        moved = conversation.moved(-1 if command.name == "undo" else 1)
        if moved is None:
            end = "first" if command.name == "undo" else "last"
            return Reply(conversation=conversation, say=f"This is the {end} mapping already.")
        checked = operations.recheck_conversation(moved, context)
        return Reply(conversation=checked, before=conversation, show=("changes",))
    if command.name in ("alternatives", "take"):
        return _alternatives_reply(conversation, words, command, context)
    if command.name == "ok":
        return approve_mapping(conversation)
    if command.name == "out":
        return _set_folder(conversation, command.text)
    if command.name in ("edit", "save", "quit"):
        return Reply(conversation=conversation, do=command.name, text=command.text)
    return Reply(
        conversation=conversation,
        show=(command.name,),
        number=command.number or 0,
        text=command.text,
    )


def reply_to_change(
    conversation: Conversation,
    words: str,
    state: State,
    *,
    by: str = YOU,
    edits: Sequence[Edit] = (),
) -> Reply:
    """Reply to a change; one that cannot be run or names no field of the data is refused."""
    if problems := operations.refusal_problems(conversation.state, state, edits):
        return Reply(conversation=conversation, problems=problems)
    changed = conversation.with_step(Step(words=redact(words), by=by, state=state))
    if changed.mapping == conversation.mapping:
        return Reply(conversation=conversation, say="That is what the mapping says already.")
    return Reply(conversation=changed, before=conversation, show=("changes",))


def _other_mappings(conversation: Conversation, context: Context) -> tuple[Alternative, ...]:
    """Find the alternatives to the mapping of a conversation, of all that it began with."""
    state: State = {**conversation.steps[0].state, "order": conversation.order}
    return find_alternatives(state, context, conversation.state.get("proposal"))


def _alternatives_reply(
    conversation: Conversation, words: str, command: ParsedCommand, context: Context
) -> Reply:
    others = _other_mappings(conversation, context)
    if command.name == "alternatives":
        say = "" if others else "No other mapping passes on the sample."
        return Reply(conversation=conversation, others=others, show=("alternatives",), say=say)
    number = command.number or 0
    if number > len(others):
        say = f"There is no alternative {number}; there are {len(others)}: alternatives shows them."
        return Reply(conversation=conversation, say=say)
    mapping = others[number - 1].mapping
    state = operations.replace_mapping(conversation.state, mapping, context)
    return reply_to_change(conversation.heard(Utterance(who=YOU, text=redact(words))), words, state)


def _set_folder(conversation: Conversation, folder: str) -> Reply:
    if conversation.under_review:
        return Reply(conversation=conversation, say="The reviewed command names the folder.")
    order = replace(conversation.order, out=folder)
    changed = replace(conversation, order=order, done="")
    return Reply(conversation=changed, say=f"The result will be written to {folder}.")


def approve_mapping(conversation: Conversation) -> Reply:
    """Reply to a person who approves the mapping: convert by it, or say why it cannot be."""
    if conversation.under_review:  # which shows the gates, and asks
        return Reply(conversation=conversation, do="quit")
    failed = failed_gates(conversation.state.get("problems", ()))
    decision = conversation.decision
    if failed:
        return Reply(conversation=conversation, say="It does not pass yet:", show=("problems",))
    if decision not in ("pt", "sft", "irrelevant"):
        say = "There is no mapping yet: set text FIELD, or set user FIELD and set assistant FIELD."
        return Reply(conversation=conversation, say=say)
    if not conversation.order.out:
        return Reply(conversation=conversation, say="No output folder is set. Type: out DIR")
    return Reply(conversation=conversation, do="convert")


# --- plain language


def _ask_model(conversation: Conversation, words: str, context: Context, hear: OnText) -> Reply:
    updated = conversation.heard(Utterance(who=YOU, text=redact(words)))
    try:
        answer = _ask_in_turns(conversation, words, context, hear)
    except (ModelError, BudgetReached) as error:
        hint = f" ({error.hint})" if error.hint else ""
        problem = f"The model gave no answer: {redact(error.problem)}{hint}."
        say = f"{problem} The short commands work without it: help"
        return Reply(conversation=count_usage(conversation, context), say=say)
    updated = count_usage(updated, context)
    if answer.problems:
        refused = Safe("(my edits did not pass and were not made)")
        answered = updated.heard(Utterance(who=MODEL, text=refused))
        if answer.problems[0].code == NOT_JSON:
            say = (
                "The model's answer was not JSON, so nothing was changed. Ask again, or type help."
            )
            return Reply(conversation=answered, say=say)
        say = "The model's edits do not pass on the sample."
        problems = _safe_problems(answer.problems, updated, context)
        return Reply(conversation=answered, say=say, problems=problems)
    answered = updated.heard(Utterance(who=MODEL, text=redact(answer.say), edits=answer.edits))
    if answer.state is None:
        nothing = "The model's answer was empty. Use other words, or type help."
        return Reply(conversation=answered, heard=answer.say, say="" if answer.say else nothing)
    changed = reply_to_change(answered, words, answer.state, by=MODEL, edits=answer.edits)
    return replace(changed, heard=answer.say)


def _safe_problems(
    problems: Iterable[Problem], conversation: Conversation, context: Context
) -> tuple[SafeProblem, ...]:
    return shown_problems(problems, conversation.mapping, context.data.redactor)


def count_usage(conversation: Conversation, context: Context) -> Conversation:
    """Count what the last question took, answered or not."""
    asking, before = context.asking, conversation.usage
    if asking is None or asking.ledger.data_set.calls < (before.calls if before else 0):
        return conversation  # nobody was asked since it was taken up again
    usage = Usage(
        host=asking.endpoint.host,
        model=asking.endpoint.model,
        **asdict(asking.ledger.data_set),
        notes=before.notes if before else (),
    )
    return replace(conversation, usage=usage)


def _unknown_line_reply(conversation: Conversation, words: str, error: CommandSyntaxError) -> Reply:
    if words.lower().startswith("why"):
        return Reply(conversation=conversation, show=("why",), text=words)
    if error.begins:
        return Reply(conversation=conversation, say=f"{error.why}.")
    reason = _WITHOUT_MODEL.get(conversation.order.mapper, "No model is configured")
    say = redact(f"{reason}, so only short commands are understood. {suggest_commands(words)}")
    updated = conversation.heard(Utterance(who=YOU, text=redact(words)))
    return Reply(conversation=updated.heard(Utterance(who=INGOT, text=say)), say=say)


_WITHOUT_MODEL = {
    "rules": "The mapper is rules and no model is asked",
    "file": "The mapping comes from a file and no model is asked",
}

_EXAMPLES = 2
_WHERE = "the model's reply"
_PROMPTS = ("chat", "chat_small", "chat_data", "chat_turn", "chat_again")


class _ModelAnswer(NamedTuple):
    """The words and edits of the model; `state` is None if it changed nothing."""

    say: str
    edits: tuple[Edit, ...] = ()
    state: State | None = None
    problems: tuple[Problem, ...] = ()


def _ask_in_turns(
    conversation: Conversation, words: str, context: Context, hear: OnText
) -> _ModelAnswer:
    if context.asking is None:
        raise ValueError("nobody to ask")
    access, order = context.asking, conversation.order
    source, sample = context.data.source, context.data.sample
    messages = prompt.build_messages(
        conversation,
        words,
        source,
        sample,
        examples=_example_rows(conversation, context),
        others=_other_mappings(conversation, context),
    )
    access.ledger.open_set(conversation.usage.spent if conversation.usage else Spent())
    endpoint, schema = access.endpoint, json_yaml.schema("chat")
    tokens = client.estimate_question(endpoint, messages, schema, access.store)
    cost = estimate_cost(tokens, endpoint.max_tokens, MOST_ANSWERS, access.ledger.price)
    access.announce(f"asking {endpoint.model} at {endpoint.host}: {cost} a turn")
    redactor = Redactor.of(order.share_values, source, sample)
    for remaining in reversed(range(MOST_ANSWERS)):
        completion = _request_completion(access, messages, hear)
        answer = _try_reply(completion, conversation, context)
        if not answer.problems:
            break
        hear(None)
        if remaining:
            answer_text = redactor.text(completion.text[:MOST_ANSWER_CHARS])
            problems = [*map(redactor.problem, answer.problems)]
            safe_data = read_data(source, sample).through(redactor)
            correction = question.correction_message(problems, safe_data, prompt="chat_again")
            messages += [{"role": "assistant", "content": answer_text}, correction]
    return answer


def _example_rows(conversation: Conversation, context: Context) -> prompt.Examples:
    proposal = conversation.state.get("proposal")
    mapping = proposal.mapping if proposal else None
    if not mapping or not conversation.state.get("check"):
        return ()
    trial = try_out(
        context.readings, conversation.order, mapping, where="the mapping", show=_EXAMPLES
    )
    share = conversation.order.share_values
    return shown_report(conversation.order, trial, show=_EXAMPLES, share=share).examples


def _request_completion(
    asking: ModelAccess, messages: list[Message], hear: OnText
) -> client.Completion:
    following = PartialString("say")

    def on_text(delta: str | None) -> None:
        nonlocal following
        if delta is None:
            following = PartialString("say")
            hear(None)
        elif new := following.hear(delta):
            hear(new)

    schema = json_yaml.schema("chat")
    endpoint, store, ledger = asking.endpoint, asking.store, asking.ledger
    return client.ask_model(endpoint, messages, schema, store=store, ledger=ledger, hear=on_text)


def _try_reply(
    completion: client.Completion, conversation: Conversation, context: Context
) -> _ModelAnswer:
    say, before = "", conversation.state
    provenance = {
        "edited_with": {
            "model": context.asking.endpoint.model if context.asking else "",
            "prompt_sha256": prompts_hash(*_PROMPTS),
        }
    }
    try:
        reply = _read_reply(completion.text, cut_off=completion.cut_off)
        say, edits = reply["say"], tuple(reply["edits"])
        if not edits:
            return _ModelAnswer(say)
        state = operations.change_mapping(before, edits, context, provenance=provenance)
    except MappingError as error:
        return _ModelAnswer(say, problems=error.problems)
    faults = state["problems"]
    worse = len(faults) > len(before.get("problems", ()))
    if problems := operations.refusal_problems(before, state, edits) or (faults if worse else ()):
        return _ModelAnswer(say, problems=problems)
    return _ModelAnswer(say, edits, state)


def _read_reply(text: str, *, cut_off: bool = False) -> JsonObject:
    """Parse a reply as the schema allows it; nullable keys that were left out are filled in."""
    try:
        document, _ = only_object(text, _problem_rank, cut_off=cut_off)
    except UnreadableReply as error:
        problem = Problem("", NOT_JSON, error.expected, shorten_value(error.got))
        raise MappingError(_WHERE, (problem,)) from error
    reply = {"say": "", "edits": [], **json_yaml.map_leaves(document, _whole_number)}
    if isinstance(reply["edits"], list):
        reply["edits"] = [_complete_edit(one) for one in reply["edits"]]
    problems = list(_schema_problems(reply))
    if problems:
        raise MappingError(_WHERE, tuple(problems[: question.MOST_PROBLEMS]))
    return reply


def _whole_number(value: Json) -> Json:
    """Turn 2.0 into 2, as JSON Schema counts, and numbers that are too large into texts."""
    if not isinstance(value, int | float):
        return value
    if not isfinite(value) or abs(value) > _MOST_NUMBER:
        return str(value)
    return int(value) if isinstance(value, float) and value == int(value) else value


_MOST_NUMBER = 2**53


def _schema_problems(reply: JsonObject) -> Iterator[Problem]:
    """Yield what the schema refuses; for an edit, what the schema of its own kind refuses."""
    from jsonschema import Draft202012Validator

    for error in json_yaml.validator("chat").iter_errors(reply):
        path = list(error.absolute_path)
        if len(path) != len(_AN_EDIT) or error.validator != "anyOf":
            yield schema_fault(error)
            continue
        known = _edit_schema(error.instance)
        if known is None:
            pointer, kinds = f"/edits/{path[1]}/set", ", ".join(KINDS)
            yield Problem(pointer, "schema", f"one of {kinds}", shorten_value(error.instance))
            continue
        alone = {**known, "$defs": json_yaml.schema("chat")["$defs"]}
        for fault in Draft202012Validator(alone).iter_errors(error.instance):
            problem = schema_fault(fault)
            yield replace(problem, pointer=f"/edits/{path[1]}{problem.pointer}")


_AN_EDIT = ("edits", 0)


def _edit_schema(edit: Json) -> JsonObject | None:
    branches = json_yaml.schema("chat")["properties"]["edits"]["items"]["anyOf"]
    kind = edit.get("set") if isinstance(edit, dict) else None
    return next((one for one in branches if kind in one["properties"]["set"]["enum"]), None)


def _problem_rank(reply: JsonObject) -> int:
    return 2 if "edits" in reply else int("say" in reply)


def _complete_edit(edit: Json) -> Json:
    """Add nullable keys to an edit, and drop null ones that its kind does not have."""
    kind = _edit_schema(edit)
    if kind is None:
        return edit
    known = kind["properties"]
    nullable = [key for key in ("alternative", "number", "message", "path") if key in known]
    known_members = {key: value for key, value in edit.items() if key in known or value is not None}
    completed = {**dict.fromkeys(nullable), **known_members}
    if isinstance(completed.get("message"), dict):
        completed["message"] = complete_message(completed["message"])
    if isinstance(completed.get("messages"), list):
        completed["messages"] = [
            one if isinstance(one, dict) and "current" in one else complete_message(one)
            for one in completed["messages"]
        ]
    if "parts" in completed:
        completed["parts"] = complete_parts(completed["parts"]) or []
    if "where" in completed:
        completed["where"] = complete_conditions(completed["where"])
    if "value" in completed and completed["set"] == "meta":
        completed["value"] = next(iter(complete_parts(completed["value"]) or []), None)
    return completed
