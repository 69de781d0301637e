"""What is said to a model: the opening, corrections, the second look; each within its size.

The instructions are fixed texts (prompts/*.md). Data goes into fences that it cannot guess,
after it was redacted, cleaned and cut (`showing`), and is said to be data.
"""

import difflib
import hashlib
import re
from collections.abc import Sequence

from ingot.agent.cards import Card
from ingot.agent.mappers.parts import strings
from ingot.agent.mappers.proposal import Request
from ingot.agent.mappers.rules.beside import tools_beside
from ingot.agent.mappers.rules.table import hits, lies_in
from ingot.agent.mappers.showing.cleaning import clean, cut, shown_path
from ingot.agent.mappers.showing.dataset import Shown, shown, told
from ingot.agent.mappers.showing.rows import rendered
from ingot.agent.mappers.showing.sizes import Size
from ingot.agent.model.budget import tokens_in
from ingot.agent.prompting import prompt, prompts_hash
from ingot.agent.redaction import redact
from ingot.converters import contracts
from ingot.converters.errors import Problem
from ingot.converters.paths import Node, PathSyntaxError
from ingot.converters.profile import Profile
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

Message = dict[str, str]

SMALL = 6000  # tokens under which the short instructions are used
MOST_PROBLEMS = 5
MOST_PATHS = 80
_MOST_CHARS = 400
_LEAST_DATA = 100  # tokens
_MESSAGE = 8  # tokens that servers add to a message
_LOOKED_AT = Size(
    rows=3, head=400, tail=200, elements=6, values=0, paths=0, facts=0, lines=0, roots=0
)
_ROWS_TRIED = 20
_ROWS_OF_GROUP = re.compile(r"^\[(?:\*|-?\d+)\]\.?")
_MODES = {
    "pt": "pt (running text)",
    "sft": "sft (conversations)",
    "auto": "auto (decide between pt and sft by what the data is)",
}


def opening(
    source: Source,
    sample: Sample,
    request: Request,
    *,
    share: str = "redacted",
    tokens: int = 8000,
    card: Card | None = None,
) -> list[Message]:
    """What is sent first: the instructions, and the data set.

    Args:
        source: where the rows come from.
        sample: its rows.
        request: the mode and language that the user asked for; its name is not sent.
        share: `none` (no values), `redacted` or `raw`.
        tokens: the most that both messages may have, as estimated by `tokens_in`.
        card: what is said beside the data, shown as data.

    Raises:
        ValueError: the instructions alone leave no room for data.
        SourceError: the source cannot be read any more.
    """
    task = prompt(_task(tokens)).text

    def question(data: str) -> str:
        language = clean(request.language or "not told")[:20]
        mode = _MODES[request.mode]
        return prompt("question").render(mode=mode, language=language, fence=fence(data), data=data)

    room = tokens - tokens_in(task) - 2 * _MESSAGE
    if room < tokens_in(question("")) + _LEAST_DATA:
        raise ValueError(f"{tokens} tokens: the instructions alone have {tokens_in(task)}")
    data = told(
        shown(source, sample),
        share,
        lambda block: tokens_in(question(block)) <= room,
        small=tokens < SMALL,
        card=card,
    )
    return [_message("system", task), _message("user", question(data))]


def correction(problems: Sequence[Problem], facts: Profile, *, share: str = "redacted") -> Message:
    """What was wrong with the last answer, at most five problems, and the paths that there are.

    Args:
        problems: with pointers into the answer or the mapping it was lowered to.
        facts: the inventory that was shown (`inventory`).
        share: with `none` what was found is left out, since it may be a value.
    """
    said = [told_problem(one, share) for one in problems[:MOST_PROBLEMS]]
    data = "\n".join(["Problems:", *said, "", "Paths:", *near_paths(facts, problems, share)])
    return _message("user", prompt("correction").render(fence=fence(data), data=data))


def near_paths(facts: Profile, problems: Sequence[Problem], share: str) -> list[str]:
    """The paths of the inventory; of many those that are spelt most like what was wrong."""
    paths = [shown_path(one.path) for one in facts.paths]
    if share != "raw":
        paths = [redact(path) for path in paths]
    near = _near(paths, problems)
    more = [f"(+{len(paths) - len(near)} paths)"] if len(paths) > len(near) else []
    return [*near, *more]


def second_look(
    records: Sequence[tuple[Json, Json]], signals: Sequence[str], *, share: str = "redacted"
) -> Message:
    """The question whether records are right, beside the rows they were made of.

    Args:
        records: (row, record), two or three.
        signals: what looks odd about them, in words.
        share: `none`, `redacted` or `raw`.
    """
    parts = []
    for row, record in records:
        parts += [f"Row: {rendered(row, _LOOKED_AT, share)}"]
        parts += [f"Record: {rendered(record, _LOOKED_AT, share)}", ""]
    noticed = [f"- {_told_line(one)}" for one in signals] or ["- nothing"]
    data = "\n".join(["Noticed:", *noticed, "", *parts]).strip()
    return _message("user", prompt("second_look").render(fence=fence(data), data=data))


