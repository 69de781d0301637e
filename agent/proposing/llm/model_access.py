"""Hold what asking a model needs besides the question: endpoint, budgets, memory, announcements.

Asking is the only thing in ingot that sends anything of the data away; its costs are counted here.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from ingot.agent.model.budget import Ledger, Limits, Price
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.proposal import Proposal, Request
from ingot.converters.rows import Json
from ingot.converters.sources.sample import Sample


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How a model may be asked.

    Attributes:
        endpoint: where it is.
        price: of the model, None = unknown.
    """

    endpoint: Endpoint
    run: Limits
    data_set: Limits
    price: Price | None = None
    remembered: bool = True


def _discard_text(_: str) -> None:
    pass


@dataclass(kw_only=True, eq=False)
class ModelAccess:
    """How a model is asked in this process.

    Attributes:
        endpoint: where it is.
        store: what earlier runs learnt: the ladder's level, accepted answers.
        remembered: whether accepted answers of earlier runs are used; new ones are kept anyway.
        shared: whether answers serve several data sets, as in a lake. Then neither mapping nor
            report says for which of them it was asked, and what that took: that depends on what was
            known and on runs that were killed, and what is made does not. The catalog has it.
        tell: is told, before the first question of a run, what the questions may take.
    """

    endpoint: Endpoint
    store: Store
    ledger: Ledger = field(default_factory=Ledger)
    remembered: bool = True
    shared: bool = False
    tell: Callable[[str], None] = _discard_text
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
        """Under which an answer is remembered: for a shape, and for these very rows.

        Besides shape, prompt, schema and model it holds what the rules read in the values: two
        data sets of equal shape, of which one is a transcript, are two questions. An answer that a
        person has to look at is no answer for other rows.

        The key of the shape holds no card: one question per shape, however many cards there are.
        So an answer that was given under a card is kept for the shape only where the rules, who
        read no card, make the same of the rows; else it stays with these rows under this card
        (the second key holds both), and the shape is marked (`mark`): the next question about it
        shows no card, and its answer is everybody's. What a hostile card talks a model into is
        thus never said of other data, and a shape costs two questions at most.
        """
        from ingot.agent.proposing.llm.question import prompt_hash

        parts: Json = {
            "fingerprint": fingerprint,
            "prompt": prompt_hash(request.tokens),
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
    mapping = rules.mapping or {}
    return [rules.decision, {key: mapping[key] for key in texts if key in mapping}]
