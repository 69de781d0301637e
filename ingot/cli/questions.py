"""Questions to the person at the terminal, and orders with their mapping files."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ingot.converters.errors import ExitCode, MappingError, OutputError, Problem, SourceError

if TYPE_CHECKING:
    from ingot.agent.chat.conversation import Conversation
    from ingot.agent.context import Context
    from ingot.agent.proposing.proposal import SafeProposal
    from ingot.agent.state import Order, State
    from ingot.converters.rows import MappingDocument

# What opens a conversation about a proposal, and returns how it ended.
Discuss: TypeAlias = Callable[["State", "Context", "Order"], "Conversation"]


def complete_order(
    order: "Order", *, out: Path | str | None = None, mapping: Path | None = None
) -> "Order":
    """Return the order with a destination, and with a mapping file in place of a mapper."""
    from ingot.converters.json_yaml import find_json
    from ingot.converters.mapping.bind import load_mapping, read_changed
    from ingot.converters.output.files import is_store_url

    if out is not None:
        order = replace(order, out=str(out if is_store_url(out) else Path(out)))
    if mapping is None:
        return order
    try:
        given = load_mapping(mapping)
    except MappingError as error:
        if (find_json(Path(order.source)) or {}).get("version") != 2:
            raise
        problem_text = f"no mapping, but {order.source} is one: name the mapping before the data"
        raise MappingError(str(mapping), (Problem("", "unreadable", "", problem_text),)) from error
    options = order.spec  # what they alone state
    if names := options.to_document():
        if given.draft is not None:  # of version 1: no `source` says where records come from
            problem = Problem("/version", "version", f"2, with --{' and --'.join(names)}", "1")
            raise MappingError(str(mapping), (problem,))
        given = read_changed(given, replace(given, source=given.source.with_facts(options)))
    return replace(order, mapper="file", mapping=given, mapping_file=str(mapping))


def ask_person(
    state: "State", context: "Context", discuss: Discuss
) -> tuple[dict[str, object], "State"]:
    """Show the proposal, and the rules' where it differs; ask until the answer is one of those.

    Return the answer, and what a conversation about the proposal has changed of the state besides.
    """
    from ingot.cli.console import note_line
    from ingot.converters.mapping.documents.writer import to_document

    changed: State = {}
    while True:
        second = show_proposal(state, context)
        rules = second and second.mapping
        absent = [] if can_discuss(state) else ["chat"]
        absent += [] if rules else ["rules"]
        answers = [name for name in ("yes", "chat", "edit", "rules", "no") if name not in absent]
        choices = ", ".join(f"[{name[0]}]{name[1:]}" for name in answers).replace("]ules", "]ules'")
        known = {"", *answers, *(name[0] for name in answers)}
        question = f"Convert with this mapping? {choices}: "
        while (answer := read_answer(question).lower().rstrip("'")) not in known:
            note_line(f"{answer!r} is not one of these answers")
        proposal, mapping = state["proposal"], None
        if answer[:1] == "y":
            return {"decisions": [{"type": "approve"}]}, changed
        if answer[:1] in ("n", ""):
            return {"decisions": [{"type": "reject", "message": "not approved"}]}, changed
        if answer[0] == "c":
            talk = discuss(state, context, state["order"])
            changed = {"turn": talk.state["turn"], "usage": talk.usage}
            state = {**state, "usage": talk.usage}
            # Where nothing has changed it is asked again.
            mapping = talk.document if talk.at else None
        elif answer[0] == "r":
            mapping = to_document(rules) if rules else None
        else:
            mapping = edit_mapping(
                to_document(proposal.mapping) if proposal and proposal.mapping else {}
            )
        if mapping is not None:  # shown and asked about again
            action = {"name": "convert", "args": {"mapping": mapping}}
            return {"decisions": [{"type": "edit", "edited_action": action}]}, changed


def can_discuss(state: "State") -> bool:
    """Return whether there can be a conversation about a proposal: on a terminal, about rows."""
    return "turn" in state and sys.stdout.isatty()


def show_proposal(state: "State", context: "Context") -> "SafeProposal | None":
    """Show what a person has to know; return the rules' proposal where it differs."""
    from ingot.agent.judging.policy import gates_of_state
    from ingot.agent.reporting.preview import preview
    from ingot.cli import display
    from ingot.cli.console import plain_text, stderr_console

    console = stderr_console()
    if state["proposal"]:
        display.show_summary(console, state["proposal"], state.get("check"))
    if (source := state.get("source")) and (source.read or source.left_out):
        display.show_files(console, source)
    try:
        display.show_preview(console, preview(state, context.readings))
    except MappingError as error:
        console.print(plain_text(str(error), "red"))
    gates = gates_of_state(state)
    display.show_gates(console, gates)
    for one in gates:
        if one.state == "person":
            why = one.detail or f"{one.figure} (limit: {one.limit})"
            console.print(plain_text(f"for a person: {one.name}: {why}", "yellow"))
    display.show_problems(console, state.get("problems", ()))
    opinion = state.get("opinion")
    if opinion is None or opinion.agrees:
        return None
    display.show_rules_proposal(console, opinion.proposal)
    return opinion.proposal


