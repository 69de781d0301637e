"""How a conversation looks in a terminal: mapping as a tree, changes, rows and records."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ingot.cli import display
from ingot.cli.console import plain_text
from ingot.converters.errors import MappingError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from ingot.agent.chat.responses import Reply
    from ingot.agent.proposing.proposal import Evidence
    from ingot.agent.reporting.mapping_words import Branch, RowCount
    from ingot.agent.state import Check, Context
    from ingot.converters.errors import Problem

_TYPES, _VALUES, _MOST_LINES = 24, 60, 24


def show_reply(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show a reply; its words only if they were not printed as they arrived."""
    if reply.heard:
        console.print(plain_text(reply.heard))
    if reply.say:
        console.print(plain_text(reply.say))
    if reply.problems:
        console.print(plain_text("Not changed:", "bold"))
        for one in reply.problems:
            console.print(plain_text(f"problem: {_problem_text(one)}", "red"))
    for name in reply.show:
        VIEWS[name](console, reply, context)


def _problem_text(problem: "Problem") -> str:
    """Describe a problem without pointers into commands."""
    if problem.code == "edit":
        return f"this needs {problem.expected}; there is {problem.got}"
    return str(problem)


def show_opening(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show the proposal where a conversation starts or resumes."""
    proposal = reply.conversation.state.get("proposal")
    if proposal:
        console.print(plain_text(_redact_text(display.summary_line(proposal)), "bold"))
    _show_mapping(console, reply, context)
    _show_examples(console, reply, context, most=1)
    _show_trouble(console, reply)


# --- views


def _show_mapping(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show the tree and how many rows give records."""
    from ingot.agent.reporting.mapping_words import mapping_branches

    state = reply.conversation.state
    check = state.get("check")
    branches = mapping_branches(reply.conversation.mapping, check)
    decision = reply.conversation.decision
    if not branches:
        console.print(plain_text(f"{decision}: no field is taken"))
        return
    _draw_tree(console, decision, branches)
    _show_coverage(console, check)


def _show_coverage(console: "Console", check: "Check | None") -> None:
    if not check:
        return
    from ingot.agent.reporting.mapping_words import RowCount

    found = RowCount(rows=check.ok_rows, of=check.rows)
    line = plain_text("")
    line.append("Coverage ", "bold")
    line.append_text(_count_badge(found))
    line.append(f" give {check.records:,} records")
    console.print(line)
    display.show_failures(console, check)


def _draw_tree(console: "Console", root: str, branches: Iterable["Branch"]) -> None:
    """Draw the tree with lines in a terminal, with blanks elsewhere."""
    if console.is_terminal:
        from rich.tree import Tree

        drawn = Tree(plain_text(root, "bold"))
        _add_branches(drawn, branches)
        console.print(drawn)
        return
    console.print(plain_text(root, "bold"))
    _print_indented(console, branches, 1)


def _add_branches(drawn: "Tree", branches: Iterable["Branch"]) -> None:
    for one in branches:
        _add_branches(drawn.add(_branch_line(one)), one.below)


def _print_indented(console: "Console", branches: Iterable["Branch"], level: int) -> None:
    for one in branches:
        line = plain_text("  " * level)
        line.append_text(_branch_line(one))
        console.print(line, soft_wrap=True)
        _print_indented(console, one.below, level + 1)


def _branch_line(branch: "Branch") -> "Text":
    """Return a line such as `part 1  body  200/200 rows`."""
    line = plain_text("")
    line.append_text(plain_text(_redact_text(branch.label), "cyan"))
    if branch.text:
        line.append("  ")
        line.append_text(plain_text(_redact_text(branch.text)))
    if branch.found:
        line.append("  ")
        line.append_text(_count_badge(branch.found))
    return line


def _count_badge(found: "RowCount") -> "Text":
    """Return a count: green for always, red for never."""
    style = "green" if found.rows == found.of else "yellow" if found.rows else "red"
    return plain_text(str(found), style)


def _redact_text(text: str) -> str:
    from ingot.agent.privacy import redact

    return redact(text)


def _show_changes(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show what changed, target by target, and the effect on the records."""
    from ingot.agent.reporting.mapping_words import mapping_branches

    before, now = reply.before or reply.conversation, reply.conversation
    console.print(plain_text("Changed", "bold"))
    if before.decision == now.decision:
        display.print_grid(console, list(_difference_rows(before.mapping, now.mapping)))
    else:  # no target is what it was
        branches = mapping_branches(now.mapping, now.state.get("check"))
        _draw_tree(console, f"{before.decision} -> {now.decision}", branches)
    _show_effect(console, reply, context)
    _show_coverage(console, reply.conversation.state.get("check"))
    _show_trouble(console, reply)


def _difference_rows(old: dict[str, Json], new: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the differences between two mappings of one kind in words."""
    from ingot.agent.review.diff.mapping_changes import compare_mappings
    from ingot.agent.review.diff.normal_form import normal_form

    for one in compare_mappings(
        normal_form(_stated_mapping(old)), normal_form(_stated_mapping(new))
    ):
        was, now = one.old or "nothing", one.new or "nothing"
        yield _redact_text(one.target), _redact_text(f"{was} -> {now}")


def _stated_mapping(mapping: dict[str, Json]) -> dict[str, Json]:
    """Return the mapping, or one that maps nothing."""
    bodies = ("text", "messages", "any_of")
    return mapping if any(key in mapping for key in bodies) else {"version": 2, "text": None}


def _show_effect(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show how many records change, and the first one before and after."""
    from ingot.agent.chat.operations import difference_lines, match_states

    now = reply.conversation
    found = match_states(reply.before.state, now.state, context) if reply.before else None
    if found is None:
        _show_examples(console, reply, context, most=1)
        return
    counts = {kind: found.count(kind) for kind in ("changed", "lost", "gained")}
    nonzero = {kind: count for kind, count in counts.items() if count}
    line = f"{found.same} of {found.of} records are as before"
    console.print(plain_text(f"{line}; {display.counts_text(nonzero)}" if nonzero else line))
    for one in found.differences[:1]:
        console.print(plain_text(f"{_redact_text(one.place)}, before (-) and after (+)", "bold"))
        _print_marked(console, difference_lines(one, now.order, context))


def _print_marked(console: "Console", lines: Iterable[str]) -> None:
    """Print lines with their marks; in a terminal a folded line stays beside its mark."""
    if not console.is_terminal:
        for text in lines:
            console.print(plain_text(text), soft_wrap=True)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for text in lines:
        style = _STYLES.get(text[0], "")
        table.add_row(plain_text(text[0], style), plain_text(text[2:], style))
    console.print(table)


_STYLES = {"-": "red", "+": "green"}


def _show_examples(
    console: "Console", reply: "Reply", context: "Context", *, most: int | None = None
) -> None:
    """Show rows of the sample with the records that the mapping makes of them."""
    from ingot.agent.reporting.preview import preview, raw_row_text, record_lines

    state, count = reply.conversation.state, most or reply.number
    if not state.get("proposal") or not state.get("check"):
        return
    try:
        seen = preview(state, context, examples=count)
    except MappingError as error:
        console.print(plain_text(str(error), "red"))
        return
    for number, (row, record) in enumerate(seen.examples, start=1):
        console.print(plain_text(f"Row {number}", "bold"))
        display.print_grid(
            console, [("before", _cut_lines(raw_row_text(row))), *record_lines(record)]
        )


def _cut_lines(text: str) -> str:
    """Return the first lines; a row may have thousands of fields."""
    lines = text.split("\n")
    left = len(lines) - _MOST_LINES
    return text if left <= 0 else "\n".join([*lines[:_MOST_LINES], f"...(+{left:,} lines)"])


def _show_trouble(console: "Console", reply: "Reply") -> None:
    display.show_problems(console, reply.conversation.state.get("problems", ()))


def _show_problems(console: "Console", reply: "Reply", context: "Context") -> None:
    _show_trouble(console, reply)


def _show_gates(console: "Console", reply: "Reply", context: "Context") -> None:
    from ingot.agent.judging.policy import gates_of_state

    display.show_gates(console, gates_of_state(reply.conversation.state))
    _show_trouble(console, reply)


def _show_fields(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show the paths of the data: types, number of rows, an example."""
    from ingot.agent.nodes.discover import spec_of_order
    from ingot.agent.proposing.llm.question import shown_inventory

    order = reply.conversation.order
    facts = shown_inventory(*context.source_and_sample(order.source, spec_of_order(order)))
    rows = [("field", "types", "rows", "a value")]
    for one in facts.paths:
        types = "|".join(one.types)[:_TYPES]
        example = next(iter(one.examples), None) or next((str(v) for v, _ in one.values), "")
        example = _redact_text(" ".join(example.split()))[:_VALUES]
        rows.append((_redact_text(one.path), types, f"{one.rows}/{facts.rows}", example))
    display.print_grid(console, rows)
    if facts.cut:
        console.print(plain_text(f"{facts.cut:,} more fields"))


def _show_reasons(console: "Console", reply: "Reply", context: "Context") -> None:
    """Show the mapper's reasons, or only those for a named target or field."""
    proposal = reply.conversation.steps[0].state.get("proposal")
    if proposal is None:
        return
    asked = reply.text.replace("`", " ").replace("?", " ").split()
    named = tuple(one for one in proposal.evidence if _names_asked(one, asked))
    shown = replace(
        proposal, evidence=named or proposal.evidence, reason=_redact_text(proposal.reason)
    )
    display.show_evidence(console, shown)


def _names_asked(evidence: "Evidence", asked: Sequence[str]) -> bool:
    texts = [evidence.target, evidence.choice, evidence.runner_up or ""]
    words = " ".join(texts).replace(",", " ").replace(".", " ").split()
    return any(one in words or one == evidence.target for one in asked)


def _show_alternatives(console: "Console", reply: "Reply", context: "Context") -> None:
    from ingot.agent.reporting.mapping_words import describe

    for number, one in enumerate(reply.others, start=1):
        console.print(plain_text(f"{number}: {_redact_text(one.title)}", "bold"))
        display.print_grid(
            console, [[_redact_text(cell) for cell in row] for row in describe(one.mapping)]
        )
    if reply.others:
        console.print(plain_text("take N takes one of them"))


def _show_help(console: "Console", reply: "Reply", context: "Context") -> None:
    from ingot.agent.chat.commands import command_usages

    display.print_grid(console, list(command_usages()))
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
