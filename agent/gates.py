"""What must hold before a proposal is converted without a person looking at it, with its figures.

Every gate is judged from the counts of the check, the problems found and the proposal alone, so
that the terminal, `--json`, the report and `--yes` say the same. `docs/gates.md` lists them.
"""

from collections.abc import Iterable, Iterator, Sequence

from ingot.agent import authored, claims
from ingot.agent.opinion import disputed
from ingot.agent.redaction import redact
from ingot.agent.sample_gates import (
    MOST_LEFT_OUT,
    Document,
    Found,
    Gate,
    failing,
    is_constant,
    on_sample,
    share,
    shown,
)
from ingot.agent.state import State
from ingot.converters.errors import Problem
from ingot.converters.rows import Json
from ingot.converters.unify import SOFT_REASONS

__all__ = ["PERSONS", "Gate", "failed", "gates", "needs_person", "of_state", "reserved", "unsure"]

# A mapping that a person wrote or corrected needs no second look.
PERSONS = ("file", "edited")


def failed(problems: list[dict[str, Json]]) -> list[str]:
    """The gates that a proposal fails on its sample, each as one line; empty = it passes.

    The check has found every problem there is: paths that resolve nowhere, values without a role,
    texts that are no texts, too few rows that convert, an answer in its own question.
    """
    return [str(Problem(**one)) for one in problems]


def needs_person(
    proposal: Document,
    least: float,
    *,
    check: Document | None = None,
    source_name: str | None = None,
    requested_source: str | None = None,
) -> list[str]:
    """What only a person may approve, however well it converts; one line each.

    Args:
        proposal: as the state holds it.
        least: the confidence from which on a mapper may decide alone.
        check: counts of the mapping on the sample, None = what it leaves out is not judged.
        source_name: name of the data set.
        requested_source: what the user wants `meta.source` to be.
    """
    found = [why] if (why := unsure(proposal, least)) else []
    written = _authored(proposal, check, (source_name, requested_source))
    return [*found, *(gate.detail for gate in written if gate.state == "person")]


def unsure(proposal: Document, least: float) -> str:
    """Why a mapper is not sure enough to decide alone, "" where it is."""
    if proposal["mapper"] in PERSONS or proposal["confidence"] >= least:
        return ""
    return f"confidence {proposal['confidence']:.3f} is below --min-confidence {least:g}"


def gates(
    proposal: Document,
    check: Document | None,
    problems: Sequence[dict[str, Json]],
    *,
    least: float,
    source_name: str | None,
    requested_source: str | None,
) -> list[Gate]:
    """Every gate with its figure, in the order in which people read them.

    Args:
        proposal: as the state holds it.
        check: counts of the mapping on the sample, None = it could not be run.
        problems: `Problem` as objects; each belongs to one failed gate.
        least: the confidence from which on a mapper may decide alone.
        source_name: name of the data set.
        requested_source: what the user wants `meta.source` to be.
    """
    found = Found(problems)
    made = [*_sure(proposal, least)]
    if check is not None and proposal["decision"] in ("pt", "sft"):
        made += on_sample(check, found)
        made += _authored_faults(proposal, found)
        made += _authored(proposal, check, (source_name, requested_source))
    return [*made, *found.rest()]


def of_state(state: State) -> list[Gate]:
    """The gates of a graph's state; none before there is a proposal."""
    proposal, order = state.get("proposal"), state["order"]
    if proposal is None:
        return []
    found = gates(
        proposal,
        state.get("check"),
        state.get("problems", []),
        least=order["min_confidence"],
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )
    return [*found, *_against_rules(state), *_second_opinion(state)]


def reserved(state: State) -> list[str]:
    """What only a person may approve of a graph's state, one line each; `needs_person` of it."""
    order = state["order"]
    other = [why] if (why := disputed(state)) else []
    other += [gate.detail for gate in _against_rules(state) if gate.state == "person"]
    return other + needs_person(
        state["proposal"] or {},
        order["min_confidence"],
        check=state.get("check"),
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )


def _second_opinion(state: State) -> Iterator[Gate]:
    """Whether the rules come to the same records as the model, where one was asked."""
    opinion, why = state.get("opinion"), disputed(state)
    if not opinion and not why:
        return
    rules = opinion["proposal"] if opinion else state["proposal"] or {}
    yield Gate(
        name="second opinion",
        state="person" if why else "pass" if opinion and opinion["agrees"] else "warn",
        figure=f"the rules: {rules['decision']}, {rules['confidence']:.2f}",
        limit="the same records, or rules that are unsure",
        detail=why,
    )


