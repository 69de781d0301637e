"""Find conversations in lists and reply trees: with speakers, in pairs, or taken in turn."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product

from ingot.agent.proposing.columns import (
    View,
    last_name,
    text_of,
    values_at,
)
from ingot.agent.proposing.names import alias_tables, left_out_values, name_strength, speaker_role
from ingot.agent.proposing.readings import (
    Field,
    Talk,
    element_fields,
    field_sequences,
    join_inner_path,
    join_parts,
    joined_pieces,
    list_elements,
    path_below,
    role_evidence,
    text_weight,
)
from ingot.agent.proposing.rules.transcripts import (
    pair_list_talk,
    step_talk,
    text_kinds_content,
    texts_begin_with_speaker,
    two_key_talk,
)
from ingot.agent.proposing.rules.trees import has_branches
from ingot.agent.proposing.speakers import (
    find_speakers,
    has_other_speakers,
    numbered_column_talk,
    parallel_list_talk,
    parallel_speaker_talks,
    roles_of_values,
)
from ingot.converters.paths import Mark, Names, Node, compile_path, quote_name
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words, is_question

MOST_PARTIAL = 0.55  # the most that a role map with values left out may claim
MOST_BRANCHED = 0.6  # the same where a reply has several versions, which all are taken
MOST_GUESSED = 0.3  # the same of turns by order, where a column may say who speaks


def _find_role_field(
    view: View, element: str, fields: list[Field]
) -> tuple[Field, dict[str, str | None], float] | None:
    """The field that says who speaks, its map, and how sure that is."""
    best: tuple[float, Field, dict[str, str | None]] | None = None
    for one in fields:
        told = roles_of_values(one.name, one.facts, field_sequences(view, element, one.inner))
        if told and (best is None or told[1] > best[0]):
            best = (told[1], one, told[0])
    return (best[1], best[2], best[0]) if best else None


_TAGS = re.compile(r"</?[a-z][^<>]{0,80}>", re.IGNORECASE)


def _plain_weight(view: View, element: str, one: Field) -> float:
    """How much text a field carries, less where it is markup: the plain text may stand beside."""
    weight = text_weight(one)
    if not weight:
        return 0.0
    texts = [t for s in field_sequences(view, element, one.inner)[:20] for t in s]
    tagged = sum(bool(_TAGS.search(text)) for text in texts)
    return weight * (0.4 if tagged > 0.5 * len(texts) else 1.0)


def _find_content(view: View, element: str, fields: list[Field], not_this: str) -> str | None:
    """The path of what is said, inside an element: a text, or the texts of a list of parts."""
    flat = [(_plain_weight(view, element, f), f.inner) for f in fields if f.inner != not_this]
    best = max(flat, default=(0.0, ""))
    said = any(  # annotations of a text that everybody speaks repeat it, however long they are
        f.facts.filled > 0.9 * f.facts.places and name_strength(f.name, "utterance") >= 0.9
        for f in fields
        if text_weight(f) > 0
    )
    for facts in view.facts.paths:
        inner = path_below(facts.path, element) if facts.path.startswith(element + ".") else ""
        parts = compile_path(inner).steps if inner else ()
        wild = [s for s in parts if isinstance(s, Mark)]
        if len(wild) != 1 or not facts.types.get("string") or wild[0].mark != "[*]":
            continue
        one = Field(inner=inner, facts=facts)
        if name_strength(last_name(inner), "utterance") < 0.5:
            continue
        head = name_strength(_first_name(inner), "utterance")
        if head >= 0.5 or not said:
            best = max(best, (text_weight(one) * (1 + head), inner))
    return best[1] if best[0] > 0 else None


def _first_name(inner: str) -> str:
    first = compile_path(inner).steps[0]
    return first.names[0] if isinstance(first, Names) else ""


def _mask_field(view: View, element: str, fields: list[Field], role: dict[str, Json]) -> str | None:
    """A field that says which turns are trained on; one that marks the user's says other things."""
    for one in fields:
        values = {value for value, _ in one.facts.values}
        plain = values and values <= {"true", "false", 0, 1}
        named = name_strength(one.name, "weight") >= 0.9
        if plain and named and not _mark_is_users(view, element, one.inner, role):
            return one.inner
    return None


def _mark_is_users(view: View, element: str, mark: str, role: dict[str, Json]) -> bool:
    turns = [Node(turn) for row in view.nodes for turn in values_at(element, row)]
    roles = role.get("map") or {"user": "user"}
    said = [
        t for t in turns if any(roles.get(text_of(v)) == "user" for v in values_at(role["path"], t))
    ]
    marked = sum(any(bool(value) for value in values_at(mark, turn)) for turn in said)
    return bool(said) and marked >= 0.9 * len(said)


