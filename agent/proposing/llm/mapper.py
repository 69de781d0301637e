"""The LLM mapper: shows a data set to a model behind an OpenAI-compatible endpoint.

The model has no tools and returns data only. What it returns is parsed, validated and lowered here;
the graph runs it on the sample and asks again, with the problems or with rendered records, at most
twice. An answer that was accepted is remembered for data of the same shape.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ingot.agent.model import client
from ingot.agent.model.budget import Ledger, Limits, Price, estimate_cost
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.request_form import Message
from ingot.agent.privacy import Redactor, redact
from ingot.agent.privacy.redaction import clean_text
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.fingerprint import fingerprint
from ingot.agent.proposing.llm import question, reply
from ingot.agent.proposing.llm.data_block import read_data
from ingot.agent.proposing.llm.lowering import lower_reply
from ingot.agent.proposing.proposal import (
    MODEL,
    MOST_ANSWERS,
    Evidence,
    History,
    Mapper,
    Proposal,
    Request,
    Turn,
)
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.documents.writer import plain_document
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How a model may be asked, as processes hand it on."""

    endpoint: Endpoint
    run: Limits = field(default_factory=Limits)
    data_set: Limits = field(default_factory=Limits)
    price: Price | None = None
    remembered: bool = True


@dataclass(kw_only=True, eq=False)
class ModelAccess:
    """How a model is asked in this process.

    `remembered` says whether accepted answers of earlier runs are used; new ones are kept anyway.
    With `shared` answers serve several data sets: then no mapping or report says which of them
    asked and what that took. `tell` hears, before the first question, what all may take.
    """

    endpoint: Endpoint
    store: Store
    ledger: Ledger = field(default_factory=Ledger)
    remembered: bool = True
    shared: bool = False
    tell: Callable[[str], None] = lambda _: None
    _told: bool = False

    def announce(self, estimate: str) -> None:
        """Tell what the questions may take, once."""
        if not self._told:
            self._told = True
            self.tell(estimate)

    def keys(
        self,
        fingerprint: str,
        sample: Sample,
        request: Request,
        rules: Proposal | None,
        card: Card | None = None,
    ) -> tuple[str, str]:
        """Return the keys of an answer: for a shape, and for these very rows under this card.

        Both hold what the rules read in the values: a transcript and other data of equal shape are
        two questions. The key of the shape holds no card. An answer that was given under a card is
        kept for the shape only where the rules make the same of the rows; otherwise the shape is
        marked, and the next question about it shows no card.
        """
        parts: Json = {
            "fingerprint": fingerprint,
            "prompt": question.prompt_hash(request.tokens),
            "model": self.endpoint.model,
            "url": self.endpoint.url,
            "mode": request.mode,
            "language": request.language,
            "share": request.share,
            "rules": _reading_of(rules),
        }
        shape = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
        rows = shape.copy()
        for one in sample.rows:
            rows.update(json.dumps(one.value).encode())
        if card is not None:
            rows.update(card.digest().encode())
        return shape.hexdigest(), rows.hexdigest()

    def mark(self, shape: str) -> None:
        """Note that a shape was asked about under a card; an answer that is known stays."""
        if self.store.reply(shape) is None:
            self.store.keep(shape, dict(_CARD_MARK))

    def marked(self, shape: str) -> bool:
        """Whether the next question about a shape shows no card."""
        return self.remembered and self.store.reply(shape) == _CARD_MARK


_CARD_MARK: dict[str, Json] = {"asked_under_a_card": True}


def _reading_of(rules: Proposal | None) -> Json:
    """How the rules take texts out of the rows; metadata is looked up anew in every data set."""
    if rules is None:
        return None
    texts = ("source", "each", "group", "text", "messages", "system", "any_of")
    mapping = plain_document(rules.mapping) if rules.mapping else {}
    return [rules.decision, {key: mapping[key] for key in texts if key in mapping}]


MOST_ANSWER_CHARS = 16_000  # characters of an answer that cannot be read, as it is shown again


def llm_mapper(
    asking: ModelAccess, rules: Mapper, cards: Mapping[str, Card] | None = None
) -> Mapper:
    """The mapper that asks this endpoint."""
    return partial(_ask_turn, asking, rules, cards or {})


