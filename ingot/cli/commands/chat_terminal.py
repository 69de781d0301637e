"""A conversation in a terminal: lines in; mapping as a tree, changes, rows and records out."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ingot.agent.chat.commands import command_usages, complete_word
from ingot.agent.chat.conversation import ChatStore, Conversation
from ingot.agent.chat.operations import (
    compare_targets,
    conclude_conversation,
    convert_conversation,
    difference_lines,
    match_states,
    recheck_conversation,
    replace_mapping,
)
from ingot.agent.chat.responses import Reply, count_usage, reply_to_change, respond
from ingot.agent.context import Context, list_fields
from ingot.agent.judging.policy import gates_of_state
from ingot.agent.proposing.llm.data_block import read_data
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.reporting.mapping_words import Branch, RowCount, mapping_branches, mapping_lines
from ingot.agent.reporting.preview import preview
from ingot.agent.reporting.proposal_folder import save_mapping
from ingot.agent.state import Check
from ingot.cli import display
from ingot.cli.console import is_interactive, plain_text, progress_meter, safe_text, stdout_console
from ingot.cli.questions import edit_mapping, typed_lines
from ingot.converters.errors import IngotError, MappingError, OutputError
from ingot.converters.mapping.bind import read_tree

_PROMPT = "> "


class Talk:
    """A conversation; what a line changes is saved before it is acted on and shown."""

    def __init__(self, conversation: Conversation, chats: ChatStore, context: Context) -> None:
        self._now, self._chats, self._context = conversation, chats, context
        self._console = stdout_console()

    def run(self) -> Conversation:
        """Take turns until the person leaves or the input ends; return the conversation."""
        show_opening(self._console, Reply(conversation=self._now), self._context)
        model = self._context.asking
        invitation = (
            "Say what should be different" if model else "No model is asked: short commands"
        )
        reviewed = self._now.under_review
        endings = "ok or quit returns to the review" if reviewed else "ok converts, quit leaves"
        self._say(f"{invitation}; help lists the commands, {endings}.")
        for line in typed_lines(_PROMPT, self._complete) if sys.stdin.isatty() else _piped_lines():
            if re.search("[\ud800-\udfff]", line):  # bytes that could not be decoded
                self._say("this line is not UTF-8; it is not read", "red")
            elif not self._turn(line):
                break
        if not reviewed:
            self._say(f"To resume: ingot chat --resume {self._now.id}")
        return self._now

    def _complete(self, before: str, word: str) -> list[str]:
        data = self._context.open(self._now.order)
        redactor = data.redactor
        completions = complete_word(before, word, list_fields(data.readings.read(self._now.spec)))
        return [one for one in completions if redactor.text(one) == one == safe_text(one)]

    def _turn(self, line: str) -> bool:
        streamed = _StreamedWords(self._console)
        try:
            reply = respond(self._now, line, self._context, streamed)
            streamed.end()
            self._keep(reply.conversation, anew=reply.do == "convert")
            remaining = "" if reply.heard == streamed.whole else reply.heard
            show_reply(self._console, replace(reply, heard=remaining), self._context)
            self._keep(self._act(reply))
        except KeyboardInterrupt:
            self._say("\ninterrupted; the mapping is as it was, and ok takes a conversion up again")
            self._keep(count_usage(self._now, self._context))
            return True
        except IngotError as error:  # the conversation continues
            if isinstance(error, OutputError) and error.args[0] == self._now.id:
                raise
            self._say(f"error: {error}", "red")
            self._recheck()
            return True
        return reply.do != "quit"

    def _recheck(self) -> None:
        """Try the mapping again on the data, which may have changed; a review does it itself."""
        if self._now.under_review:  # whose context may hold some files of a folder
            return
        self._context.forget()
        try:
            rechecked = recheck_conversation(self._now, self._context)
        except IngotError:  # the data is gone: the mapping is kept, and every turn says so
            return
        self._keep(rechecked)

    def _keep(self, conversation: Conversation, *, anew: bool = False) -> None:
        """Save what is new; with `anew` save always, which detects a second session."""
        if anew or conversation is not self._now:
            self._chats.keep(conversation)
            self._now = conversation

    def _say(self, text: str, style: str = "dim") -> None:
        self._console.print(plain_text(text, style))

    def _act(self, reply: Reply) -> Conversation:
        conversation = reply.conversation
        if reply.do == "convert":
            with progress_meter() as self._context.progress:
                state = convert_conversation(conversation, self._context)
            display.show_outcome(self._console, state["outcome"])
            return conclude_conversation(conversation, state)
        if reply.do == "edit" and is_interactive():
            mapping = edit_mapping(conversation.document)
            state = replace_mapping(conversation.state, read_tree(mapping), self._context)
            changed = reply_to_change(conversation, "edit", state)
            show_reply(self._console, changed, self._context)
            return changed.conversation
        if reply.do == "edit":
            self._say("an editor needs a terminal", "")
        if reply.do == "save":
            self._say(f"written: {save_mapping(conversation.state, Path(reply.text))}", "")
        return conversation


def _piped_lines() -> Iterator[str]:
    for line in sys.stdin:
        typer.echo(f"{_PROMPT}{safe_text(line.rstrip())}")
        yield line


class _StreamedWords:
    def __init__(self, console: Console) -> None:
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


# --- how a reply looks

_TYPES, _VALUES = 24, 60


def show_reply(console: Console, reply: Reply, context: Context) -> None:
    """Show a reply; its words only if they were not printed as they arrived."""
    if reply.heard:
        console.print(plain_text(reply.heard))
    if reply.say:
        console.print(plain_text(reply.say))
    if reply.problems:
        console.print(plain_text("Not changed:", "bold"))
        display.show_problems(console, reply.problems, in_chat=True)
    for name in reply.show:
        VIEWS[name](console, reply, context)


def show_opening(console: Console, reply: Reply, context: Context) -> None:
    """Show the proposal where a conversation starts or resumes."""
    proposal = reply.conversation.state.get("proposal")
    if proposal:
        display.show_summary(console, proposal, reply.conversation.state.get("check"))
    _show_mapping(console, reply, context)
    _show_examples(console, reply, context, most=1)
    _show_problems(console, reply, context)


# --- views


def _show_mapping(console: Console, reply: Reply, context: Context) -> None:
    state = reply.conversation.state
    check = state.get("check")
    branches = mapping_branches(reply.conversation.mapping, check, context.data.redactor)
    decision = reply.conversation.decision
    if not branches:
        console.print(plain_text(f"{decision}: no field is taken"))
        return
    _draw_tree(console, decision, branches)
    _show_sample(console, check)


def _show_sample(console: Console, check: Check | None) -> None:
    if check:
        badge = _count_badge(RowCount(rows=check.ok_rows, of=check.rows))
        records = f" give {check.records:,} records"
        console.print(Text.assemble(("Sample ", "bold"), badge, records))
        display.show_failures(console, check)


def _draw_tree(console: Console, root: str, branches: Iterable[Branch]) -> None:
    """Draw the tree with lines in a terminal, with blanks elsewhere."""
    if console.is_terminal:
        tree = Tree(plain_text(root, "bold"))
        _add_branches(tree, branches)
        console.print(tree)
        return
    console.print(plain_text(root, "bold"))
    _print_indented(console, branches, 1)


def _add_branches(tree: Tree, branches: Iterable[Branch]) -> None:
    for one in branches:
        _add_branches(tree.add(_branch_line(one)), one.below)


def _print_indented(console: Console, branches: Iterable[Branch], level: int) -> None:
    for one in branches:
        console.print(plain_text("  " * level) + _branch_line(one), soft_wrap=True)
        _print_indented(console, one.below, level + 1)


def _branch_line(branch: Branch) -> Text:
    """Return a line such as `part 1  body  200/200 rows`."""
    parts = [plain_text(branch.label, "cyan")]
    if branch.text:
        parts.append(plain_text(branch.text))
    if branch.found:
        parts.append(_count_badge(branch.found))
    return plain_text("  ").join(parts)


def _count_badge(count: RowCount) -> Text:
    """Return a count: green for always, red for never."""
    style = "green" if count.rows == count.of else "yellow" if count.rows else "red"
    return plain_text(str(count), style)


def _show_changes(console: Console, reply: Reply, context: Context) -> None:
    """Show what changed, target by target, and the effect on the records."""
    before, current = reply.before or reply.conversation, reply.conversation
    console.print(plain_text("Changed", "bold"))
    if before.decision == current.decision:
        hide, differs = context.data.redactor.text, compare_targets(before.mapping, current.mapping)
        display.print_grid(console, [[hide(cell) for cell in row] for row in differs])
    else:  # no target is what it was
        branches = mapping_branches(
            current.mapping, current.state.get("check"), context.data.redactor
        )
        _draw_tree(console, f"{before.decision} -> {current.decision}", branches)
    _show_effect(console, reply, context)
    _show_sample(console, reply.conversation.state.get("check"))
    _show_problems(console, reply, context)


def _show_effect(console: Console, reply: Reply, context: Context) -> None:
    """Show how many records change, and the first one before and after."""
    current = reply.conversation
    comparison = match_states(reply.before.state, current.state, context) if reply.before else None
    if comparison is None:
        _show_examples(console, reply, context, most=1)
        return
    counts = {kind: comparison.count(kind) for kind in ("changed", "lost", "gained")}
    nonzero = {kind: count for kind, count in counts.items() if count}
    old, new = (comparison.same + counts["changed"] + counts[kind] for kind in ("lost", "gained"))
    line = f"{comparison.same} of {comparison.of} records are unchanged"
    if old != new:
        line = f"{old:,} -> {new:,} records" + (
            f", {comparison.same:,} unchanged" * (comparison.same > 0)
        )
    elif nonzero:
        line = f"{line}; {display.counts_text(nonzero)}"
    console.print(plain_text(line))
    for one in comparison.differences[:1]:
        row_name = context.data.redactor.text(one.place)
        console.print(plain_text(f"{row_name}, before (-) and after (+)", "bold"))
        _print_marked(
            console, difference_lines(one, context.data.redactors[current.order.share_values])
        )


def _print_marked(console: Console, lines: Iterable[str]) -> None:
    """Print lines with their marks; in a terminal a folded line stays beside its mark."""
    if not console.is_terminal:
        for text in lines:
            console.print(plain_text(text), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for text in lines:
        style = _STYLES.get(text[0], "")
        table.add_row(plain_text(text[0], style), plain_text(text[2:], style))
    console.print(table)


_STYLES = {"-": "red", "+": "green"}


def _show_examples(
    console: Console, reply: Reply, context: Context, *, most: int | None = None
) -> None:
    """Show rows of the sample with the records that the mapping makes of them."""
    state, count = reply.conversation.state, most or reply.number
    check = state.get("check")
    if not state.get("proposal") or not check:
        if most is None:
            console.print(plain_text("The mapping cannot be tried: gates shows what is wrong."))
        return
    try:
        shown = preview(state, context.readings, examples=count)
    except MappingError as error:
        console.print(plain_text(str(error), "red"))
        return
    for number, (row, record) in enumerate(shown.examples, start=1):
        console.print(plain_text(f"Row {number}", "bold"))
        display.show_example(console, row, record)
    if most is None and not shown.examples:
        console.print(plain_text("No sampled row gives a record: gates shows why."))
        display.show_failures(console, check)
    display.show_masking(console, shown)


def _show_problems(console: Console, reply: Reply, context: Context) -> None:
    problems = reply.conversation.state.get("problems", ())
    display.show_problems(console, problems, in_chat=True)


def _show_gates(console: Console, reply: Reply, context: Context) -> None:
    display.show_gates(console, gates_of_state(reply.conversation.state))
    _show_problems(console, reply, context)


def _show_fields(console: Console, reply: Reply, context: Context) -> None:
    """Show the paths of the data: types, number of rows, an example."""
    data = context.readings.read(reply.conversation.spec)
    facts = read_data(data.source, data.sample).through(data.redactor).view.facts
    rows = [("field", "types", "rows", "a value")]
    for one in facts.paths:
        types = "|".join(one.types)[:_TYPES]
        example = next(iter(one.examples), None) or next((str(v) for v, _ in one.values), "")
        example = " ".join(example.split())[:_VALUES]
        rows.append((one.path, types, f"{one.rows}/{facts.rows}", example))
    display.print_grid(console, rows)
    if facts.cut:
        console.print(plain_text(f"{facts.cut:,} more fields"))


def _show_reasons(console: Console, reply: Reply, context: Context) -> None:
    """Show the mapper's reasons, or only those for a named target or field."""
    proposal = reply.conversation.steps[0].state.get("proposal")
    if proposal is None:
        return
    words = reply.text.replace("`", " ").replace("?", " ").split()
    chosen = tuple(one for one in proposal.evidence if _names_asked(one, words))
    display.show_evidence(console, replace(proposal, evidence=chosen or proposal.evidence))