def _open_end_share(view: View, element: str, inner: str, mapping: dict[str, str | None]) -> float:
    said = [s for s in field_sequences(view, element, inner) if s]
    ends = sum(1 for s in said if mapping.get(s[-1]) != "assistant")
    return ends / max(1, len(said))


def _with_tool_calls(view: View, element: str, content: str, said: Json) -> Json:
    """What is said, before it the reasoning and after it the tool calls that messages carry."""
    parts: list[Json] = [said]
    for facts in view.facts.paths:
        inner = path_below(facts.path, element) if facts.path.startswith(element + ".") else ""
        calls = inner in alias_tables()["assistant_calls"] and facts.types.get("list")
        if calls and facts.items and facts.items.low > 0:
            parts.append({"path": inner, "as": "json"})
        reasons = quote_name(inner) == inner and name_strength(inner, "rationale") >= 0.95
        if inner and inner != content and reasons and facts.chars:
            parts.insert(0, inner)
    return join_parts(parts)


def _talk_with_roles(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    found = _find_role_field(view, element, fields)
    if not found:
        return None
    field, mapping, sure = found
    content = _find_content(view, element, fields, field.inner)
    if content is None or _all_sides_equal(field_sequences(view, element, content)):
        return None
    role: dict[str, Json] = {"path": field.inner}
    if mapping != {name: name for name in mapping}:
        role["map"] = mapping
    entry = _role_entry(view, element, fields, role, content)
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in mapping.items())
    return Talk(
        path=path,
        entries=(entry,),
        score=0.7 + 0.28 * sure,
        why=f"{path} lists messages with their speakers",
        ends_open=_open_end_share(view, element, field.inner, mapping),
        evidence=role_evidence(field.inner, spoken, sure),
        used=frozenset({join_inner_path(element, content)}),
        most=MOST_BRANCHED if has_branches(view, element) else 1.0,
    )


def _all_sides_equal(said: list[list[str]]) -> bool:
    """Whether all sides say the same: a thing that both have, no conversation."""
    several = [s for s in said if len(s) > 1]
    return bool(several) and sum(len(set(s)) == 1 for s in several) > 0.5 * len(several)


def _role_entry(
    view: View, element: str, fields: list[Field], role: dict[str, Json], content: str
) -> dict[str, Json]:
    said = _with_tool_calls(view, element, content, _spoken_text(view, element, content, fields))
    entry: dict[str, Json] = {"each": element, "role": role, "content": said}
    if where := _spoken_turns(fields, role["path"]):
        entry["where"] = where
    if mask := _mask_field(view, element, fields, role):
        entry["loss_mask"] = mask
    return entry


def _spoken_turns(fields: list[Field], speaker: str) -> list[Json]:
    """Conditions on the turns: no notes, no events, nothing that the other side does not see."""
    found: list[Json] = []
    for one in fields:
        values = [text_of(value) for value, _ in one.facts.values]
        left = left_out_values(one.name, values) if one.inner != speaker else []
        rare = 2 * one.facts.filled < max(other.facts.filled for other in fields)
        if left and (rare or len(left) < len(values)):
            truth = bool(one.facts.types.get("boolean"))
            said: list[Json] = [text == "true" for text in left] if truth else list(left)
            found.append({"path": one.inner, "not_in": said})
    return found


_EDITED = re.compile(r"edit|revis|correct|amend|rewrit|修订|修改|更正|訂正|修正", re.IGNORECASE)


def _spoken_text(view: View, element: str, content: str, fields: list[Field]) -> Json:
    """The text of a turn: as it stands, of blocks in a list, or either where both occur."""
    path = join_inner_path(element, content)
    blocks = [
        path_below(f.path, element)
        for f in view.facts.paths
        if f.path.startswith(f"{path}[*].")
        and f.chars
        and name_strength(last_name(f.path), "utterance") >= 0.9
    ]
    facts = view.facts.get(path)
    if "[*]" in content:
        plain = content[: content.index("[*]")]
        whole = view.facts.get(join_inner_path(element, plain))
        both = bool(whole and whole.types.get("string") and quote_name(plain) == plain)
        parts = joined_pieces(view, path, content)
        return {"any_of": [parts, plain]} if both else parts
    if facts and facts.types.get("list") and blocks:
        parts = joined_pieces(view, join_inner_path(element, blocks[0]), blocks[0])
        return {"any_of": [parts, content]}
    # What was edited later stands for what was said first.
    edited = [f for f in fields if _EDITED.search(_first_name(f.inner)) and text_weight(f) > 0]
    last = max(edited, key=text_weight, default=None)
    if facts and last and last.facts.filled < 0.9 * facts.filled and last.inner != content:
        return {"any_of": [last.inner, content]}
    return text_kinds_content(view, element, content, fields)


