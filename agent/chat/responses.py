"""One turn of a conversation: a line comes in, what it does and what is to be shown goes out."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.chat import model_turn
from ingot.agent.chat.commands import (
    CHANGE,
    COMMANDS,
    CommandSyntaxError,
    ParsedCommand,
    parse_command,
)
from ingot.agent.chat.conversation import INGOT, MODEL, YOU, Conversation, Step, Utterance
from ingot.agent.chat.edits import Edit
from ingot.agent.chat.operations import (
    Alternative,
    change_mapping,
    find_alternatives,
    recheck_conversation,
    refusal_problems,
    replace_mapping,
)
from ingot.agent.context import Context
from ingot.agent.judging.policy import failed_gates
from ingot.agent.model.client import OnText
from ingot.agent.nodes.discover import spec_of_order
from ingot.agent.privacy import redact
from ingot.agent.state import State
from ingot.converters.errors import BudgetReached, MappingError, ModelError, Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What came of a line.

    Attributes:
        conversation: as it is now.
        say: words for the person, "" = none.
        heard: words of a model beside them, which the person may have seen as they came.
        show: what is to be shown: names of `ingot.cli.commands.chat_display.VIEWS`, in order.
        before: the conversation before a change, None where nothing was changed.
        problems: why a change was not made.
        others: other mappings, where they are to be shown.
        number: how many, or which, of what is shown.
        text: what a view is about, or the argument of `do`.
        do: what the door has to do: `convert`, `edit`, `save`, `quit`; "" = nothing.
    """

    conversation: Conversation
    say: str = ""
    heard: str = ""
    show: tuple[str, ...] = ()
    before: Conversation | None = None
    problems: tuple[Problem, ...] = ()
    others: tuple[Alternative, ...] = ()
    number: int = 0
    text: str = ""
    do: str = ""


def respond(
    conversation: Conversation, line: str, context: Context, hear: OnText = lambda _: None
) -> Reply:
    """What a line does: a command is carried out, plain language goes to the model if there is one."""
    words = line.strip()
    if not words:
        return Reply(conversation=conversation)
    try:
        fields = context.fields(conversation.order.source, spec_of_order(conversation.order))
        meant = parse_command(words, conversation.mapping, fields)
    except CommandSyntaxError as error:
        if context.asking is None or words.startswith("/"):
            return _unknown_line_reply(conversation, words, error)
        return _ask_model(conversation, words, context, hear)
    told = _run_command(conversation, words, meant, context)
    if told.problems and context.asking and not words.startswith("/"):
        return _ask_model(conversation, words, context, hear)  # it was plain language after all
    return told


# --- commands


def _run_command(
    conversation: Conversation, words: str, meant: ParsedCommand, context: Context
) -> Reply:
    if meant.name == CHANGE:
        said = conversation.heard(Utterance(who=YOU, text=redact(words)))
        try:
            state = change_mapping(conversation.state, meant.edits, context)
        except MappingError as error:
            return Reply(conversation=said, problems=error.problems)
        return reply_to_change(said, words, state, edits=meant.edits)
    if meant.name in ("undo", "redo"):
        return _move_step(conversation, meant.name, context)
    if meant.name in ("alternatives", "take"):
        return _alternatives_reply(conversation, words, meant, context)
    if meant.name == "ok":
        return _approve_mapping(conversation)
    if meant.name == "out":
        order = replace(conversation.order, out=meant.text)
        settled = replace(conversation, order=order, done="")
        return Reply(conversation=settled, say=f"The result will go to {meant.text}.")
    if meant.name in ("edit", "save", "quit"):
        return Reply(conversation=conversation, do=meant.name, text=meant.text)
    return Reply(
        conversation=conversation, show=(meant.name,), number=meant.number or 0, text=meant.text
    )


def reply_to_change(
    conversation: Conversation,
    words: str,
    state: State,
    *,
    by: str = YOU,
    edits: Sequence[Edit] = (),
) -> Reply:
    """The reply to a change; one that cannot be run or names no field of the data is not made."""
    if problems := refusal_problems(conversation.state, state, edits):
        return Reply(conversation=conversation, problems=problems)
    made = conversation.with_step(Step(words=redact(words), by=by, state=state))
    if made.mapping == conversation.mapping:
        return Reply(conversation=conversation, say="That is what the mapping says already.")
    return Reply(conversation=made, before=conversation, show=("changes",))


