"""Build what a model is sent in a conversation: the task, the data set, the words, the mapping.

Where it may see no values, those of the data that stand in the mapping are numbered.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from ingot.agent.chat.alternatives import Alternative
from ingot.agent.chat.conversation import MODEL, YOU, Conversation, Utterance
from ingot.agent.model.budget import estimate_tokens
from ingot.agent.model.request_form import Message
from ingot.agent.privacy import EMPTY_TEXT, Redactor, Safe, SafeValue
from ingot.agent.privacy.redaction import clean_text, cut_line, cut_middle
from ingot.agent.proposing.llm.data_block import dataset_lines, read_data
from ingot.agent.proposing.llm.inventory import Size, render_value
from ingot.agent.proposing.llm.question import SMALL_TOKENS, fence_line, load_prompt, problem_line
from ingot.agent.reporting.mapping_words import Branch, mapping_branches
from ingot.converters.mapping.language import Condition
from ingot.converters.mapping.walk import rewrite
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample

_TABLES = ("map", "markers", "replace")  # their keys are values of the data


def _withhold_values(name: str, part: object) -> object:
    """Replace names of speakers, markers and values of conditions by numbers."""
    if name in _TABLES and isinstance(part, dict):
        return {f"<value {n}>": one for n, one in enumerate(part.values(), start=1)}
    if isinstance(part, Condition):
        values = tuple(f"<value {n}>" for n, _ in enumerate(part.values, start=1))
        return replace(part, values=values)
    return part


Examples = Sequence[tuple[Json, Json]]
SafeExamples = Sequence[tuple[SafeValue, SafeValue]]

MOST_WORDS = 2000  # characters of what a person says in one turn
_REMEMBERED = 8  # sayings before the last one that a model is told again
_LANGUAGE = ("Paths", "Values", "Messages", "Rows and records")
_DONE = "(done by the program)"
_ROUNDING = 16  # tokens; each message is estimated by itself
_LEAST_DATA = 0.3  # of the room, at least, is for the data set
_BY = {"you": "the person", "model": "you"}


class _Detail(NamedTuple):
    """How much of the mapping is sent: `examples` rows, lines cut at `line`, values at `head`."""

    examples: int
    reasons: int
    others: int
    line: int
    head: int

    def size(self) -> Size:
        """Return how values are cut."""
        none = {"values": 0, "paths": 0, "facts": 0, "lines": 0, "roots": 0}
        return Size(rows=2, head=self.head, tail=self.head // 2, elements=4, words=True, **none)


_DETAILS = (
    _Detail(2, 20, 6, 300, 240),
    _Detail(2, 8, 4, 160, 120),
    _Detail(1, 4, 3, 120, 80),
    _Detail(0, 0, 2, 100, 40),
    _Detail(0, 0, 0, 60, 40),
)


def build_messages(
    conversation: Conversation,
    words: str,
    source: Source,
    sample: Sample,
    *,
    examples: Examples,
    others: Sequence[Alternative],
) -> list[Message]:
    """Build the messages of one turn, as much as `prompt_tokens` of the order leaves room for."""
    order = conversation.order
    share, task = order.share_values, _task_instructions(order.prompt_tokens)
    remaining = order.prompt_tokens - estimate_tokens(task) - estimate_tokens(_READY) - _ROUNDING
    redactor = Redactor.of(share, source, sample)
    before = list(
        _earlier_turns(conversation.said, redactor)
    )  # each: what was said, what was answered
    while before and sum(estimate_tokens(text) for _, text in before) > remaining // 4:
        before = before[2:]
    remaining -= sum(estimate_tokens(text) for _, text in before)
    safe_examples = [
        (redactor.value(row), redactor.value(one)) for row, one in examples if share != "none"
    ]
    current = _current_message(
        conversation, words, safe_examples, others, redactor, int(remaining * (1 - _LEAST_DATA))
    )
    data_tokens = remaining - estimate_tokens(current)
    data = dataset_lines(
        read_data(source, sample),
        share,
        lambda block: estimate_tokens(_data_block(block)) <= data_tokens,
        small=order.prompt_tokens < SMALL_TOKENS,
    )
    turns = [("user", _data_block(data)), ("assistant", _READY), *before, ("user", current)]
    return [{"role": role, "content": text} for role, text in [("system", task), *turns]]


def _current_message(
    conversation: Conversation,
    words: str,
    examples: SafeExamples,
    others: Sequence[Alternative],
    redactor: Redactor,
    max_tokens: int,
) -> Safe:
    message = EMPTY_TEXT
    for detail in _DETAILS:
        data = Safe("\n".join(_state_lines(conversation, examples, others, redactor, detail)))
        message = load_prompt("chat_turn").render(
            fence=fence_line(data), data=data, words=_redact_words(words, redactor)
        )
        if estimate_tokens(message) <= max_tokens:
            break
    return message


_READY = Safe('{"say": "I see the data set.", "edits": []}')


@cache
def _task_instructions(tokens: int) -> Safe:
    """Return the task, with the reference of the language if there is room for it."""
    if tokens < SMALL_TOKENS:
        return load_prompt("chat_small").text
    parts = re.split(r"(?m)^# ", load_prompt("task").text)
    sections = {part.partition("\n")[0]: part for part in parts}
    language = "".join(f"# {sections[name]}" for name in _LANGUAGE)
    return Safe(load_prompt("chat").render(language=Safe(language)).strip() + "\n")


def _data_block(block: Safe) -> Safe:
    return load_prompt("chat_data").render(fence=fence_line(block), data=block)


def _earlier_turns(
    utterances: Sequence[Utterance], redactor: Redactor
) -> Iterator[tuple[str, Safe]]:
    """Yield what was said before, turn by turn; the program answered what was a command."""
    remembered = [one for one in utterances if one.who in (YOU, MODEL)][-_REMEMBERED:]
    for index, one in enumerate(remembered):
        if one.who != YOU:
            continue
        following = remembered[index + 1] if index + 1 < len(remembered) else None
        answer = following if following and following.who == MODEL else None
        document = {
            "say": redactor.text(answer.text) if answer else _DONE,
            "edits": list(answer.edits) if answer else [],
        }
        yield "user", Safe(f"The person says: {_redact_words(one.text, redactor)}")
        yield "assistant", Safe(json.dumps(document, ensure_ascii=False))


def _redact_words(words: str, redactor: Redactor) -> Safe:
    """Return what a person said as it may leave the machine: without secrets, cut."""
    return Safe(cut_middle(clean_text(redactor.text(words)), MOST_WORDS, 0))


def _state_lines(
    conversation: Conversation,
    examples: SafeExamples,
    others: Sequence[Alternative],
    redactor: Redactor,
    detail: _Detail,
) -> Iterator[str]:
    state, share = conversation.state, conversation.order.share_values
    proposal, check = state.get("proposal"), state.get("check")
    author = conversation.steps[conversation.at].by
    decision = proposal.decision if proposal else "none"
    yield f"Mapping ({decision}), made by {_BY.get(author, f'the {author}')}:"
    shown_mapping = conversation.mapping
    if share == "none":
        shown_mapping = rewrite(shown_mapping, _withhold_values)
    yield from _branch_lines(mapping_branches(shown_mapping, check, redactor), 1, detail.line)
    if check:
        yield f"{check.ok_rows} of {check.rows} sampled rows give {check.records} records."
        yield from (f"Not converted: {name} {count}" for name, count in check.failures.items())
    yield from (problem_line(redactor.problem(one), share) for one in state.get("problems", ()))
    yield from _reason_lines(conversation, detail, redactor) if share != "none" else ()
    for number, other in enumerate(others[: detail.others], start=1):
        reason = f": {other.why}" if other.why and share != "none" else ""
        yield cut_line(redactor.text(f"Other mapping {number}: {other.title}{reason}"), detail.line)
    for row, record in examples[: detail.examples]:
        yield f"Row: {render_value(row, detail.size(), share)}"
        yield f"Record: {render_value(record, detail.size(), share)}"


def _branch_lines(branches: Sequence[Branch], level: int, max_chars: int) -> Iterator[str]:
    for one in branches:
        count_text = f" (found in {one.found})" if one.found else ""
        yield (
            "  " * level + cut_line(f"{one.label}: {one.text}".rstrip(": "), max_chars) + count_text
        )
        yield from _branch_lines(one.below, level + 1, max_chars)


def _reason_lines(conversation: Conversation, detail: _Detail, redactor: Redactor) -> Iterator[str]:
    first = conversation.steps[0]
    proposal = first.state.get("proposal")
    evidence = proposal.evidence[: detail.reasons] if proposal else ()
    if proposal and evidence:
        first_said = f"First proposal, by the {first.by}: {proposal.reason}"
        yield cut_line(redactor.text(first_said), detail.line)
    for one in evidence:
        other = f"; runner-up {one.runner_up}" if one.runner_up else ""
        reason = redactor.text(f"Why {one.target}: {one.choice}: {one.why}{other}")
        yield cut_line(reason, detail.line)