HOST_SHARE, GUEST_SHARE = 0.7, 0.35  # of the conversations that one side takes part in
_FEWEST_TALKS = 4


def _hosted_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Many speakers of whom one is in nearly all conversations: that one answers all others."""
    for one in fields:
        said = [s for s in field_sequences(view, element, one.inner) if len(s) > 1]
        if len(said) < _FEWEST_TALKS or not one.facts.types.get("string"):
            continue
        counts = Counter(value for s in said for value in set(s))
        (host, most), *others = counts.most_common()
        guests = max((count for _, count in others), default=0)
        often = sum(map(len, said)) / max(1, len(counts))
        known = {speaker_role(value) for value in counts} & {"user", "assistant"}
        if most < HOST_SHARE * len(said) or guests > GUEST_SHARE * len(said) or known:
            continue
        content = _find_content(view, element, fields, one.inner)
        if len(counts) < _FEWEST_TALKS or often < 1.5 or content is None:
            continue
        role: dict[str, Json] = {"path": one.inner, "map": {host: "assistant", "*": "user"}}
        ends = sum(s[-1] != host for s in said) / len(said)
        return Talk(
            path=path,
            entries=(_role_entry(view, element, fields, role, content),),
            score=0.8 + 0.1 * name_strength(one.name, "speaker"),
            why=f"{host} takes part in most conversations of {path}, everybody else in few",
            ends_open=ends,
            evidence=role_evidence(one.inner, f"{host} = assistant, all others = user", 0.8),
            used=frozenset({join_inner_path(element, content)}),
        )
    return None


def _talk_with_members(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Messages whose writers stand in a list beside them, which says who is the assistant."""
    for other, member in list_elements(view):
        if other == path or element.count("[*]") != 1 or member.count("[*]") != 1:
            continue
        columns = element_fields(view, member)
        found = _find_role_field(view, member, columns)
        for one, key in product(fields, columns if found else ()):
            said = field_sequences(view, element, one.inner)
            known = field_sequences(view, member, key.inner)
            content = _find_content(view, element, fields, one.inner)
            writers = [(set(a), set(b)) for a, b in zip(said, known, strict=True) if a]
            fit = sum(a <= b for a, b in writers) > 0.9 * len(writers)
            if found is None or content is None or not fit or not any(map(any, known)):
                continue
            taken, mapping, sure = found
            of: Json = {"lookup": f"^.{member}", "key": key.inner, "of": one.inner}
            role: dict[str, Json] = {"path": {**of, "take": taken.inner}, "map": mapping}
            entry = _role_entry(view, element, fields, {"path": one.inner}, content)
            return Talk(
                path=path,
                entries=({**entry, "role": role},),
                score=0.7 + 0.25 * sure,
                why=f"{other} says who is who among the writers in {one.inner}",
                ends_open=0.0,
                evidence=role_evidence(one.inner, f"looked up in {other}", sure),
                used=frozenset({join_inner_path(element, content)}),
            )
    return None


