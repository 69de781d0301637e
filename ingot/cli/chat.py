"""`ingot chat`: a data set onboarded in conversation."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.grouped import expands
from ingot.cli.model_options import ModelOptions

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.agent.chat.chats import Chats
    from ingot.agent.chat.conversation import Conversation
    from ingot.agent.chat.talking import Reply
    from ingot.agent.context import Context
    from ingot.agent.state import Order

_PROMPT = "> "
_STAGES = {
    "discover": "looking at the files",
    "sample": "rows drawn",
    "propose": "a mapping proposed",
    "repair": "to be corrected",
    "validate": "tried on the sample",
    "look": "looked at its records",
}


@expands
def chat(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="File, folder, archive or URL of the raw data.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the result; it can be named later too: out DIR.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="ID", help="Go on with a conversation.", show_default=False
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the conversations.")] = False,
    forget: Annotated[
        str | None,
        typer.Option("--forget", metavar="ID", help="Delete a conversation.", show_default=False),
    ] = None,
    mode: o.ModeOption = o.Mode.auto,
    mapper: o.MapperOption = o.Mapper.auto,
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="Begin with this mapping; no mapper is asked for one.",
            show_default=False,
        ),
    ] = None,
    tokenizer: o.TokenizerOption = None,
    records: o.RecordsOption = o.Records.parquet,
    language: o.LanguageOption = None,
    source_name: o.SourceNameOption = None,
    llm: ModelOptions,
    overwrite: o.OverwriteOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: as JSON.")] = False,
) -> None:
    """Settle a mapping in conversation: say what should be different, look, approve, convert.

    Plain language needs a model; short commands (help lists them) need nothing. Conversations are
    kept. Lines are read from standard input where that is no terminal.
    """
    from ingot.agent.chat.chats import Chats
    from ingot.agent.checkpoints import home
    from ingot.agent.state import Order
    from ingot.cli.asking import mapping_file
    from ingot.cli.console import output

    chats = Chats(home())
    if sum((source is not None, resume is not None, list_, forget is not None)) != 1:
        raise typer.BadParameter("say one of: SOURCE, --resume ID, --list, --forget ID")
    if list_:
        _list(chats, as_json=as_json)
        return
    if forget:
        chats.forget(_known(chats, forget).id)
        return
    context = llm.context(mapper)
    console = output()
    if resume:
        conversation = _taken_up(chats, resume, out, context)
    else:
        order = Order(
            source=source or "",
            out=str(out) if out else None,
            mode=mode.value,
            mapper="file" if mapping else mapper.value,
            mapping=mapping_file(mapping) if mapping else None,
            mapping_file=str(mapping) if mapping else None,
            tokenizer=str(tokenizer) if tokenizer else None,
            records=records.value,
            language=language,
            source_name=source_name,
            overwrite=overwrite,
            share_values=llm.share_values.value,
            prompt_tokens=llm.prompt_tokens,
        )
        conversation = _begun(chats, order, context)
    _talk(conversation, chats, context, console)


def _list(chats: "Chats", *, as_json: bool) -> None:
    from dataclasses import asdict
    from datetime import UTC, datetime

    from ingot.cli.console import output, print_json, safe
    from ingot.cli.show import grid

    found = chats.listed()
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [
        (one.id, one.state, datetime.fromtimestamp(one.at, UTC).strftime("%F %R"), one.source)
        for one in found
    ]
    if rows:
        grid(output(), [("id", "state", "changed (UTC)", "source"), *rows])
    else:
        typer.echo(safe("no conversations yet: ingot chat SOURCE"))


def _known(chats: "Chats", id_: str) -> "Conversation":
    try:
        return chats.load(id_)
    except KeyError as error:
        raise typer.BadParameter(f"there is no conversation {id_!r}: see --list") from error


def _taken_up(chats: "Chats", id_: str, out: Path | None, context: "Context") -> "Conversation":
    """A conversation that was kept, its mapping tried on the data as it is now."""
    from ingot.agent.chat.trying import rechecked

    conversation = _known(chats, id_)
    if out is not None:
        order = replace(conversation.order, out=str(out))
        conversation = replace(conversation, order=order)
    return rechecked(conversation, context)


def _begun(chats: "Chats", order: "Order", context: "Context") -> "Conversation":
    """A new conversation; what is done meanwhile is told as it happens."""
    from ingot.agent.chat.trying import begun
    from ingot.cli.console import notes, plain

    def tell(node: str) -> None:
        if node in _STAGES:
            notes().print(plain(_STAGES[node], "dim"))

    conversation = begun(chats.new_id(), order, context, tell)
    chats.keep(conversation)
    return conversation


def _talk(
    conversation: "Conversation", chats: "Chats", context: "Context", console: "Console"
) -> None:
    """Turn after turn until the person leaves or the lines end; each turn is kept."""
    from ingot.agent.chat.talking import Reply, counted, respond
    from ingot.cli import chat_view
    from ingot.cli.console import plain

    chat_view.opening(console, Reply(conversation=conversation), context)
    how = "Say what should be different" if context.asking else "No model is asked: short commands"
    console.print(plain(f"{how}; help lists the commands, ok converts, quit leaves.", "dim"))
    for line in _lines(console):
        heard = _Heard(console)
        try:
            told = respond(conversation, line, context, heard)
        except KeyboardInterrupt:
            console.print(plain("\ninterrupted; nothing was changed"))
            conversation = counted(conversation, context)
            chats.keep(conversation)
            continue
        heard.end()
        told = replace(told, say="") if heard.whole == told.say else told
        chat_view.reply(console, told, context)
        conversation = _acted(told, context, console)
        chats.keep(conversation)
        if told.do == "quit":
            break
    console.print(plain(f"kept: ingot chat --resume {conversation.id}", "dim"))


def _lines(console: "Console") -> Iterator[str]:
    """What the person types; where there is no terminal the lines of standard input, shown too."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - lines can be edited and called up again

        while True:
            try:
                yield input(_PROMPT)
            except (EOFError, KeyboardInterrupt):
                typer.echo()
                return
    for line in sys.stdin:
        typer.echo(f"{_PROMPT}{line.rstrip()}")
        yield line