def template_hash(tokens: int) -> str:
    """Hash of the prompt files and the schema behind a conversation of this size."""
    files = prompts_hash(_task(tokens), "question", "correction", "second_look")
    return hashlib.sha256(files.encode() + contracts.schema_text("llm")).hexdigest()


def inventory(source: Source, sample: Sample) -> Profile:
    """The inventory that `opening` shows: of the rows of the best root, texts of JSON parsed.

    Raises:
        SourceError: the source cannot be read any more.
    """
    return shown(source, sample).view.facts


def completed(document: dict[str, Json], source: Source, sample: Sample) -> dict[str, Json]:
    """A lowered document with the facts that are no matter of judgement.

    Paths of the inventory start at the root that it was taken with, said or not; paths that lead
    into texts of JSON need these fields parsed; tool definitions beside a conversation go with it
    unless the mapping uses them.

    Args:
        document: a version 2 mapping.
        source: where the rows come from.
        sample: its rows.

    Raises:
        SourceError: the source cannot be read any more.
    """
    return with_facts(document, source, sample) | _tools(document, shown(source, sample))


def with_facts(document: dict[str, Json], source: Source, sample: Sample) -> dict[str, Json]:
    """A document with the facts about the files that the paths of the inventory need.

    Args:
        document: a version 2 mapping.
        source: where the rows come from.
        sample: its rows.

    Raises:
        SourceError: the source cannot be read any more.
    """
    one, used = shown(source, sample), _used(document)
    needed = [field for field in one.json_fields if any(lies_in(text, field) for text in used)]
    facts = document.get("source", {}) | ({"json_fields": needed} if needed else {})
    if "root" not in facts and _starts_at_root(one, used, sample):
        facts["root"] = one.root
    return {**document, "source": facts} if facts else document


def _used(document: dict[str, Json]) -> list[str]:
    return [_ROWS_OF_GROUP.sub("", text) for text in strings(document)]


def _starts_at_root(one: Shown, used: Sequence[str], sample: Sample) -> bool:
    """Whether paths are those of the inventory, and none leads into rows read otherwise."""
    if one.root is None or one.root == one.source.spec.root:
        return False
    as_read = [Node(row.value) for row in sample.rows[:_ROWS_TRIED]]
    known = any(one.view.facts.get(text) for text in used)
    return known and not any(_leads_into(text, as_read) for text in used)


def _leads_into(text: str, nodes: Sequence[Node]) -> bool:
    try:
        return any(hits(text, node) for node in nodes)
    except PathSyntaxError:  # a literal, a template
        return False


def _tools(document: dict[str, Json], one: Shown) -> dict[str, Json]:
    outer = document.get("each") or document.get("group") or document.get("tools")
    if outer or not document.get("messages"):
        return {}
    found = tools_beside(one.view)
    path = found["path"] if isinstance(found, dict) else found
    return {} if path is None or path in _used(document) else {"tools": found}


def _task(tokens: int) -> str:
    return "task_small" if tokens < SMALL else "task"


def fence(data: str) -> str:
    """A line that the data cannot hold: it would have to hold its own hash.

    Thus a prompt can be shown before it is sent, and is sent as it was shown.
    """
    return f"===== data {hashlib.sha256(data.encode()).hexdigest()[:32]} ====="


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def told_problem(one: Problem, share: str) -> str:
    """One problem as a line; with `none` what was found is left out, since it may be a value."""
    if share == "none":
        near = f"; nearest: {one.nearest}" if one.nearest else ""
        return f"- {_told_line(f'{one.pointer}: {one.code}: expected {one.expected}{near}')}"
    text = clean(str(one)) if share == "raw" else _told_line(str(one))
    return f"- {cut(text, _MOST_CHARS, 0)}"


def _told_line(text: str) -> str:
    return cut(clean(redact(text)).replace("\n", "\\n"), _MOST_CHARS, 0)


def _near(paths: Sequence[str], problems: Sequence[Problem]) -> list[str]:
    """All paths, or of many those that are spelt most like what was wrong."""
    if len(paths) <= MOST_PATHS:
        return list(paths)
    said = [text for one in problems[:MOST_PROBLEMS] for text in (one.got, one.nearest) if text]
    matcher = difflib.SequenceMatcher(autojunk=False)
    scores: dict[str, float] = dict.fromkeys(paths, 0.0)
    for text in said:
        matcher.set_seq2(text[:200])
        for path in paths:
            matcher.set_seq1(path[:200])
            scores[path] = max(scores[path], matcher.ratio())
    return sorted(paths, key=lambda path: -scores[path])[:MOST_PATHS]
