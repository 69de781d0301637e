"""What a model is told in a conversation: the task, the data set, what was said, the mapping now.

The instructions are fixed texts (prompts/chat*.md). All data stands in fences, redacted, cleaned
and cut; the person's words stand behind them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ingot.agent.chat.alternatives import Alternative
from ingot.agent.chat.conversation import MODEL, YOU, Conversation, Saying
from ingot.agent.chat.tree import Branch, tree
from ingot.agent.mappers.question import SMALL, Message, fence, near_paths, told_problem
from ingot.agent.mappers.showing.cleaning import clean, cut
from ingot.agent.mappers.showing.dataset import shown, told
from ingot.agent.mappers.showing.rows import rendered
from ingot.agent.mappers.showing.sizes import Size
from ingot.agent.model.budget import tokens_in
from ingot.agent.prompting import prompt
from ingot.agent.redaction import redact
from ingot.converters.errors import Problem
from ingot.converters.profile import Profile
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

Examples = Sequence[tuple[Json, Json]]

MOST_WORDS = 2000  # characters of what a person says in one turn
_REMEMBERED = 8  # sayings before the last one that a model is told again
_LINE = 300
_EXAMPLE = Size(
    rows=2, head=240, tail=120, elements=4, values=0, paths=0, facts=0, lines=0, roots=0
)
_LANGUAGE = ("Paths", "Values", "Messages", "Rows and records", "House rules", "Meta")
_READING = ("How to read the data block",)


def messages(
    conversation: Conversation,
    words: str,
    source: Source,
    sample: Sample,
    *,
    examples: Examples,
    others: Sequence[Alternative],
) -> list[Message]:
    """What is sent for one turn.

    Args:
        conversation: as it is before the turn.
        words: what the person says.
        source: where the rows come from.
        sample: its rows.
        examples: rows beside the records that the mapping makes of them.
        others: other mappings that could be meant.

    Raises:
        SourceError: the source cannot be read any more.
    """
    order = conversation.order
    share, tokens = order.share_values, order.prompt_tokens
    task = instructions(tokens)
    now = _turn(conversation, words, examples if share != "none" else (), others)
    before = list(_before(conversation.said))
    room = tokens - sum(tokens_in(one) for one in (task, now, *(one[1] for one in before)))
    data = told(
        shown(source, sample),
        share,
        lambda block: tokens_in(_data(block)) <= max(room, tokens // 4),
        small=tokens < SMALL,
    )
    said = [("user", _data(data)), ("assistant", _READY), *before, ("user", now)]
    return [_message("system", task), *(_message(role, text) for role, text in said)]


_READY = '{"say": "I see the data set.", "edits": []}'


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


@cache
def instructions(tokens: int) -> str:
    """The task; with little room without the longer rules of the language."""
    names = (*_LANGUAGE, *_READING) if tokens >= SMALL else ()
    parts = re.split(r"(?m)^# ", prompt("task").text)
    sections = {part.partition("\n")[0]: part for part in parts}
    language = "".join(f"# {sections[name]}" for name in names)
    return prompt("chat").render(language=language).strip() + "\n"


def _data(block: str) -> str:
    return prompt("chat_data").render(fence=fence(block), data=block)


def _before(said: Sequence[Saying]) -> Iterator[tuple[str, str]]:
    """What was said before, in turns of a person and the model."""
    import json

    kept = [one for one in said if one.who in (YOU, MODEL)][-_REMEMBERED:]
    while kept and kept[0].who != YOU:
        kept = kept[1:]
    for one in kept:
        if one.who == YOU:
            yield "user", f"The person says: {safe_words(one.text)}"
        else:
            document = {"say": redact(one.text), "edits": list(one.edits)}
            yield "assistant", json.dumps(document, ensure_ascii=False)


def safe_words(words: str) -> str:
    """What a person said, as it may leave the machine: without secrets, not too long."""
    return cut(clean(redact(words)), MOST_WORDS, 0)


def _turn(
    conversation: Conversation, words: str, examples: Examples, others: Sequence[Alternative]
) -> str:
    data = "\n".join(_state_lines(conversation, examples, others))
    return prompt("chat_turn").render(fence=fence(data), data=data, words=safe_words(words))


def _state_lines(
    conversation: Conversation, examples: Examples, others: Sequence[Alternative]
) -> Iterator[str]:
    state, share = conversation.state, conversation.order.share_values
    proposal, check = state.get("proposal") or {}, state.get("check")
    decision = proposal.get("decision", "none")
    yield f"Mapping ({decision}), made by {conversation.steps[conversation.at].by}:"
    yield from _branches(tree(conversation.mapping, check), 1)
    if check:
        yield f"{check['ok_rows']} of {check['rows']} sampled rows give {check['records']} records."
        yield from (f"Not converted: {name} {count}" for name, count in check["failures"].items())
    for one in state.get("problems", []):
        yield told_problem(Problem(**one), share)
    yield from _why(proposal.get("evidence") or [], proposal.get("reason") or "")
    for number, other in enumerate(others, start=1):
        yield _line(f"Other mapping {number}: {other.title}")
    for row, record in examples:
        yield f"Row: {rendered(row, _EXAMPLE, share)}"
        yield f"Record: {rendered(record, _EXAMPLE, share)}"


def _branches(branches: Sequence[Branch], level: int) -> Iterator[str]:
    for one in branches:
        found = f" (found in {one.found})" if one.found else ""
        yield "  " * level + _line(f"{one.label}: {one.text}".rstrip(": ") + found)
        yield from _branches(one.below, level + 1)


def _why(evidence: Sequence[dict[str, Json]], reason: str) -> Iterator[str]:
    if reason:
        yield _line(f"Why: {reason}")
    for one in evidence:
        other = f"; runner-up {one['runner_up']}" if one["runner_up"] else ""
        yield _line(f"Why {one['target']}: {one['choice']}: {one['why']}{other}")


def _line(text: str) -> str:
    return cut(clean(redact(text)).replace("\n", "\\n"), _LINE, 0)


def again(problems: Sequence[Problem], facts: Profile, *, share: str) -> Message:
    """What was wrong with the last answer's edits.

    Args:
        problems: with pointers into the edits or into the mapping.
        facts: the inventory that was shown.
        share: `none`, `redacted` or `raw`.
    """
    said = [told_problem(one, share) for one in problems]
    data = "\n".join(["Problems:", *said, "", "Paths:", *near_paths(facts, problems, share)])
    return _message("user", prompt("chat_again").render(fence=fence(data), data=data))
