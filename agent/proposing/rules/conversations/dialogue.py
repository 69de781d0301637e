"""Find conversations in lists and reply trees: with speakers, in pairs, or taken in turn."""

from collections import Counter
from dataclasses import replace
from itertools import chain, product

from ingot.agent.proposing import speakers
from ingot.agent.proposing.columns import View, last_name
from ingot.agent.proposing.names import NAMED, name_strength, speaker_role
from ingot.agent.proposing.readings import (
    Field,
    Talk,
    element_fields,
    field_sequences,
    join_inner_path,
    list_elements,
    role_evidence,
    text_weight,
)
from ingot.agent.proposing.rules.conversations import pairs_and_events
from ingot.agent.proposing.rules.conversations.transcripts import texts_begin_with_speaker
from ingot.agent.proposing.rules.conversations.turn_contents import (
    find_content,
    find_role_field,
    open_end_share,
    role_entry,
    turns_of,
    turns_out_of_turn,
)
from ingot.agent.proposing.rules.documents.trees import has_branches
from ingot.agent.proposing.speaker_codes import MOST_CODES, Sides, find_sides
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words, is_question

MOST_BRANCHED = 0.6  # the same where a reply has several versions, which all are taken
MOST_GUESSED = 0.3  # the same of turns by order, where a column may say who speaks
MOST_PARTIAL = 0.55  # the most that a role map with values left out may claim
HOST_SHARE, GUEST_SHARE = 0.7, 0.35  # of the conversations that one side takes part in
_FEWEST_TALKS = 4
# A list and its elements, their fields, and the one that says who is who: as `find_role_field`.
_Members = tuple[str, str, list[Field], tuple[Field, dict[str, str | None], float]]


def _hosted_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Many speakers of whom one is in nearly all conversations: that one answers all others."""
    for field in fields:
        if not field.facts.types.get("string"):
            continue
        sequences = [s for s in field_sequences(view, element, field.inner) if len(s) > 1]
        if len(sequences) < _FEWEST_TALKS:
            continue
        counts = Counter(chain.from_iterable(map(set, sequences)))
        (host, most), *rest = counts.most_common()
        guests = max((count for _, count in rest), default=0)
        often = sum(map(len, sequences)) / max(1, len(counts))
        if most < HOST_SHARE * len(sequences) or guests > GUEST_SHARE * len(sequences):
            continue
        if {speaker_role(value) for value in counts} & {"user", "assistant"}:
            continue
        content = find_content(view, element, fields, field.inner)
        if len(counts) < _FEWEST_TALKS or often < 1.5 or content is None:
            continue
        role: dict[str, Json] = {"path": field.inner, "map": {host: "assistant", "*": "user"}}
        ends = sum(s[-1] != host for s in sequences) / len(sequences)
        return Talk(
            path=path,
            entries=(role_entry(view, element, fields, role, content),),
            score=0.8 + 0.1 * name_strength(field.name, "speaker"),
            why=f"{host} takes part in most conversations of {path}, everybody else in few",
            ends_open=ends,
            evidence=role_evidence(field.inner, f"{host} = assistant, all others = user", 0.8),
            used=frozenset({join_inner_path(element, content)}),
        )
    return None


def _find_members(view: View) -> list[_Members]:
    """The lists that say of each of their elements who it is."""
    lists = [element for element in list_elements(view) if element[1].count("[*]") == 1]
    members = [(path, element, element_fields(view, element)) for path, element in lists]
    return [
        (*member, role_field)
        for member in members
        if (role_field := find_role_field(view, *member[1:]))
    ]


def _talk_with_members(
    view: View, path: str, element: str, fields: list[Field], members: list[_Members]
) -> Talk | None:
    """Messages whose writers stand in a list beside them, which says who is the assistant."""
    for other, member, columns, role_field in members:
        if other == path or element.count("[*]") != 1:
            continue
        for field, key in product(fields, columns):
            sequences = field_sequences(view, element, field.inner)
            known = field_sequences(view, member, key.inner)
            content = find_content(view, element, fields, field.inner)
            writers = [(set(a), set(b)) for a, b in zip(sequences, known, strict=True) if a]
            fit = sum(a <= b for a, b in writers) > 0.9 * len(writers)
            if content is None or not fit or not any(map(any, known)):
                continue
            who, mapping, sure = role_field
            of: Json = {"lookup": f"^.{member}", "key": key.inner, "of": field.inner}
            role: dict[str, Json] = {"path": {**of, "take": who.inner}, "map": mapping}
            entry = role_entry(view, element, fields, {"path": field.inner}, content)
            return Talk(
                path=path,
                entries=({**entry, "role": role},),
                score=0.7 + 0.25 * sure,
                why=f"{other} says who is who among the writers in {field.inner}",
                ends_open=0.0,
                evidence=role_evidence(field.inner, f"looked up in {other}", sure),
                used=frozenset({join_inner_path(element, content)}),
            )
    return None


def _talk_of_codes(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Speakers who are known by codes only: two of them answer each other."""
    best: tuple[float, Field, str, Sides] | None = None
    for field in fields:
        few = (
            2 <= field.facts.distinct <= MOST_CODES
            and field.facts.filled > 0.95 * field.facts.places
        )
        content = find_content(view, element, fields, field.inner) if few else None
        sides = find_sides(turns_of(view, element, field.inner, content)) if content else None
        if sides and content and (best is None or sides.answered > best[0]):
            best = (sides.answered, field, content, sides)
    if best is None:
        return None
    answered, field, content, sides = best
    role: dict[str, Json] = {"path": field.inner, "map": sides.roles}
    entry = role_entry(view, element, fields, role, content)
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in sides.roles.items())
    out = turns_out_of_turn(view, element, fields, role, content)
    if out and "where" not in entry:
        entry["where"] = out
    sure = sides.agreed and not out
    return Talk(
        path=path,
        entries=(entry,),
        score=0.7 + 0.2 * answered,
        why=f"the speakers of {path} in {field.inner} answer each other",
        ends_open=open_end_share(view, element, field.inner, sides.roles),
        evidence=role_evidence(field.inner, spoken, 0.8 if sure else MOST_PARTIAL),
        used=frozenset({join_inner_path(element, content)}),
        most=1.0 if sure else MOST_PARTIAL,
    )


