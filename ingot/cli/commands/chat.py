"""`ingot chat`: settle the mapping of a data set in conversation."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.agent.model.settings import ModelSettings
from ingot.agent.proposing.order import Order
from ingot.cli import display, questions
from ingot.cli.commands import chat_display
from ingot.cli.console import (
    is_interactive,
    note_line,
    plain_text,
    print_json,
    progress_meter,
    safe_text,
    stdout_console,
)
from ingot.cli.display import print_grid
from ingot.cli.model_options import run_context
from ingot.cli.options import Only, command_options
from ingot.cli.questions import complete_order
from ingot.converters.errors import IngotError, OutputError
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.agent.chat.conversation import ChatStore, Conversation
    from ingot.agent.chat.responses import Reply
    from ingot.agent.state import Context

_PROMPT = "> "
_STAGES = {
    "discover": "looking at the files",
    "sample": "rows drawn",
    "propose": "a mapping proposed",
    "repair": "to be corrected",
    "validate": "tried on the sample",
    "look": "looked at its records",
}


@command_options
def chat(
    *,
    ctx: typer.Context,
    source: Annotated[
        str | None,
        Setting("File, folder, archive or URL of the raw data.", metavar="SOURCE", positional=True),
    ] = None,
    out: Annotated[
        Path | None,
        Setting("Folder for the result; `out DIR` names it later.", metavar="DIR"),
    ] = None,
    resume: Annotated[str | None, Setting("Resume a conversation.", metavar="ID")] = None,
    list_: Annotated[bool, Setting("List the conversations.", flag="list")] = False,
    forget: Annotated[str | None, Setting("Delete a conversation.", metavar="ID")] = None,
    order: Annotated[
        Order,
        Only(
            "mode",
            "mapper",
            "tokenizer",
            "records",
            "language",
            "source_name",
            "overwrite",
            "share_values",
            "prompt_tokens",
            source="",
        ),
    ],
    mapping: Annotated[
        Path | None, Setting("Mapping file to start from, instead of a proposal.", metavar="FILE")
    ] = None,
    llm: ModelSettings,
    as_json: Annotated[bool, Setting("With --list: print JSON.", flag="json")] = False,
) -> None:
    """Agree on a mapping in conversation: say what should be different, look, approve, convert.

    Plain language needs a model; short commands (help lists them) do not. Conversations are saved.
    Lines are read from standard input where that is not a terminal.
    """
    from ingot.agent.chat.conversation import ChatStore
    from ingot.agent.state import state_home

    chats = ChatStore(state_home())
    if sum((bool(source), bool(resume), list_, bool(forget))) != 1:
        raise typer.BadParameter("say one of: SOURCE, --resume ID, --list, --forget ID")
    if list_:
        _refuse_other_options(ctx, "--list", ("list_", "as_json"))
        _list_conversations(chats, as_json=as_json)
        return
    if forget:
        _refuse_other_options(ctx, "--forget", ("forget",))
        chats.forget(_load_conversation(chats, forget).id)
        return
    context = run_context(llm, order.mapper)
    order = complete_order(replace(order, source=source or ""), out=out, mapping=mapping)
    if resume:
        model = [field.name for field in fields(llm)]
        _refuse_other_options(ctx, "--resume", ("resume", "mapper", *_OF_RESUME, *model))
        changed = {name: getattr(order, name) for name in _OF_RESUME if _is_given(ctx, name)}
        conversation = _resume_conversation(chats, resume, changed, context)
    else:
        conversation = _start_conversation(chats, order, context)
    _run_talk(conversation, chats, context, stdout_console())


def _list_conversations(chats: "ChatStore", *, as_json: bool) -> None:
    from dataclasses import asdict
    from datetime import UTC, datetime

    found = chats.listed()
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [
        (one.id, one.state, datetime.fromtimestamp(one.at, UTC).strftime("%F %R"), one.source)
        for one in found
    ]
    if rows:
        print_grid(stdout_console(), [("id", "state", "changed (UTC)", "source"), *rows])
    else:
        typer.echo("no conversations yet: ingot chat SOURCE")


def _load_conversation(chats: "ChatStore", id_: str) -> "Conversation":
    try:
        return chats.load(id_)
    except KeyError as error:
        raise typer.BadParameter(
            f"there is no conversation {id_!r}: see ingot chat --list"
        ) from error


# What a resumed conversation may change, besides how a model is asked.
_OF_RESUME = ("out", "tokenizer", "records", "overwrite", "share_values", "prompt_tokens")


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_other_options(ctx: typer.Context, action: str, names: Iterable[str]) -> None:
    """Refuse options that would have no effect."""
    for one in ctx.command.params:
        if one.name and _is_given(ctx, one.name) and one.name not in names:
            raise typer.BadParameter(f"{one.opts[0]} cannot be used with {action}")


def _resume_conversation(
    chats: "ChatStore", id_: str, changed: dict[str, Any], context: "Context"
) -> "Conversation":
    """Load a saved conversation and try its mapping on the data as it is now."""
    from ingot.agent.chat.operations import recheck_conversation

    conversation = _load_conversation(chats, id_)
    order = replace(conversation.order, **changed)
    return recheck_conversation(replace(conversation, order=order), context)


def _start_conversation(chats: "ChatStore", order: Order, context: "Context") -> "Conversation":
    """Start a conversation and show its stages as they happen."""
    from ingot.agent.chat.operations import begin_conversation

    def tell(node: str) -> None:
        if node in _STAGES:
            note_line(_STAGES[node], "dim")

    conversation = begin_conversation(chats.new_id(), order, context, tell)
    chats.keep(conversation)
    return conversation


def _run_talk(
    conversation: "Conversation", chats: "ChatStore", context: "Context", console: "Console"
) -> None:
    """Take turns until the person leaves or the input ends; save every turn."""
    from ingot.agent.chat.responses import Reply

    chat_display.show_opening(console, Reply(conversation=conversation), context)
    how = "Say what should be different" if context.asking else "No model is asked: short commands"
    console.print(plain_text(f"{how}; help lists the commands, ok converts, quit leaves.", "dim"))
    talk = _TalkLoop(conversation, chats, context, console)
    for line in _input_lines(console):
        if not talk.turn(line):
            break
    console.print(plain_text(f"kept: ingot chat --resume {conversation.id}", "dim"))


class _TalkLoop:
    """A conversation; what a line changes is saved before it is acted on and shown."""

    def __init__(
        self,
        conversation: "Conversation",
        chats: "ChatStore",
        context: "Context",
        console: "Console",
    ) -> None:
        self._now = conversation
        self._chats = chats
        self._context = context
        self._console = console

    def turn(self, line: str) -> bool:
        """Answer one line; False = it was the last one."""
        from ingot.agent.chat.responses import count_usage, respond

        heard = _StreamedWords(self._console)
        try:
            reply = respond(self._now, line, self._context, heard)
            heard.end()
            self._keep(reply.conversation, anew=reply.do == "convert")
            chat_display.show_reply(
                self._console, replace(reply, heard=heard.left(reply.heard)), self._context
            )
            self._keep(_act_on_reply(reply, self._context, self._console))
        except KeyboardInterrupt:
            self._say("\ninterrupted; the mapping is as it was, and ok takes a conversion up again")
            self._keep(count_usage(self._now, self._context))
            return True
        except IngotError as error:  # the conversation continues
            if isinstance(error, OutputError) and error.args[0] == self._now.id:
                raise
            self._say(f"error: {error}", "red")
            self._keep(_recheck_mapping(self._now, self._context))
            return True
        return reply.do != "quit"

    def _keep(self, conversation: "Conversation", *, anew: bool = False) -> None:
        """Save what is new; with `anew` save always, which detects a second session."""
        if anew or conversation is not self._now:
            self._chats.keep(conversation)
            self._now = conversation

    def _say(self, text: str, style: str = "dim") -> None:

        self._console.print(plain_text(text, style))


def _recheck_mapping(conversation: "Conversation", context: "Context") -> "Conversation":
    """Try the mapping again on the data, which may have changed."""
    from ingot.agent.chat.operations import recheck_conversation

    context.forget()
    try:
        return recheck_conversation(conversation, context)
    except IngotError:  # the data is gone: the mapping is kept, and every turn says so
        return conversation


def _input_lines(console: "Console") -> Iterator[str]:
    """Yield what the person types, or the lines of standard input."""
    typed = _terminal_lines() if sys.stdin.isatty() else _piped_lines()
    for line in typed:
        if line.isprintable() or _is_text(line):
            yield line
        else:
            console.print(plain_text("this line is not UTF-8; it is not read", "red"))


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:  # bytes that could not be decoded
        return False
    return True


def _terminal_lines() -> Iterator[str]:
    """Yield typed lines; Ctrl-C discards a line, and leaves on an empty one as Ctrl-D does."""
    import readline

    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.echo()
            if not readline.get_line_buffer():
                return


def _piped_lines() -> Iterator[str]:
    for line in sys.stdin:
        typer.echo(f"{_PROMPT}{safe_text(line.rstrip())}")
        yield line


class _StreamedWords:
    """Prints a model's words as they arrive."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self.whole = ""

    def __call__(self, new: str | None) -> None:

        if new is None:
            if self.whole:
                self._console.print(plain_text(" (withdrawn)", "dim"))
            self.whole = ""
            return
        self.whole += new
        self._console.print(plain_text(new), end="", soft_wrap=True)

    def end(self) -> None:
        """End the line if something was printed."""
        if self.whole:
            self._console.print()

    def left(self, words: str) -> str:
        """Return what was not printed yet."""
        return "" if words == self.whole else words