class _Heard:
    """Shows a model's words as they come."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self.whole = ""

    def __call__(self, new: str | None) -> None:
        from ingot.cli.console import plain

        if new is None:
            if self.whole:
                self._console.print(plain(" (taken back)", "dim"))
            self.whole = ""
            return
        self.whole += new
        self._console.print(plain(new), end="", soft_wrap=True)

    def end(self) -> None:
        """End the line, if something was said."""
        if self.whole:
            self._console.print()


def _acted(told: "Reply", context: "Context", console: "Console") -> "Conversation":
    """The conversation after what the door has to do for a reply."""
    acts: dict[str, Callable[[], Conversation]] = {
        "convert": lambda: _converted(told.conversation, context, console),
        "edit": lambda: _edited(told.conversation, context, console),
        "save": lambda: _saved(told.conversation, told.text, console),
    }
    from ingot.cli.console import plain
    from ingot.converters.errors import IngotError

    if told.do not in acts:
        return told.conversation
    try:
        return acts[told.do]()
    except IngotError as error:  # said, and the conversation goes on
        console.print(plain(f"error: {error}", "red"))
        return told.conversation


def _converted(
    conversation: "Conversation", context: "Context", console: "Console"
) -> "Conversation":
    from ingot.agent.chat.trying import converted
    from ingot.cli import show
    from ingot.cli.console import meter

    with meter() as context.progress:
        state = converted(conversation, context)
    show.outcome(console, state["outcome"])
    return replace(conversation, done=str(state["result"].get("out") or ""))


def _edited(conversation: "Conversation", context: "Context", console: "Console") -> "Conversation":
    """The conversation with the mapping as it comes back from the person's editor."""
    from ingot.agent.chat.talking import after
    from ingot.agent.chat.trying import with_mapping
    from ingot.cli import asking, chat_view
    from ingot.cli.console import interactive, plain

    if not interactive():
        console.print(plain("an editor needs a terminal"))
        return conversation
    answer = asking.edited(conversation.mapping)
    mapping = answer["decisions"][0]["edited_action"]["args"]["mapping"]
    told = after(conversation, "edit", with_mapping(conversation.state, mapping, context))
    chat_view.reply(console, told, context)
    return told.conversation


def _saved(conversation: "Conversation", name: str, console: "Console") -> "Conversation":
    """The mapping as a file.

    Raises:
        OutputError: it is there already, or cannot be written.
    """
    from ingot.agent.report import mapping_bytes
    from ingot.agent.waiting import proposed
    from ingot.cli.console import plain
    from ingot.converters.commit import write_file, writing
    from ingot.converters.errors import OutputError

    document, file = proposed(conversation.state), Path(name)
    if document is None:
        console.print(plain("there is no mapping yet"))
        return conversation
    if file.exists():
        raise OutputError(name, "is there already", "choose another name")
    with writing(file):
        write_file(file, mapping_bytes(document))
    console.print(plain(f"written: {name}"))
    return conversation