def _names_asked(evidence: Evidence, asked_words: Sequence[str]) -> bool:
    texts = [evidence.target, evidence.choice, evidence.runner_up or ""]
    words = " ".join(texts).replace(",", " ").replace(".", " ").split()
    return any(one in words or one == evidence.target for one in asked_words)


def _show_alternatives(console: Console, reply: Reply, context: Context) -> None:
    for number, one in enumerate(reply.others, start=1):
        redactor = context.data.redactor
        title = f"{one.title}: {one.why}" if one.why else one.title
        console.print(plain_text(f"{number}: {redactor.text(title)}", "bold"))
        display.print_grid(console, [*mapping_lines(one.mapping, redactor)])
    if reply.others:
        console.print(plain_text("To use one of them: take N"))


def _show_help(console: Console, reply: Reply, context: Context) -> None:
    reviewed = reply.conversation.under_review
    display.print_grid(console, list(command_usages(reply.text, under_review=reviewed)))
    if context.asking:
        console.print(
            plain_text("Everything else is read by the model: say what should be different.")
        )


VIEWS = {
    "mapping": _show_mapping,
    "changes": _show_changes,
    "show": _show_examples,
    "fields": _show_fields,
    "gates": _show_gates,
    "problems": _show_problems,
    "why": _show_reasons,
    "alternatives": _show_alternatives,
    "help": _show_help,
}