def _against_rules(state: State) -> Iterator[Gate]:
    """What a model says and neither the user nor the rules do."""
    proposal, opinion = state.get("proposal") or {}, state.get("opinion")
    if proposal.get("mapper") != "llm" or not proposal["mapping"] or not opinion:
        return
    known = state["order"]["language"] or opinion["proposal"]["detected"].get("language")
    yield _reserved(
        "literal language",
        f"the model says a language that is not the texts' ({known})",
        authored.foreign_languages(proposal["mapping"], known),
        "the texts' language",
    )
    if opinion["agrees"]:
        return
    yield _reserved(
        "system texts by their names",
        "the model takes for system texts what is not named so",
        claims.named_otherwise(proposal["mapping"]),
        "none, or the rules do so too",
    )
    yield _reserved(
        "sides by their names",
        "the model puts on one side what is named for the other",
        claims.crossed(proposal["mapping"]),
        "none, or the rules do so too",
    )
    groups = (state.get("check") or {}).get("rows", 0)
    yield _reserved(
        "one group of all rows",
        "the model makes one record of all rows, by",
        claims.lumped(proposal["mapping"], groups, state["sample"]["rows"]),
        "several, or the rules do so too",
    )


def _sure(proposal: Document, least: float) -> Iterator[Gate]:
    if proposal["mapper"] not in PERSONS:
        yield Gate(
            name="confidence",
            state="person" if unsure(proposal, least) else "pass",
            figure=f"{proposal['confidence']:.3f}",
            limit=f"at least {least:g}" if least else "none was set",
        )


# --- what a model wrote by itself


def _authored_faults(proposal: Document, found: Found) -> Iterator[Gate]:
    if proposal["mapper"] == "llm":
        yield failing("constant ids, times and counts", found.take("constant_meta"), "none")
        yield failing("literal source and language", found.take("bad_literal"), "a name")


def _authored(
    proposal: Document, check: Document | None, names: tuple[str | None, ...]
) -> Iterator[Gate]:
    document = proposal["mapping"]
    if proposal["mapper"] != "llm" or not document:
        return
    yield _reserved(
        "system text",
        "the model wrote a system message of its own",
        _quoted(piece for one in authored.system_texts(document) for piece in one.pieces),
        "none of the model's own",
    )
    yield _reserved(
        "fixed text",
        "the model wrote text of its own into the records",
        _quoted(piece for one in authored.long_texts(document) for piece in one.pieces),
        f"labels of at most {authored.LABEL_WORDS} words",
    )
    yield _reserved(
        "literal source",
        "the model named a source that is neither the data set nor what was asked for",
        _quoted(authored.foreign_sources(document, names)),
        "the data set's name",
    )
    yield _reserved(
        "roles against their names",
        "the model turned roles round",
        authored.turned(document),
        "none",
    )
    yield _reserved(
        "loss masks against roles",
        "the model says by itself what is trained on",
        claims.masked(document),
        "assistants, or as the data says",
    )
    yield _reserved(
        "texts of other records",
        "the model takes a text of one row into every record",
        claims.borrowed(document),
        "none",
    )
    if check is not None:
        yield from _left_out(check)
        yield from _constant_answers(check)


def _constant_answers(check: Document) -> Iterator[Gate]:
    """Whether a model found the same thing to train on in all records."""
    usual = (check.get("content") or {}).get("usual") or {}
    for side in ("text", "answers"):
        if side in usual:
            same = is_constant(usual[side])
            figure = share(usual[side]["count"], usual[side]["texts"])
            yield Gate(
                name=f"constant {side}",
                state="person" if same else "pass",
                figure=figure,
                limit="not the same in all",
                detail=f"the model trains on the same text in {figure} records" if same else "",
            )


def _quoted(texts: Iterable[str]) -> list[str]:
    """The beginnings of texts; redacted first, so that no half of a secret is left."""
    return [repr(redact(text)[:200]) for text in texts]


def _reserved(name: str, why: str, found: Sequence[str], limit: str) -> Gate:
    return Gate(
        name=name,
        state="person" if found else "pass",
        figure=str(len(found)) if found else "none",
        limit=limit,
        detail=shown([f"{why}: {', '.join(found)}"]) if found else "",
    )


def _left_out(check: Document) -> Iterator[Gate]:
    """How much a model's conditions and dropped roles leave out."""
    failures = check["failures"]
    gone = sum(failures.get(reason, 0) for reason in SOFT_REASONS)
    tried = check["records"] + sum(failures.values()) - check.get("unreadable", 0)
    yield _at_most_half("records left out", gone, tried)
    if check.get("messages"):
        yield _at_most_half("messages left out", check["dropped"], check["messages"])


def _at_most_half(name: str, gone: int, whole: int) -> Gate:
    much = gone > MOST_LEFT_OUT * whole
    figure = share(gone, whole)
    return Gate(
        name=name,
        state="person" if much else "pass",
        figure=figure,
        limit=f"at most {MOST_LEFT_OUT:.0%}".replace("%", " %"),
        detail=f"the model's mapping leaves out more than half: {name} {figure}" if much else "",
    )
