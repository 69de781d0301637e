"""What a model is told in a conversation: the task, the data set, what was said, the mapping now.

The instructions are fixed texts (prompts/chat*.md). All data stands in fences, redacted, cleaned
and cut; the person's words stand behind them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ingot.agent.chat.alternatives import Alternative
from ingot.agent.chat.conversation import MODEL, YOU, Conversation, Saying
from ingot.agent.chat.tree import Branch, tree
from ingot.agent.chat.withheld import without_values
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
_LANGUAGE = ("Paths", "Values", "Messages", "Rows and records")
_DONE = "(done by the program)"
_ROUNDING = 16  # tokens; each message is estimated by itself
_LEAST_DATA = 0.3  # of the room, at least, is for the data set
_BY = {"you": "the person", "model": "you"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Detail:
    """How much is told of the mapping as it stands: `examples` rows, lines cut at `line`."""

    examples: int
    reasons: int
    others: int
    line: int
    size: Size


def _detail(examples: int, reasons: int, others: int, line: int, head: int) -> _Detail:
    size = Size(
        rows=2, head=head, tail=head // 2, elements=4, values=0, paths=0, facts=0, lines=0, roots=0
    )
    return _Detail(examples=examples, reasons=reasons, others=others, line=line, size=size)


_DETAILS = (
    _detail(2, 20, 6, 300, 240),
    _detail(2, 8, 4, 160, 120),
    _detail(1, 4, 3, 120, 80),
    _detail(0, 0, 2, 100, 40),
    _detail(0, 0, 0, 60, 40),
)


def messages(
    conversation: Conversation,
    words: str,
    source: Source,
    sample: Sample,
    *,
    examples: Examples,
    others: Sequence[Alternative],
) -> list[Message]:
    """What is sent for one turn; as much of it as `prompt_tokens` of the order leaves room for.

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
    share, task = order.share_values, instructions(order.prompt_tokens)
    left = order.prompt_tokens - tokens_in(task) - tokens_in(_READY) - _ROUNDING
    before = _fitting(list(_before(conversation.said)), left // 4)
    left -= sum(tokens_in(text) for _, text in before)
    shown_examples = examples if share != "none" else ()
    now = _now(conversation, words, shown_examples, others, int(left * (1 - _LEAST_DATA)))
    room = left - tokens_in(now)
    data = told(
        shown(source, sample),
        share,
        lambda block: tokens_in(_data(block)) <= room,
        small=order.prompt_tokens < SMALL,
    )
    said = [("user", _data(data)), ("assistant", _READY), *before, ("user", now)]
    return [_message("system", task), *(_message(role, text) for role, text in said)]


def _fitting(before: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """The last turns that fit; each is what the person said and what was answered."""
    while before and sum(tokens_in(text) for _, text in before) > room:
        before = before[2:]
    return before


def _now(
    conversation: Conversation,
    words: str,
    examples: Examples,
    others: Sequence[Alternative],
    room: int,
) -> str:
    """The last message, in as much detail as fits."""
    made = ""
    for detail in _DETAILS:
        data = "\n".join(_state_lines(conversation, examples, others, detail))
        made = prompt("chat_turn").render(fence=fence(data), data=data, words=safe_words(words))
        if tokens_in(made) <= room:
            break
    return made


_READY = '{"say": "I see the data set.", "edits": []}'


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


@cache
def instructions(tokens: int) -> str:
    """The task, with the reference of the language where there is room for it."""
    if tokens < SMALL:
        return prompt("chat_small").text
    parts = re.split(r"(?m)^# ", prompt("task").text)
    sections = {part.partition("\n")[0]: part for part in parts}
    language = "".join(f"# {sections[name]}" for name in _LANGUAGE)
    return prompt("chat").render(language=language).strip() + "\n"


def _data(block: str) -> str:
    return prompt("chat_data").render(fence=fence(block), data=block)


def _before(said: Sequence[Saying]) -> Iterator[tuple[str, str]]:
    """What was said before, turn by turn; what was typed as a command was done by the program."""
    kept = [one for one in said if one.who in (YOU, MODEL)][-_REMEMBERED:]
    for place, one in enumerate(kept):
        if one.who != YOU:
            continue
        following = kept[place + 1] if place + 1 < len(kept) else None
        answer = following if following and following.who == MODEL else None
        document = {
            "say": redact(answer.text) if answer else _DONE,
            "edits": list(answer.edits) if answer else [],
        }
        yield "user", f"The person says: {safe_words(one.text)}"
        yield "assistant", json.dumps(document, ensure_ascii=False)


def safe_words(words: str) -> str:
    """What a person said, as it may leave the machine: without secrets, not too long."""
    return cut(clean(redact(words)), MOST_WORDS, 0)


def _state_lines(
    conversation: Conversation,
    examples: Examples,
    others: Sequence[Alternative],
    detail: _Detail,
) -> Iterator[str]:
    state, share = conversation.state, conversation.order.share_values
    proposal, check = state.get("proposal") or {}, state.get("check")
    by = conversation.steps[conversation.at].by
    yield f"Mapping ({proposal.get('decision', 'none')}), made by {_BY.get(by, f'the {by}')}:"
    shown_mapping = conversation.mapping
    if share == "none":
        shown_mapping = without_values(shown_mapping)
    yield from _branches(tree(shown_mapping, check), 1, detail.line)
    if check:
        yield f"{check['ok_rows']} of {check['rows']} sampled rows give {check['records']} records."
        yield from (f"Not converted: {name} {count}" for name, count in check["failures"].items())
    yield from (told_problem(Problem(**one), share) for one in state.get("problems", []))
    yield from _reasons(conversation, detail) if share != "none" else ()
    for number, other in enumerate(others[: detail.others], start=1):
        yield _line(f"Other mapping {number}: {other.title}", detail.line)
    for row, record in examples[: detail.examples]:
        yield f"Row: {rendered(row, detail.size, share)}"
        yield f"Record: {rendered(record, detail.size, share)}"


def _branches(branches: Sequence[Branch], level: int, most: int) -> Iterator[str]:
    for one in branches:
        found = f" (found in {one.found})" if one.found else ""
        yield "  " * level + _line(f"{one.label}: {one.text}".rstrip(": "), most) + found
        yield from _branches(one.below, level + 1, most)


def _reasons(conversation: Conversation, detail: _Detail) -> Iterator[str]:
    """Why the mapper proposed what it did at first."""
    first = conversation.steps[0]
    proposal = first.state.get("proposal") or {}
    evidence = (proposal.get("evidence") or [])[: detail.reasons]
    if evidence:
        yield _line(f"First proposal, by the {first.by}: {proposal['reason']}", detail.line)
    for one in evidence:
        other = f"; runner-up {one['runner_up']}" if one["runner_up"] else ""
        yield _line(f"Why {one['target']}: {one['choice']}: {one['why']}{other}", detail.line)


def _line(text: str, most: int) -> str:
    return cut(clean(redact(text)).replace("\n", "\\n"), most, 0)


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
