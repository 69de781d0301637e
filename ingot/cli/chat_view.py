"""How a conversation looks in a terminal: the mapping as a tree, changes, rows beside records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ingot.cli import show
from ingot.cli.console import plain
from ingot.converters.errors import MappingError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from ingot.agent.chat.talking import Reply
    from ingot.agent.chat.tree import Branch, Found
    from ingot.agent.context import Context
    from ingot.converters.errors import Problem

_TYPES, _VALUES, _MOST_LINES = 24, 60, 24


def reply(console: "Console", told: "Reply", context: "Context") -> None:
    """What a reply shows; its words first, unless they were shown as they came."""
    if told.heard:
        console.print(plain(told.heard))
    if told.say:
        console.print(plain(told.say))
    if told.problems:
        console.print(plain("Not changed:", "bold"))
        for one in told.problems:
            console.print(plain(f"problem: {_said(one)}", "red"))
    for name in told.show:
        VIEWS[name](console, told, context)


def _said(problem: "Problem") -> str:
    """A problem in words; places inside a command mean nothing to people."""
    if problem.code == "edit":
        return f"this needs {problem.expected}; there is {problem.got}"
    return str(problem)


def opening(console: "Console", told: "Reply", context: "Context") -> None:
    """What the mapper proposes, where a conversation begins or goes on."""
    proposal = told.conversation.state.get("proposal")
    if proposal:
        console.print(plain(_redacted(show.summary_line(proposal)), "bold"))
    _mapping(console, told, context)
    _examples(console, told, context, most=1)
    _trouble(console, told)


# --- views


def _mapping(console: "Console", told: "Reply", context: "Context") -> None:
    """The tree, and how many rows give records."""
    from ingot.agent.chat.tree import tree

    state = told.conversation.state
    check = state.get("check")
    branches = tree(told.conversation.mapping, check)
    decision = (state.get("proposal") or {}).get("decision", "no mapping")
    if not branches:
        console.print(plain(f"{decision}: no field is taken"))
        return
    _draw(console, decision, branches)
    _coverage(console, check)


def _coverage(console: "Console", check: Mapping[str, Json] | None) -> None:
    if not check:
        return
    from ingot.agent.chat.tree import Found

    found = Found(rows=check["ok_rows"], of=check["rows"])
    line = plain("")
    line.append("Coverage ", "bold")
    line.append_text(_badge(found))
    line.append(f" give {check['records']:,} records")
    console.print(line)
    show.failures(console, check)


def _draw(console: "Console", root: str, branches: Iterable["Branch"]) -> None:
    """The tree with lines in a terminal, with blanks elsewhere."""
    if console.is_terminal:
        from rich.tree import Tree

        drawn = Tree(plain(root, "bold"))
        _grow(drawn, branches)
        console.print(drawn)
        return
    console.print(plain(root, "bold"))
    _indent(console, branches, 1)


def _grow(drawn: "Tree", branches: Iterable["Branch"]) -> None:
    for one in branches:
        _grow(drawn.add(_line(one)), one.below)


def _indent(console: "Console", branches: Iterable["Branch"], level: int) -> None:
    for one in branches:
        line = plain("  " * level)
        line.append_text(_line(one))
        console.print(line, soft_wrap=True)
        _indent(console, one.below, level + 1)


def _line(branch: "Branch") -> "Text":
    """`part 1  body  200/200 rows`."""
    line = plain("")
    line.append_text(plain(_redacted(branch.label), "cyan"))
    if branch.text:
        line.append("  ")
        line.append_text(plain(_redacted(branch.text)))
    if branch.found:
        line.append("  ")
        line.append_text(_badge(branch.found))
    return line


def _badge(found: "Found") -> "Text":
    """How often something is found: green for always, red for never."""
    style = "green" if found.rows == found.of else "yellow" if found.rows else "red"
    return plain(str(found), style)


def _redacted(text: str) -> str:
    from ingot.agent.redaction import redact

    return redact(text)


def _changes(console: "Console", told: "Reply", context: "Context") -> None:
    """What is different now, target by target, and what that does to the records."""
    from ingot.agent.chat.tree import tree

    before, now = told.before or told.conversation, told.conversation
    console.print(plain("Changed", "bold"))
    if before.decision == now.decision:
        show.grid(console, list(_differences(before.mapping, now.mapping)))
    else:  # no target is what it was
        branches = tree(now.mapping, now.state.get("check"))
        _draw(console, f"{before.decision} -> {now.decision}", branches)
    _effect(console, told, context)
    _coverage(console, told.conversation.state.get("check"))
    _trouble(console, told)


def _differences(old: dict[str, Json], new: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """What differs between two mappings of one kind, in words."""
    from ingot.agent.meaning.changes import changes
    from ingot.agent.meaning.normal import normal

    for one in changes(normal(_stated(old)), normal(_stated(new))):
        was, now = one.old or "nothing", one.new or "nothing"
        yield _redacted(one.target), _redacted(f"{was} -> {now}")


def _stated(mapping: dict[str, Json]) -> dict[str, Json]:
    """The mapping; where nothing is mapped yet, one that says so."""
    bodies = ("text", "messages", "any_of")
    return mapping if any(key in mapping for key in bodies) else {"version": 2, "text": None}


def _effect(console: "Console", told: "Reply", context: "Context") -> None:
    """How many records are others, and the first of them before and after."""
    from ingot.agent.chat.effect import difference_lines, effect

    now = told.conversation
    found = effect(told.before.state, now.state, context) if told.before else None
    if found is None:
        _examples(console, told, context, most=1)
        return
    counts = {kind: found.count(kind) for kind in ("changed", "lost", "gained")}
    said = {kind: count for kind, count in counts.items() if count}
    line = f"{found.same} of {found.of} records are as before"
    console.print(plain(f"{line}; {show.counted(said)}" if said else line))
    for one in found.differences[:1]:
        console.print(plain(f"{_redacted(one.place)}, before (-) and after (+)", "bold"))
        _marked(console, difference_lines(one, now.order, context))


def _marked(console: "Console", lines: Iterable[str]) -> None:
    """Lines with their marks; in a terminal what is folded stays behind its mark."""
    if not console.is_terminal:
        for text in lines:
            console.print(plain(text), soft_wrap=True)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for text in lines:
        style = _STYLES.get(text[0], "")
        table.add_row(plain(text[0], style), plain(text[2:], style))
    console.print(table)


_STYLES = {"-": "red", "+": "green"}


def _examples(
    console: "Console", told: "Reply", context: "Context", *, most: int | None = None
) -> None:
    """Rows of the sample, and below each the record that the mapping makes of it."""
    from ingot.agent.preview import preview, record_lines, row_text

    state, count = told.conversation.state, most or told.number
    if not (state.get("proposal") or {}).get("mapping") or not state.get("check"):
        return
    try:
        seen = preview(state, context, examples=count)
    except MappingError as error:
        console.print(plain(str(error), "red"))
        return
    for number, (row, record) in enumerate(seen.examples, start=1):
        console.print(plain(f"Row {number}", "bold"))
        show.grid(console, [("before", _begun(row_text(row))), *record_lines(record)])


def _begun(text: str) -> str:
    """The first lines; a row may have thousands of fields."""
    lines = text.split("\n")
    left = len(lines) - _MOST_LINES
    return text if left <= 0 else "\n".join([*lines[:_MOST_LINES], f"...(+{left:,} lines)"])


def _trouble(console: "Console", told: "Reply") -> None:
    """Why it cannot be converted as it stands."""
    show.problems(console, told.conversation.state.get("problems", []))


def _problems(console: "Console", told: "Reply", context: "Context") -> None:
    _trouble(console, told)


def _gates(console: "Console", told: "Reply", context: "Context") -> None:
    from ingot.agent.gates import of_state

    show.gates(console, [one.to_json() for one in of_state(told.conversation.state)])
    _trouble(console, told)


def _fields(console: "Console", told: "Reply", context: "Context") -> None:
    """The paths of the data: types, in how many rows, a value."""
    from ingot.agent.mappers.question import inventory
    from ingot.agent.nodes.discover import stated_spec

    order = told.conversation.order
    facts = inventory(*context.drawn(order.source, stated_spec(order)))
    rows = [("field", "types", "rows", "a value")]
    for one in facts.paths:
        types = "|".join(one.types)[:_TYPES]
        example = next(iter(one.examples), None) or next((str(v) for v, _ in one.values), "")
        example = _redacted(" ".join(example.split()))[:_VALUES]
        rows.append((_redacted(one.path), types, f"{one.rows}/{facts.rows}", example))
    show.grid(console, rows)
    if facts.cut:
        console.print(plain(f"{facts.cut:,} more fields"))


def _why(console: "Console", told: "Reply", context: "Context") -> None:
    """Why the mapper chose as it did; of a target or field only what names it."""
    proposal = told.conversation.steps[0].state.get("proposal") or {}
    evidence = proposal.get("evidence") or []
    asked = told.text.replace("`", " ").replace("?", " ").split()
    named = [one for one in evidence if _names(one, asked)]
    told_of = {**proposal, "evidence": named or evidence}
    if proposal:
        show.evidence(console, {**told_of, "reason": _redacted(proposal["reason"])})


def _names(evidence: Mapping[str, Json], asked: Sequence[str]) -> bool:
    texts = [evidence["target"], evidence["choice"], evidence["runner_up"] or ""]
    words = " ".join(texts).replace(",", " ").replace(".", " ").split()
    return any(one in words or one == evidence["target"] for one in asked)


def _alternatives(console: "Console", told: "Reply", context: "Context") -> None:
    from ingot.agent.preview import describe

    for number, one in enumerate(told.others, start=1):
        console.print(plain(f"{number}: {_redacted(one.title)}", "bold"))
        show.grid(console, [[_redacted(cell) for cell in row] for row in describe(one.mapping)])
    if told.others:
        console.print(plain("take N takes one of them"))


def _help(console: "Console", told: "Reply", context: "Context") -> None:
    from ingot.agent.chat.commands import usages

    show.grid(console, list(usages()))
    if context.asking:
        console.print(plain("Everything else is read by the model: say what should be different."))


VIEWS = {
    "mapping": _mapping,
    "changes": _changes,
    "show": _examples,
    "fields": _fields,
    "gates": _gates,
    "problems": _problems,
    "why": _why,
    "alternatives": _alternatives,
    "help": _help,
}