def places_to_ask() -> dict[str, Callable[[], str | None]]:
    """Return what asks for the source of a run, and for its folder where the source was asked."""
    import typer

    from ingot.cli.console import is_interactive, note_line

    asked_names: list[str] = []

    def ask(name: str) -> str | None:
        if not (is_interactive() and sys.stdout.isatty()) or (name == "out" and not asked_names):
            return None
        asked_names.append(name)
        question, offers = "Folder to create for the result (Return quits): ", dict[str, str]()
        if name == "source":
            question = "Convert which? Type a number, a path or a URL (Return quits): "
            offers = {str(number): one for number, one in enumerate(find_sources(), 1)}
            note_line("Data in this folder:" if offers else "ingot found no data in this folder.")
        for number, source in offers.items():
            note_line(f"{number:>4}  {source}")
        while (answer := read_answer(question)).isdecimal() and offers and answer not in offers:
            note_line(f"{answer} is not one of these numbers")
        if not answer:
            note_line("nothing was chosen, so nothing was converted")
            raise typer.Exit(ExitCode.USAGE)
        return offers.get(answer, answer)

    return {name: partial(ask, name) for name in ("source", "out")}


_MOST_OFFERS = 20


def find_sources() -> list[str]:
    """Return at most 20 files and folders of the current folder that hold data.

    Two levels of folders are looked at, without hidden ones, results of ingot and mappings. A
    folder that is named stands for those below it.
    """
    from ingot.converters.json_yaml import find_json
    from ingot.converters.sources.file_kinds import side_file_reason
    from ingot.converters.sources.source import head_size, inspect_entry
    from ingot.converters.sources.storage import listing

    marks = ("manifest.json", ".ingot-lake/state.sqlite")  # of results; `*` finds no hidden files
    patterns = [f"{'*/' * depth}{name}" for name in ("*", *marks) for depth in range(3)]
    nearby = {f"./{one}" for each in patterns for one in islice(iglob(each), 300)}  # noqa: PTH207
    files = [name for name in nearby if Path(name).is_file()]
    entries = tuple(replace(*listing.list_location(one).entries, name=one) for one in files)
    remaining = listing.drop_own_results(
        listing.Listing(base="", direct=False, entries=entries), "."
    )
    offers: dict[str, None] = {}
    for each in sorted(remaining.entries, key=lambda one: (one.name.count("/"), one.name)):
        entry = replace(each, name=each.name.removeprefix("./"))
        folders = [f"{one}/" for one in listing.enclosing_folders(entry.name)]
        skipped = len(offers) == _MOST_OFFERS or side_file_reason(entry.name)
        if skipped or not offers.keys().isdisjoint(folders):
            continue
        small = entry.bytes < 1 << 20 and entry.name.endswith(".json")
        if small and (find_json(Path(entry.name)) or {}).get("version") == 2:  # a mapping
            continue
        with suppress(SourceError):  # what cannot be read is not offered
            if inspect_entry(entry, direct=False, head=head_size(len(files))).files:
                offers[folders[-1] if folders else entry.name] = None
    return list(offers)


def read_answer(question: str) -> str:
    """Return what the person typed, "" at the end of the input."""
    from ingot.cli.console import plain_text, stderr_console

    try:
        return stderr_console().input(plain_text(question)).strip()
    except EOFError:
        return ""


def typed_lines(prompt: str, complete: Callable[[str, str], list[str]]) -> Iterator[str]:
    """Yield typed lines; Ctrl-C discards a line, and leaves on an empty one as Ctrl-D does."""
    import readline

    while True:
        try:
            with _tab_completion(complete):
                line = input(prompt)
            yield line
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            if not readline.get_line_buffer():
                return


@contextmanager
def _tab_completion(complete: Callable[[str, str], list[str]]) -> Iterator[None]:
    """Have the tab key complete a word: `complete` is given what stands before it, and the word."""
    import readline

    matches: list[str] = []

    def give_match(word: str, number: int) -> str | None:
        if number == 0:
            matches[:] = complete(readline.get_line_buffer()[: readline.get_begidx()], word)
        return matches[number] if number < len(matches) else None

    before, delimiters = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(give_match)
    readline.set_completer_delims(" ,|{=")  # not those that paths have: `turns[*].text`
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)
        readline.set_completer_delims(delimiters)


def edit_mapping(mapping: "MappingDocument") -> "MappingDocument":
    """Return the mapping from the person's editor; an empty file leaves it unchanged."""
    from ingot.converters.json_yaml import json_fault

    text = json.dumps(mapping, ensure_ascii=False, indent=2) + "\n"
    while True:
        text = _open_in_editor(text)
        if not text.strip():
            return mapping
        try:
            document: MappingDocument = json.loads(text)
        except ValueError as error:
            answers = "Return goes back to the editor, q leaves the mapping as it was"
            if read_answer(f"That is not JSON ({json_fault(error)}). {answers}: ").lower() == "q":
                return mapping
        else:
            return document


def _open_in_editor(text: str) -> str:
    """Return the text after $VISUAL or $EDITOR edited it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        file = Path(folder, "mapping.json")
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            hint = "set EDITOR to an editor that waits until the file is closed"
            raise OutputError(editor, "the editor failed", hint) from error
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise OutputError(
                editor, "the file came back in another encoding than UTF-8"
            ) from error
