"""The rules' opinion of a model's proposal: whether both say the same, and who decides if not.

Two mappings say the same if they make the same records of the sample, however they are worded.
"""

import hashlib
import json
from collections import Counter

from ingot.agent.mappers.proposal import PERSONS
from ingot.agent.mappers.turn import MODEL
from ingot.agent.state import State
from ingot.agent.trial import Trial
from ingot.converters.check import sample_batches
from ingot.converters.rows import Json
from ingot.converters.unify import Record, Unifier

DOUBTED = 0.7  # a model that says less of itself names its doubt, as it is told to
SURE_RULES = 0.8  # rules that say more of themselves were right nine times of ten
SOME = 0.3  # rules that say less of themselves are no reason to ask a person


def agree(one: Trial, other: Trial) -> bool:
    """Whether both make the same texts of the same sample; metadata and masks aside."""
    return _said(one) == _said(other)


def _said(trial: Trial) -> Counter[bytes]:
    """How often which texts are said, by hash."""
    unifier = Unifier(trial.mapping, source_name="", language=None)
    return Counter(
        hashlib.sha256(json.dumps(_texts(record)).encode()).digest()
        for batch in sample_batches(trial.sample, trial.mapping)
        for record in unifier.batch(batch).records
    )


def _texts(record: Record) -> list[Json]:
    turns = [[message["role"], message["content"]] for message in record.get("messages", ())]
    return [record.get("text"), record.get("system"), turns]


def together(one: float, other: float) -> float:
    """How sure two are who came to the same result by different ways."""
    return round(min(0.99, 1 - (1 - one) * (1 - other)), 3)


def disputed(state: State) -> str:
    """Why a person has to choose between a model's proposal and the rules', "" if nobody has to."""
    proposal, opinion = state.get("proposal"), state.get("opinion")
    if proposal is None or proposal["mapper"] in PERSONS:
        return ""
    fallback = state.get("turn", {}).get("fallback", "")
    if fallback and state["order"]["mapper"] == MODEL:
        return f"{fallback}; what is proposed is the rules' own"
    if proposal["mapper"] != MODEL:
        return ""
    looked, nothing = state.get("looked"), proposal["decision"] in ("irrelevant", "unmappable")
    if looked and nothing:
        first = looked["proposal"]["decision"]
        return f"the model's first answer converts ({first}), its second finds nothing to convert"
    if not opinion or opinion["agrees"]:
        return ""
    rules, model = opinion["proposal"], proposal["confidence"]
    other = f"the rules propose something else ({rules['decision']}, {rules['confidence']:.2f})"
    if rules["confidence"] >= SURE_RULES:
        return f"{other} and are sure of it"
    if model < DOUBTED:
        return f"{other}, and the model is unsure ({model:.2f})"
    finds = rules["decision"] in ("pt", "sft") and rules["confidence"] >= SOME
    if nothing and finds:
        return f"{other}, where the model finds nothing to convert"
    return ""