def _talk_with_some_roles(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Speakers of whom some are understood: the others stay out of the map, for a person."""
    found = find_speakers(view, element, fields)
    content = _find_content(view, element, fields, found.field.inner) if found else None
    if found is None or content is None or not found.roles or not found.unknown:
        return None
    inner = found.field.inner
    role: dict[str, Json] = {"path": inner, "map": found.roles}
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in found.roles.items())
    sure = found.understood
    others = dict.fromkeys(found.unknown, "assistant")  # an open end is known only of the known
    return Talk(
        path=path,
        entries=(_role_entry(view, element, fields, role, content),),
        score=0.8 + 0.1 * sure + 0.06 * name_strength(found.field.name, "speaker"),
        why=f"{path} lists messages, but speakers in {inner} are not understood: {found.strangers}",
        ends_open=_open_end_share(view, element, inner, {**found.roles, **others}),
        evidence=role_evidence(
            inner, f"{spoken}; not understood: {found.strangers}", min(sure, MOST_PARTIAL)
        ),
        used=frozenset({join_inner_path(element, content)}),
        most=MOST_PARTIAL,
        unknown=frozenset(found.unknown),
    )


def _alternating_talk(
    view: View, path: str, element: str, content: str, why: str, score: float
) -> Talk:
    said = field_sequences(view, element, content)
    odd = sum(len(s) % 2 for s in said) / max(1, len(said))
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
    said = [[t for t in s if t.strip()] for s in field_sequences(view, element, inner)]
    said = [s for s in said if s]
    if not said:
        return 0.0
    several = sum(len(s) > 1 for s in said) / len(said)
    even = sum(len(s) % 2 == 0 for s in said) / len(said)
    words = [count_words(t) for s in said for t in s]
    prose = sum(w >= 3 for w in words) / len(words)
    named = name_strength(last_name(path), "turns") if path != "$" else 0.7
    replies = [t for s in said for t in s[1::2]]
    asking = sum(map(is_question, replies)) / max(1, len(replies))
    if several < 0.6 or prose < 0.5 or asking > 0.75:
        return 0.0
    return 0.35 * named + 0.2 * even + 0.15 * several + 0.1 * prose + 0.2 * _texts_ask(said)


def _texts_ask(said: list[list[str]]) -> bool:
    """Whether short texts ask now and then, in most conversations: so do people, not paragraphs."""
    texts = [text for one in said for text in one]
    size = sorted(map(count_words, texts))[len(texts) // 2]
    asked = [sum(map(is_question, one)) for one in said]
    usual = sum(count > 0 for count in asked) >= 0.6 * len(said)
    return usual and size <= 30 and sum(asked) <= 0.75 * len(texts)


def _plain_text_talk(view: View, path: str, element: str) -> Talk | None:
    """Elements that are texts, spoken in turn."""
    facts = view.facts.get(element)
    if facts is None or not facts.types.get("string") or not facts.chars:
        return None
    score = _turn_likeness(view, path, element, "$")
    marked = texts_begin_with_speaker(
        [t for said in field_sequences(view, element, "$") for t in said]
    )
    if score < 0.3 or marked:
        return None
    talk = _alternating_talk(view, path, element, "$", f"{path} lists texts that alternate", score)
    return _guessed_talk(talk) if has_other_speakers(view, element) else talk


def _speakerless_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Objects with one text each and no speaker: they take turns."""
    texts = [f for f in fields if f.name and text_weight(f) > 0]
    if not texts:
        return None
    content = _find_content(view, element, texts, "")
    if content is None or "[" in content:
        return None
    score = _turn_likeness(view, path, element, content)
    named = name_strength(last_name(content), "utterance")
    if score < 0.3:
        return None
    score = min(0.9, score + 0.1 * named)
    found = find_speakers(view, element, [f for f in fields if f.inner != content])
    if found is None or found.in_order:
        why = f"{path} lists utterances without speakers"
        return _alternating_talk(view, path, element, content, why, score)
    doubt = f"although {found.field.inner} may say who speaks: {found.strangers}"
    why = f"{path} lists utterances taken in turn, {doubt}"
    return _guessed_talk(_alternating_talk(view, path, element, content, why, score))


def _guessed_talk(talk: Talk) -> Talk:
    """Turns by order where a column may say otherwise: nothing to be sure of."""
    unsure = tuple(
        replace(one, confidence=min(one.confidence, MOST_GUESSED)) for one in talk.evidence
    )
    return replace(talk, most=MOST_GUESSED, evidence=unsure)


def find_talks(view: View) -> list[Talk]:
    """Every place that holds a conversation, best first."""
    found: list[Talk] = []
    for path, element in list_elements(view):
        slots = ("rejected", "example", "options") if path != "$" else ()
        if any(name_strength(last_name(path), slot) >= 0.8 for slot in slots):
            continue
        fields = element_fields(view, element)
        talk = (
            _talk_with_roles(view, path, element, fields)
            or step_talk(view, path, element, fields)
            or _talk_with_members(view, path, element, fields)
            or _hosted_talk(view, path, element, fields)
            or two_key_talk(view, path, element, fields)
            or _talk_with_some_roles(view, path, element, fields)
            or _speakerless_talk(view, path, element, fields)
            or pair_list_talk(view, path, element)
            or _plain_text_talk(view, path, element)
        )
        if talk:
            found.append(talk)
    found += parallel_speaker_talks(view)
    found += parallel_list_talk(view)
    found += numbered_column_talk(view)
    return sorted(found, key=lambda talk: -talk.score)