def _talk_with_some_roles(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Speakers of whom some are understood: the others stay out of the map, for a person."""
    named = speakers.find_speakers(view, element, fields)
    content = find_content(view, element, fields, named.field.inner) if named else None
    if named is None or content is None or not named.roles or not named.unknown:
        return None
    inner = named.field.inner
    role: dict[str, Json] = {"path": inner, "map": named.roles}
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in named.roles.items())
    sure = named.understood
    open_ends = dict.fromkeys(named.unknown, "assistant")  # an open end is known only of the known
    return Talk(
        path=path,
        entries=(role_entry(view, element, fields, role, content),),
        score=0.8 + 0.1 * sure + 0.06 * name_strength(named.field.name, "speaker"),
        why=f"{path} lists messages, but speakers in {inner} are not understood: {named.strangers}",
        ends_open=open_end_share(view, element, inner, {**named.roles, **open_ends}),
        evidence=role_evidence(
            inner, f"{spoken}; not understood: {named.strangers}", min(sure, MOST_PARTIAL)
        ),
        used=frozenset({join_inner_path(element, content)}),
        most=MOST_PARTIAL,
        unknown=frozenset(named.unknown),
    )


def _talk_with_roles(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    role_field = find_role_field(view, element, fields)
    if not role_field:
        return None
    field, mapping, sure = role_field
    content = find_content(view, element, fields, field.inner)
    if content is None or _all_sides_equal(field_sequences(view, element, content)):
        return None
    role: dict[str, Json] = {"path": field.inner}
    if mapping != {name: name for name in mapping}:
        role["map"] = mapping
    entry = role_entry(view, element, fields, role, content)
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in mapping.items())
    return Talk(
        path=path,
        entries=(entry,),
        score=0.7 + 0.28 * sure,
        why=f"{'the row' if path == '$' else path} lists messages with their speakers",
        ends_open=open_end_share(view, element, field.inner, mapping),
        evidence=role_evidence(field.inner, spoken, sure),
        used=frozenset({join_inner_path(element, content)}),
        most=MOST_BRANCHED if has_branches(view, element) else 1.0,
    )


def _all_sides_equal(sequences: list[list[str]]) -> bool:
    """Whether all sides say the same: a thing that both have, no conversation."""
    several = [s for s in sequences if len(s) > 1]
    return bool(several) and sum(len(set(s)) == 1 for s in several) > 0.5 * len(several)


def _alternating_talk(
    view: View, path: str, element: str, content: str, why: str, score: float
) -> Talk:
    sequences = field_sequences(view, element, content)
    odd = sum(len(s) % 2 for s in sequences) / max(1, len(sequences))
    entry = {"each": element, "role": ["user", "assistant"], "content": content}
    return Talk(
        path=path,
        entries=(entry,),
        score=score,
        why=why,
        ends_open=odd,
        evidence=role_evidence("user and assistant in turn", why, score),
        used=frozenset({join_inner_path(element, content)}),
    )


def _turn_likeness(view: View, path: str, element: str, inner: str) -> float:
    """How far bare texts in a list look like turns rather than lines of a document."""
    sequences = [[t for t in s if t.strip()] for s in field_sequences(view, element, inner)]
    sequences = [s for s in sequences if s]
    if not sequences:
        return 0.0
    several = sum(len(s) > 1 for s in sequences) / len(sequences)
    even = sum(len(s) % 2 == 0 for s in sequences) / len(sequences)
    words = [count_words(t) for s in sequences for t in s]
    prose = sum(w >= 3 for w in words) / len(words)
    named = name_strength(last_name(path), "turns") if path != "$" else 0.7
    replies = [t for s in sequences for t in s[1::2]]
    asking = sum(map(is_question, replies)) / max(1, len(replies))
    if several < 0.6 or prose < 0.5 or asking > 0.75:
        return 0.0
    return 0.35 * named + 0.2 * even + 0.15 * several + 0.1 * prose + 0.2 * _texts_ask(sequences)


def _texts_ask(sequences: list[list[str]]) -> bool:
    """Whether short texts ask now and then, in most conversations: so do people, not paragraphs."""
    texts = [text for sequence in sequences for text in sequence]
    size = sorted(map(count_words, texts))[len(texts) // 2]
    asked = [sum(map(is_question, sequence)) for sequence in sequences]
    usual = sum(count > 0 for count in asked) >= 0.6 * len(sequences)
    return usual and size <= 30 and sum(asked) <= 0.75 * len(texts)


def _plain_text_talk(view: View, path: str, element: str) -> Talk | None:
    """Elements that are texts, spoken in turn."""
    facts = view.facts.get(element)
    if facts is None or not facts.types.get("string") or not facts.chars:
        return None
    score = _turn_likeness(view, path, element, "$")
    marked = texts_begin_with_speaker(
        [t for sequence in field_sequences(view, element, "$") for t in sequence]
    )
    if score < 0.3 or marked:
        return None
    talk = _alternating_talk(view, path, element, "$", f"{path} lists texts that alternate", score)
    return _guessed_talk(talk) if speakers.has_other_speakers(view, element) else talk


def _speakerless_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Objects with one text each and no speaker: they take turns."""
    texts = [f for f in fields if f.name and text_weight(f) > 0]
    if not texts:
        return None
    content = find_content(view, element, texts, "")
    if content is None or "[" in content:
        return None
    score = _turn_likeness(view, path, element, content)
    named = name_strength(last_name(content), "utterance")
    if score < 0.3:
        return None
    score = min(0.9, score + 0.1 * named)
    speakers_found = speakers.find_speakers(
        view, element, [f for f in fields if f.inner != content]
    )
    if speakers_found is None or speakers_found.in_order:
        why = f"{path} lists utterances without speakers"
        return _alternating_talk(view, path, element, content, why, score)
    doubt = f"although {speakers_found.field.inner} may say who speaks: {speakers_found.strangers}"
    why = f"{path} lists utterances taken in turn, {doubt}"
    return _guessed_talk(_alternating_talk(view, path, element, content, why, score))


def _guessed_talk(talk: Talk) -> Talk:
    """Turns by order where a column may say otherwise: nothing to be sure of."""
    unsure = tuple(
        replace(item, confidence=min(item.confidence, MOST_GUESSED)) for item in talk.evidence
    )
    return replace(talk, most=MOST_GUESSED, evidence=unsure)


def find_talks(view: View) -> list[Talk]:
    """Return every place that holds a conversation, best first."""
    talks: list[Talk] = []
    members = _find_members(view)
    for path, element in list_elements(view):
        slots = ("rejected", "example", "options") if path != "$" else ()
        if any(name_strength(last_name(path), slot) >= NAMED for slot in slots):
            continue
        fields = element_fields(view, element)
        talk = (
            pairs_and_events.event_talk(view, path, element, fields)
            or _talk_with_roles(view, path, element, fields)
            or pairs_and_events.step_talk(view, path, element, fields)
            or _talk_with_members(view, path, element, fields, members)
            or pairs_and_events.two_key_talk(view, path, element, fields)
            or pairs_and_events.attribute_talk(view, path, element, fields)
            or _talk_of_codes(view, path, element, fields)
            or _hosted_talk(view, path, element, fields)
            or _talk_with_some_roles(view, path, element, fields)
            or _speakerless_talk(view, path, element, fields)
            or pairs_and_events.pair_list_talk(view, path, element)
            or _plain_text_talk(view, path, element)
        )
        if talk:
            talks.append(talk)
    talks += speakers.parallel_speaker_talks(view)
    talks += speakers.parallel_list_talk(view)
    talks += speakers.numbered_column_talk(view)
    return sorted(talks, key=lambda talk: -talk.score)