def _act_on_reply(reply: "Reply", context: "Context", console: "Console") -> "Conversation":
    """Do what a reply asks for and return the conversation after it."""
    acts: dict[str, Callable[[], Conversation]] = {
        "convert": lambda: _convert_mapping(reply.conversation, context, console),
        "edit": lambda: _edit_mapping(reply.conversation, context, console),
        "save": lambda: _save_mapping(reply.conversation, reply.text, console),
    }
    return acts[reply.do]() if reply.do in acts else reply.conversation


def _convert_mapping(
    conversation: "Conversation", context: "Context", console: "Console"
) -> "Conversation":
    from ingot.agent.chat.operations import convert_conversation

    with progress_meter() as context.progress:
        state = convert_conversation(conversation, context)
    display.show_outcome(console, state["outcome"])
    result = state.get("result")
    return replace(conversation, done=result.out if result else "")


def _edit_mapping(
    conversation: "Conversation", context: "Context", console: "Console"
) -> "Conversation":
    """Let the person edit the mapping in their editor."""
    from ingot.agent.chat.operations import replace_mapping
    from ingot.agent.chat.responses import reply_to_change

    if not is_interactive():
        console.print(plain_text("an editor needs a terminal"))
        return conversation
    mapping = questions.edit_mapping(conversation.mapping)
    reply = reply_to_change(
        conversation, "edit", replace_mapping(conversation.state, mapping, context)
    )
    chat_display.show_reply(console, reply, context)
    return reply.conversation


def _save_mapping(conversation: "Conversation", name: str, console: "Console") -> "Conversation":
    """Write the mapping to a file."""
    from ingot.agent.reporting.proposal_folder import proposed_mapping
    from ingot.agent.reporting.report import mapping_bytes
    from ingot.converters.errors import OutputError
    from ingot.converters.output.files import output_errors, write_file

    document, file = proposed_mapping(conversation.state), Path(name)
    if document is None:
        console.print(plain_text("there is no mapping yet"))
        return conversation
    if file.exists():
        raise OutputError(name, "is there already", "choose another name")
    with output_errors(file):
        write_file(file, mapping_bytes(document))
    console.print(plain_text(f"written: {name}"))
    return conversation
