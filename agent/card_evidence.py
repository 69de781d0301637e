"""What a card says beside what the rows show: agrees or contradicts. For people only."""

import re
from collections.abc import Iterator, Sequence

from ingot.agent.cards import Card
from ingot.agent.mappers.proposal import Evidence, Proposal
from ingot.converters.rows import Json

_MOST_NAMED = 5
_NAME = re.compile(r"[^.\[\]'\"]+")
# The tasks of the Hugging Face Hub that leave no choice.
_DECISIONS = {
    "question-answering": "sft",
    "table-question-answering": "sft",
    "closed-domain-qa": "sft",
    "open-domain-qa": "sft",
    "extractive-qa": "sft",
    "conversational": "sft",
    "dialogue-generation": "sft",
    "dialogue-modeling": "sft",
    "instruction-tuning": "sft",
    "summarization": "sft",
    "text2text-generation": "sft",
    "translation": "sft",
    "fill-mask": "pt",
    "language-modeling": "pt",
    "masked-language-modeling": "pt",
}


def evidence(card: Card, proposal: Proposal, fields: Sequence[str]) -> tuple[Evidence, ...]:
    """The lines that a card adds to the evidence of a proposal.

    Args:
        card: what is said beside the data.
        proposal: what was proposed without it, or with it as one piece of data among others.
        fields: paths of the sampled rows.
    """
    found = (*_language(card, proposal), *_task(card, proposal), *_fields(card, fields))
    return tuple(_line(card, agrees, why) for agrees, why in found)


def _line(card: Card, agrees: bool, why: str) -> Evidence:
    choice = "agrees" if agrees else "contradicts"
    return Evidence(target="card", choice=choice, why=f"{card.file} says {why}: {choice}")


def _language(card: Card, proposal: Proposal) -> Iterator[tuple[bool, str]]:
    found = read_as(proposal)
    if card.languages and found:
        named = _named("language", card.languages)
        several = len(card.languages) > 1
        agrees = several if found == "mix" else card.languages == (found,)
        alone = " alone" if several and found in card.languages else ""
        yield agrees, f"{named}; the texts are read as {found}{alone}"


def read_as(proposal: Proposal) -> str | None:
    """The one language that a proposal states for all texts, None where it states none."""
    meta = (proposal.mapping or {}).get("meta")
    told: Json = meta.get("language") if isinstance(meta, dict) else None
    stated = told.get("literal") if isinstance(told, dict) else None
    found = stated or proposal.detected.get("language")
    return found if isinstance(found, str) else None


def _task(card: Card, proposal: Proposal) -> Iterator[tuple[bool, str]]:
    meant = {_DECISIONS[one] for one in card.tasks if one in _DECISIONS}
    if len(meant) == 1 and proposal.decision != "unmappable":
        named = _named("task", [one for one in card.tasks if one in _DECISIONS])
        yield proposal.decision in meant, f"{named}; the rows are read as {proposal.decision}"


def _fields(card: Card, fields: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Whether the fields that are described are there; further ones in the rows are no matter."""
    from ingot.agent.mappers.rules.names import spelled  # brings all rules along

    if not card.fields or not fields:
        return
    there = {spelled(name) for path in fields for name in _NAME.findall(path)}
    names = [name for name, _ in card.fields]
    missing = [name for name in names if spelled(name.rpartition(".")[2]) not in there]
    if not missing:
        yield True, f"{_named('field', names)}; the rows have them"
    else:
        yield False, f"{_named('field', names)}; the rows have no {_listed(missing)}"


def _named(what: str, words: Sequence[str]) -> str:
    return f"{what}{'s' if len(words) > 1 else ''} {_listed(words)}"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