def _ask_turn(
    asking: ModelAccess,
    rules: Mapper,
    cards: Mapping[str, Card],
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    """One question and its answer, or the answer that was accepted for the same shape before."""
    found = rules(source, sample, request, ()).proposal
    said = [one for one in history if one.mapper == MODEL]
    card = cards.get(source.location)
    keys = partial(asking.keys, fingerprint(source, sample), sample, request, found)
    shape, rows = keys()
    if not said and asking.remembered:
        for key in (*([keys(card)[1]] if card else []), rows, shape):
            kept = asking.store.reply(key)
            if kept and (turn := _remembered_turn(asking, kept, found, source, sample)):
                return turn
    card = card if _may_show_card(asking, shape, said, request) else None
    messages = conversation_messages(source, sample, request, history, card)
    asking.announce(_announcement(asking, messages))
    completion = client.ask_model(
        asking.endpoint,
        messages,
        json_yaml.schema("llm"),
        store=asking.store,
        ledger=asking.ledger,
        below=_disobeyed_level(history),
    )
    answered = partial(
        Turn, mapper=MODEL, again=True, level=completion.level, notes=tuple(completion.notes)
    )
    under: dict[str, Json] = {"card": card.file} if card else {}
    try:
        answer = reply.read_reply(completion.text, cut_off=completion.cut_off)
        _check_mode(answer.document["decision"], request.mode)
        proposal = _answer_proposal(answer.document, asking, source, sample, answer.taken)
    except MappingError as error:
        reply_text = redact(completion.text[:MOST_ANSWER_CHARS])
        return answered(proposal=None, problems=error.problems, said=reply_text, provenance=under)
    made = _provenance(asking, request, answer.repaired) | under
    return answered(proposal=proposal, said=_answer_text(answer.document), provenance=made)


def _may_show_card(asking: ModelAccess, shape: str, said: History, request: Request) -> bool:
    """Whether this question shows a card: one that goes on, if it did so from the beginning."""
    if said:
        return any(one.card for one in said)
    return request.share != "none" and not asking.marked(shape)


def conversation_messages(
    source: Source,
    sample: Sample,
    request: Request,
    history: History = (),
    card: Card | None = None,
) -> list[Message]:
    """What is sent: the task, the data set, the former answers and what was wrong with them."""
    messages = question.opening_messages(source, sample, request, card)
    said = [one for one in history if one.mapper == MODEL]
    if not said:
        return messages
    read = read_data(source, sample)  # by names that rows of another reading lack
    redactor = Redactor.of(request.share, source, sample, *read.rows)
    shown = read.through(redactor)
    for attempt in said:
        messages.append({"role": "assistant", "content": redactor.text(attempt.said or "{}")})
        if attempt.signals is None:
            problems = [*map(redactor.problem, attempt.problems)]
            messages.append(question.correction_message(problems, shown))
        else:
            records = [(redactor.value(row), redactor.value(one)) for row, one in attempt.records]
            signals = [*map(redactor.text, attempt.signals)]
            messages.append(question.record_check_message(records, signals, redactor.share))
    return messages


def _announcement(asking: ModelAccess, messages: list[Message]) -> str:
    schema = json_yaml.schema("llm")
    tokens = client.estimate_question(asking.endpoint, messages, schema, asking.store)
    taken = estimate_cost(tokens, asking.endpoint.max_tokens, MOST_ANSWERS, asking.ledger.price)
    return f"asking {asking.endpoint.model} at {asking.endpoint.host}: {taken}"


def _disobeyed_level(history: History) -> str | None:
    """The ladder's level whose last answer had not the form that the server had promised."""
    last = history[-1] if history else None
    if last is None or not last.level:
        return None
    unformed = any(one.code in (reply.NOT_JSON, reply.SCHEMA) for one in last.problems)
    return last.level if unformed else None


def _remembered_turn(
    asking: ModelAccess,
    kept: dict[str, Json],
    rules: Proposal | None,
    source: Source,
    sample: Sample,
) -> Turn | None:
    """An accepted answer for this shape, read strictly; None where another version wrote it."""
    if isinstance(kept.get("failed"), str):
        return Turn(proposal=None, mapper=MODEL, fallback=kept["failed"], remembered=True)
    made = kept.get("provenance")
    try:
        answer = reply.read_reply(json.dumps(kept.get("said"))).document
        _drop_row_values(answer, rules)
        proposal = _answer_proposal(answer, asking, source, sample)
    except MappingError:
        return None
    return Turn(
        proposal=proposal,
        mapper=MODEL,
        said=_answer_text(answer),
        again=True,
        remembered=True,
        provenance=made if isinstance(made, dict) else {},
    )


def _drop_row_values(answer: dict[str, Json], rules: Proposal | None) -> None:
    """What the model read in other rows, or as the name of another data set, is said anew."""
    meta = answer["meta"]
    if isinstance(meta["language"], dict) and "literal" in meta["language"]:
        code = (rules.detected if rules else {}).get("language")
        meta["language"] = {"literal": code} if code else None
    if isinstance(meta["source"], dict) and "literal" in meta["source"]:
        meta["source"] = None


def _check_mode(decision: str, mode: str) -> None:
    """The mode that the user asked for wins."""
    if mode != "auto" and decision in ("pt", "sft") and decision != mode:
        expected = f"{mode}, since the user asked for it, or irrelevant or unmappable"
        raise MappingError(reply.REPLY_PLACE, (Problem("/decision", "mode", expected, decision),))


def _answer_proposal(
    answer: dict[str, Json],
    asking: ModelAccess,
    source: Source,
    sample: Sample,
    taken: Sequence[tuple[str, str, str]] = (),
) -> Proposal:
    decision, mapping = answer["decision"], None
    why = f"said by {asking.endpoint.model}"
    evidence = [
        Evidence(target="decision", choice=decision, why=why, confidence=answer["confidence"]),
        *(
            Evidence(
                target="form of the answer",
                choice=becomes,
                why=f"{pointer} was {said}, which has only this meaning",
            )
            for pointer, said, becomes in taken
        ),
    ]
    if decision in ("pt", "sft"):
        mapping, notes = question.settle_mapping(read_tree(lower_reply(answer)), source, sample)
        evidence += notes
    return Proposal(
        decision=decision,
        mapping=mapping,
        confidence=answer["confidence"],
        reason=redact(clean_text(answer["reason"]))[:500],
        evidence=tuple(evidence),
        mapper=MODEL,
    )


def _provenance(
    asking: ModelAccess, request: Request, repaired: tuple[str, ...]
) -> dict[str, Json]:
    made: dict[str, Json] = {
        "model": asking.endpoint.model,
        "prompt_sha256": question.prompt_hash(request.tokens),
    }
    return made | ({"repaired": list(repaired)} if repaired else {})


def _answer_text(answer: dict[str, Json]) -> str:
    return json.dumps(answer, ensure_ascii=False)