def _move_step(conversation: Conversation, name: str, context: Context) -> Reply:
    """At another mapping, tried on the data as it is now: that may have changed since."""
    moved = conversation.moved(-1 if name == "undo" else 1)
    if moved is None:
        where = "first" if name == "undo" else "last"
        return Reply(conversation=conversation, say=f"This is the {where} mapping already.")
    checked = recheck_conversation(moved, context)
    return Reply(conversation=checked, before=conversation, show=("changes",))


def _alternatives_reply(
    conversation: Conversation, words: str, meant: ParsedCommand, context: Context
) -> Reply:
    found = find_alternatives(conversation, context)
    if meant.name == "alternatives":
        say = "" if found else "No other mapping passes on the sample."
        return Reply(conversation=conversation, others=found, show=("alternatives",), say=say)
    number = meant.number or 0
    if number > len(found):
        say = f"There is no alternative {number}; there are {len(found)}: alternatives shows them."
        return Reply(conversation=conversation, say=say)
    state = replace_mapping(conversation.state, found[number - 1].mapping, context)
    return reply_to_change(conversation.heard(Utterance(who=YOU, text=redact(words))), words, state)


def _approve_mapping(conversation: Conversation) -> Reply:
    state = conversation.state
    held = failed_gates(state.get("problems", ()))
    decision = conversation.decision
    if held:
        return Reply(conversation=conversation, say="It does not pass yet:", show=("problems",))
    if decision not in ("pt", "sft", "irrelevant"):
        say = "There is no mapping yet: set text FIELD, or set user FIELD and set assistant FIELD."
        return Reply(conversation=conversation, say=say)
    if not conversation.order.out:
        return Reply(conversation=conversation, say="Where is the result to go? Say: out DIR")
    return Reply(conversation=conversation, do="convert")


# --- plain language


def _ask_model(conversation: Conversation, words: str, context: Context, hear: OnText) -> Reply:
    said = conversation.heard(Utterance(who=YOU, text=redact(words)))
    try:
        answer = model_turn.ask_model(conversation, words, context, hear)
    except (ModelError, BudgetReached) as error:
        usage = count_usage(conversation, context).usage
        hint = f" ({error.hint})" if error.hint else ""
        why = f"The model gave no answer: {redact(error.problem)}{hint}."
        say = f"{why} The short commands work without it: help"
        return Reply(conversation=replace(conversation, usage=usage), say=say)
    said = replace(said, usage=answer.usage)
    if answer.problems:
        kept = said.heard(Utterance(who=MODEL, text="(my edits did not pass and were not made)"))
        say = "The model's edits do not pass on the sample."
        return Reply(conversation=kept, say=say, problems=answer.problems)
    if answer.state is None:
        nothing = "The model said nothing. Say it in other words, or type help."
        kept = said.heard(Utterance(who=MODEL, text=redact(answer.say)))
        return Reply(conversation=kept, heard=answer.say, say="" if answer.say else nothing)
    kept = said.heard(Utterance(who=MODEL, text=redact(answer.say), edits=answer.edits))
    told = reply_to_change(kept, words, answer.state, by=MODEL, edits=answer.edits)
    return replace(told, heard=answer.say)


def count_usage(conversation: Conversation, context: Context) -> Conversation:
    """The conversation with what its last question took, answered or not."""
    return replace(conversation, usage=model_turn.count_spending(conversation.usage, context))


def _unknown_line_reply(conversation: Conversation, words: str, error: CommandSyntaxError) -> Reply:
    """A line that nobody understands, and the command that it may mean."""
    if words.lower().startswith("why"):
        return Reply(conversation=conversation, show=("why",), text=words)
    if error.begins:
        return Reply(conversation=conversation, say=f"{error.why}.")
    first = words.split()[0].lower()
    near = difflib.get_close_matches(first, COMMANDS, 1, cutoff=0.75)
    hint = f"Did you mean: {COMMANDS[near[0]].usage}?" if near else "help lists the commands."
    say = f"No model is configured, so only short commands are understood. {hint}"
    return Reply(conversation=conversation.heard(Utterance(who=INGOT, text=say)), say=say)
