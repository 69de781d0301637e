"""The gates of a mapping that a model wrote: a row could have told it what to write.

A mapping of the rules or of a person is not looked at here.
"""

from collections.abc import Iterable, Iterator

from ingot.agent.gates import records, roles, texts
from ingot.agent.gates.gate import Document, Found, Gate, failing, for_person, share
from ingot.agent.gates.sample import MOST_LEFT_OUT, is_constant
from ingot.agent.mappers.turn import MODEL
from ingot.agent.redaction import redact
from ingot.agent.state import State
from ingot.converters.unify import SOFT_REASONS


def faulty(proposal: Document, found: Found) -> Iterator[Gate]:
    """Whether what a model wrote can be a value at all; the problems are taken."""
    if proposal["mapper"] == MODEL:
        yield failing("constant ids, times and counts", found.take("constant_meta"), "none")
        yield failing("literal source and language", found.take("bad_literal"), "a name")


def written(
    proposal: Document, check: Document | None, names: tuple[str | None, ...]
) -> Iterator[Gate]:
    """What a model wrote and chose by itself.

    Args:
        proposal: as the state holds it.
        check: counts of the mapping on the sample, None = what it leaves out is not judged.
        names: of the data set, and what was asked for as `meta.source`.
    """
    document = proposal["mapping"]
    if proposal["mapper"] != MODEL or not document:
        return
    yield for_person(
        "system text",
        "the model wrote a system message of its own",
        _quoted(piece for one in texts.system_texts(document) for piece in one.pieces),
        "none of the model's own",
    )
    yield for_person(
        "fixed text",
        "the model wrote text of its own into the records",
        _quoted(piece for one in texts.long_texts(document) for piece in one.pieces),
        f"labels of at most {texts.LABEL_WORDS} words",
    )
    yield for_person(
        "literal source",
        "the model named a source that is neither the data set nor what was asked for",
        _quoted(texts.foreign_sources(document, names)),
        "the data set's name",
    )
    yield for_person(
        "roles against their names",
        "the model turned roles round",
        roles.turned(document),
        "none",
    )
    yield for_person(
        "loss masks against roles",
        "the model says by itself what is trained on",
        roles.masked(document),
        "assistants, or as the data says",
    )
    yield for_person(
        "texts of other records",
        "the model takes a text of one row into every record",
        records.borrowed(document),
        "none",
    )
    if check is not None:
        yield from _left_out(check)
        yield from _constant_answers(check)


def against_rules(state: State) -> Iterator[Gate]:
    """What a model says and neither the user nor the rules do, of a graph's state."""
    proposal, opinion = state.get("proposal") or {}, state.get("opinion")
    if proposal.get("mapper") != MODEL or not proposal["mapping"] or not opinion:
        return
    known = state["order"]["language"] or opinion["proposal"]["detected"].get("language")
    yield for_person(
        "literal language",
        f"the model says a language that is not the texts' ({known})",
        texts.foreign_languages(proposal["mapping"], known),
        "the texts' language",
    )
    if opinion["agrees"]:
        return
    yield for_person(
        "system texts by their names",
        "the model takes for system texts what is not named so",
        roles.named_otherwise(proposal["mapping"]),
        "none, or the rules do so too",
    )
    yield for_person(
        "sides by their names",
        "the model puts on one side what is named for the other",
        roles.crossed(proposal["mapping"]),
        "none, or the rules do so too",
    )
    groups = (state.get("check") or {}).get("rows", 0)
    yield for_person(
        "one group of all rows",
        "the model makes one record of all rows, by",
        records.lumped(proposal["mapping"], groups, state["sample"]["rows"]),
        "several, or the rules do so too",
    )


def _quoted(said: Iterable[str]) -> list[str]:
    """The beginnings of texts; redacted first, so that no half of a secret is left."""
    return [repr(redact(text)[:200]) for text in said]


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
