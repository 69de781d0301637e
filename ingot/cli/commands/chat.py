"""`ingot chat`: agree on the mapping of a data set in a conversation."""

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.agent.model.endpoint import ModelSettings
from ingot.agent.proposing.order import Order
from ingot.cli.command import Only, SettingError, command_options
from ingot.cli.console import print_json, stderr_console, stdout_console
from ingot.cli.display import print_grid
from ingot.cli.model_options import run_context
from ingot.cli.questions import complete_order
from ingot.converters.errors import redact_urls
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.chat.conversation import ChatStore, Conversation
    from ingot.agent.context import Context
    from ingot.agent.state import State

_STAGES = {
    "discover": "Reading a sample of the rows ...",
    "sample": "Proposing a mapping ...",
    "propose": "Trying the mapping on the sample ...",
}


@command_options
def chat(
    *,
    ctx: typer.Context,
    source: Annotated[
        str | None,
        Setting(
            "File, folder, archive, URL or TABLE@VERSION of the raw data.",
            metavar="SOURCE",
            positional=True,
        ),
    ] = None,
    out: Annotated[
        Path | None, Setting("Folder for the result; `out DIR` names it later.", metavar="DIR")
    ] = None,
    resume: Annotated[str | None, Setting("Resume a conversation.", metavar="ID")] = None,
    list_: Annotated[bool, Setting("List the conversations.", flag="list")] = False,
    forget: Annotated[str | None, Setting("Delete a conversation.", metavar="ID")] = None,
    order: Annotated[
        Order,
        Only(
            "mode mapper tokenizer records language "
            "source_name overwrite share_values prompt_tokens",
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
    from ingot.agent.chat.operations import begin_conversation, recheck_conversation
    from ingot.agent.context import state_home
    from ingot.cli.commands.chat_terminal import Talk

    chats = ChatStore(state_home())
    if sum((bool(source), bool(resume), list_, bool(forget))) != 1:
        raise SettingError("say one of: SOURCE, --resume ID, --list, --forget ID", "resume")
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
        known = _load_conversation(chats, resume)
        known = replace(known, order=replace(known.order, **changed), under_review=False)
        conversation = recheck_conversation(known, context)
    else:
        with stderr_console().status("Listing the files ...") as status:  # gone when one types

            def tell_stage(node: str) -> None:
                status.update(_STAGES.get(node, "Inspecting the records ..."))

            conversation = begin_conversation(chats.new_id(), order, context, tell_stage)
        chats.keep(conversation)
    Talk(conversation, chats, context).run()


def discuss_mapping(
    state: "State", context: "Context", order: Order, former: "Conversation | None" = None
) -> "Conversation":
    """Converse about a proposal under review, or go on with a conversation about it.

    Nothing is approved by it. It is kept until its end, so that a process that is killed loses
    nothing: `ingot chat --resume` goes on with it, without the review.
    """
    from ingot.agent.chat.conversation import ChatStore
    from ingot.agent.chat.operations import discuss_state
    from ingot.agent.context import state_home
    from ingot.cli.commands.chat_terminal import Talk

    chats = ChatStore(state_home())
    conversation = former or discuss_state(chats.new_id(), replace(order, out=None), state)
    conversation = replace(conversation, under_review=True)
    chats.keep(conversation)
    ended = Talk(conversation, chats, context).run()
    chats.forget(ended.id)
    return ended


def _list_conversations(chats: "ChatStore", *, as_json: bool) -> None:
    conversations = [replace(one, source=redact_urls(one.source)) for one in chats.listed()]
    if as_json:
        print_json([asdict(one) for one in conversations])
        return
    rows = [
        (one.id, one.state, datetime.fromtimestamp(one.at, UTC).strftime("%F %R"), one.source)
        for one in conversations
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
