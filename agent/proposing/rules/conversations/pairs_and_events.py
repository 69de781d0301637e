"""Find conversations in lists of pairs, of the steps of an agent, and of events."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations, product

from ingot.agent.proposing.columns import Places, View, last_name, parse_json_text, text_of
from ingot.agent.proposing.names import (
    NAMED,
    PLAIN,
    left_out_values,
    name_group,
    name_strength,
    speaker_role,
    spell_name,
)
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import (
    Field,
    Talk,
    field_sequences,
    join_inner_path,
    join_parts,
    name_sides,
    path_below,
    text_weight,
    thought_part,
)
from ingot.agent.proposing.rules.conversations.transcripts import find_wrapping_marks
from ingot.converters.mapping.language import add_pick
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts
from ingot.converters.sources.text_kinds import count_words, is_question


def step_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Recognize the steps of an agent: its thoughts and actions, and what its tools return."""
    below = [f for f in view.facts.paths if f.path.startswith(f"{element}.")]
    direct = [f for f in below if "." not in path_below(f.path, element)]
    text_fields = [
        f
        for f in direct
        if speaker_role(last_name(f.path)) == "tool" and "[" not in f.path[len(element) :]
    ]
    thought = [
        f for f in direct if name_strength(last_name(f.path), "rationale") >= PLAIN and f.chars
    ]
    acted = [
        f for f in direct if _is_action(last_name(f.path)) and "[*]" not in f.path[len(element) :]
    ]
    if len(text_fields) != 1 or not acted:
        return None
    done = [thought_part(path_below(f.path, element), last_name(f.path)) for f in thought[:1]]
    done += [_step_value(f, path_below(f.path, element)) for f in acted]
    content_value = _step_value(text_fields[0], path_below(text_fields[0].path, element))
    used = {f.path for f in (*thought[:1], *acted, text_fields[0])}
    return Talk(
        path=path,
        entries=(
            {"each": element, "role": "assistant", "content": join_parts(done)},
            {"each": element, "role": "tool", "content": content_value},
        ),
        score=0.9,
        why=f"each element of {path} is a step of an agent, with what its tool returns",
        ends_open=1.0,
        used=frozenset(used),
    )


def _is_action(name: str) -> bool:
    return spell_name(name) in name_group("actions")


def _step_value(facts: PathFacts, inner: str) -> Json:
    whole = facts.types.get("object") or facts.types.get("list")
    return {"path": inner, "as": "json"} if whole else inner


MOST_ATTRIBUTES = 64  # keys
_SIDE = 0.8  # how far a key must be named like a question or an answer


def attribute_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Recognize a list of attributes with a key for the question and a key for the answer."""
    inside = view.elements(element)
    for key, value in product(filter(partial(_names_attributes, view, element), fields), fields):
        if key is value or text_weight(value) <= 0:
            continue
        values: dict[str, list[str]] = {}
        for names, texts in zip(inside.texts(key.inner), inside.texts(value.inner), strict=True):
            for name, text in product(names, texts):
                values.setdefault(name, []).append(text)
        spoken = {k for k, v in values.items() if _are_words(v)}
        asked, answered = (_key_of_side(spoken, place) for place in (0, 1))
        speak = speaker_role(asked or "") == "user" and speaker_role(answered or "") == "assistant"
        if asked and answered and not speak and not set(values[asked]) & set(values[answered]):
            return _attribute_talk(path, element, (key.inner, value.inner), (asked, answered))
    return None


def _names_attributes(view: View, element: str, key: Field) -> bool:
    """Whether a field has another value in every element of a row, two of them named for sides."""
    if not 2 <= key.facts.distinct <= MOST_ATTRIBUTES:
        return False
    key_texts = iter(view.elements(element).texts(key.inner))
    rows = [
        [name for names in islice(key_texts, len(row)) for name in names]
        for row in view.places.values(element)
    ]
    names = {name for row in rows for name in row}
    return all(len(set(row)) == len(row) for row in rows) and all(
        _key_of_side(names, place) for place in (0, 1)
    )


def _are_words(texts: list[str]) -> bool:
    parsed = sum(parse_json_text(text) is not None for text in texts)
    varied = len(set(texts)) > 0.5 * len(texts)
    return varied and not parsed and sum(map(count_words, texts)) >= 2 * len(texts)


def _tells(sides: tuple[float, float]) -> bool:
    return max(sides) >= _SIDE


def _key_of_side(keys: set[str], place: int) -> str | None:
    """The key named like a question (0) or an answer (1), by its last part that says so."""
    ranked = [
        (sides[place], key)
        for key in sorted(keys)
        for sides in [*filter(_tells, map(name_sides, re.split(r"[./:]", key)[::-1]))][:1]
    ]
    best = max(ranked, default=(0.0, ""))
    return best[1] if best[0] >= _SIDE else None


def _attribute_talk(
    path: str, element: str, inner: tuple[str, str], sides: tuple[str, str]
) -> Talk:
    key, value = inner
    first: dict[str, Json] = {
        "each": element,
        "where": [{"path": key, "in": [sides[0]]}],
        "role": "user",
        "content": value,
    }
    # In step with itself: entries with the same `each` would follow the order of the list.
    second: dict[str, Json] = {
        "each": [element, element],
        "where": [{"path": f"[0].{key}", "in": [sides[1]]}],
        "role": "assistant",
        "content": f"[0].{value}",
    }
    return Talk(
        path=path,
        entries=(first, second),
        score=0.8,
        why=f"{path} lists attributes, of which {sides[0]} is asked and {sides[1]} answered",
        ends_open=0.0,
        used=frozenset({join_inner_path(element, value)}),
    )


MOST_KINDS = 16  # of events
MOST_ALIKE = 0.7  # of the events hold their text under the same key, where they are messages
_MOST_STRANGE = 0.3  # the most that events may claim where a kind of them is not understood


@dataclass(frozen=True)
class _Kind:
    """Events of one kind: where their texts lie, and who speaks in them."""

    value: str
    texts: tuple[str, ...]
    role: Json
    named: bool
    count: int
    left_out: bool


def event_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Recognize events of several kinds, each with its text under a key of its own."""
    events = view.elements(element)
    best: list[_Kind] = []
    kind_field: Field | None = None
    for field in fields:
        if field.facts.types.get("string") and 2 <= field.facts.distinct <= MOST_KINDS:
            kinds = _event_kinds(events, fields, field)
            if _texts_differ(kinds) and len(kinds) > len(best):
                best, kind_field = kinds, field
    spoken = [kind for kind in best if kind.role and kind.texts and not kind.left_out]
    roles = {role for kind in spoken if kind.named for role in _possible_roles(kind.role)}
    if kind_field is None or not {"user", "assistant"} <= roles:
        return None
    strange = [kind for kind in best if kind.texts and not kind.role and not kind.left_out]
    doubt = f"; what {', '.join(kind.value for kind in strange)} is stays open" if strange else ""
    entries = [_kind_entry(element, kind_field.inner, kind) for kind in spoken]
    entries.sort(key=lambda entry: entry["role"] == "tool", reverse=True)
    return Talk(
        path=path,
        entries=tuple(entries),
        score=0.93,
        why=f"{path} lists events, with their texts where {kind_field.name} says{doubt}",
        ends_open=0.0,
        used=frozenset(join_inner_path(element, text) for kind in spoken for text in kind.texts),
        most=_MOST_STRANGE if strange else 1.0,
        where=_closing_condition(view, element, kind_field.inner, spoken),
    )


def _possible_roles(role: Json) -> list[Json]:
    return list(role["map"].values()) if isinstance(role, dict) else [role]


def _kind_entry(element: str, inner: str, kind: _Kind) -> dict[str, Json]:
    condition: Json = {"path": inner, "in": [kind.value] if kind.value else ["", None]}
    first, *rest = kind.texts
    led = thought_part(first, last_name(first)) if rest else first
    content = join_parts([led, *rest])
    return {"each": element, "where": [condition], "role": kind.role, "content": content}


def _texts_differ(kinds: list[_Kind]) -> bool:
    """Whether no key holds the texts of nearly all events."""
    counts: Counter[str] = Counter()
    for kind in kinds:
        counts.update(dict.fromkeys(kind.texts, kind.count))
    spoken = sum(kind.count for kind in kinds if kind.texts)
    return len(counts) > 1 and max(counts.values()) < MOST_ALIKE * spoken


def _event_kinds(events: Places, fields: list[Field], kind: Field) -> list[_Kind]:
    grouped: dict[str, list[int]] = {}
    for number, kinds in enumerate(events.values(kind.inner)):
        value = next((v for v in kinds if isinstance(v, str)), "")
        grouped.setdefault(value, []).append(number)
    left = left_out_values(kind.name, grouped)
    event_kinds = []
    for value, inside in grouped.items():
        samples = {f.inner: [events.values(f.inner)[n][:1] for n in inside] for f in fields}
        texts = [f.inner for f in fields if f is not kind and _hold_text(samples[f.inner])]
        texts.sort(key=lambda text: -name_strength(last_name(text), "rationale"))
        named = _event_role(value, texts, samples) if texts else None
        role = named or next((r for t in texts if (r := _named_role(last_name(t)))), None)
        out = value in left or speaker_role(value) == "drop"
        event_kinds.append(_Kind(value, tuple(texts), role, bool(named), len(inside), out))
    return event_kinds


def _hold_text(events: list[tuple[Json, ...]]) -> bool:
    """Whether what most events hold at a place is words of their own."""
    event_texts = [v for event in events for v in event if isinstance(v, str) and v.strip()]
    spoken = sum(count_words(text) > 1 for text in event_texts)
    several = len(set(event_texts)) > 0.5 * len(event_texts) or len(event_texts) < 3
    return len(event_texts) > 0.5 * len(events) and spoken > 0.5 * len(event_texts) and several


def _event_role(value: str, texts: list[str], samples: dict[str, list[tuple[Json, ...]]]) -> Json:
    """Who speaks in events of a kind: by a field that says so, or by their name."""
    for inner, events in samples.items():
        roles = {who: speaker_role(who) for event in events for who in map(text_of, event)}
        if inner in texts or not roles or not set(roles.values()) <= set(_ROLES):
            continue
        if len(set(roles.values())) == 1:
            return next(iter(roles.values()))
        return {"path": inner, "map": dict(roles)}
    return _named_role(value)


_ROLES = ("user", "assistant", "tool", "system")


def _named_role(name: str) -> str | None:
    """The role that a name of an event or of its text stands for."""
    role, (asked, answered) = speaker_role(name), name_sides(name)
    if role in _ROLES:
        return role
    if name_strength(name, "rationale") >= PLAIN or _is_action(name):
        return "assistant"
    if max(asked, answered) < 0.9:
        return None
    return "user" if asked > answered else "assistant"


def _closing_condition(
    view: View, element: str, inner: str, kinds: list[_Kind]
) -> tuple[Json, ...]:
    """Only rows with the answer that ends the others: the rest was broken off."""
    values = view.places.texts(f"{element}.{inner}")
    for kind in kinds:
        ends = sum(row.count(kind.value) == 1 and row.index(kind.value) > 0 for row in values)
        rivals = sum(other.texts == kind.texts for other in kinds)
        often = sum(row.count(kind.value) for row in values)
        usual = 0.6 * len(values) <= ends == often and rivals == 1
        last = all(_follows_all(row, kind.value, kinds) for row in values)
        if kind.role == "assistant" and usual and last:
            return ({"path": f"{element}.{kind.texts[0]}", "min_chars": 1},)
    return ()


def _follows_all(row: list[str], value: str, kinds: list[_Kind]) -> bool:
    spoken = [value for value in row if any(value == kind.value for kind in kinds)]
    return value not in spoken or spoken[-1] == value


def text_kinds_content(view: View, element: str, content: str, fields: list[Field]) -> Json:
    """Return the content of the elements, limited to the kinds that hold a text."""
    facts = view.facts.get(join_inner_path(element, content))
    if facts is None or not (facts.types.get("object") or facts.types.get("list")):
        return content
    elements = view.elements(element)
    for kind in fields:
        text_kinds = _text_kinds(elements, content, kind.inner) if kind.facts.values else ()
        if text_kinds:
            branches: Json = {**dict.fromkeys(text_kinds, 0), "*": None}
            return add_pick({"path": content}, {"path": kind.inner, "map": branches})
    return content


def _text_kinds(elements: Places, content: str, kind: str) -> list[str]:
    """The kinds whose elements hold a text, [] where some kind holds texts and things."""
    value_types: dict[str, set[type]] = {}
    for name, values in zip(elements.firsts(kind), elements.values(content), strict=True):
        value_types.setdefault(name, set()).update(map(type, values))
    mixed = any(str in types and types & {dict, list} for types in value_types.values())
    return [] if mixed else [name for name, types in value_types.items() if name and str in types]


ASKING_NAMES = ("question", "q", "query", "input", "instruction", "问", "问题", "prompt")


def _is_machine_field(field: Field) -> float:
    """A `system` beside a `user` that varies from turn to turn is the machine of a dialogue."""
    varied = field.facts.distinct > 0.5 * field.facts.filled
    return 0.7 * (speaker_role(field.name) == "system" and varied)


def _asking_strength(field: Field) -> float:
    """How far a field is the user's side; what came before an answer may be called its context."""
    return max(name_sides(field.name)[0], 0.5 * (name_strength(field.name, "context") == 1))


def _side_text(view: View, element: str, field: Field) -> Json:
    """A side's text without the speaker's mark and the end mark, where all texts have them."""
    texts = [t for s in field_sequences(view, element, field.inner) for t in s if t.strip()]
    marks = find_wrapping_marks(texts)
    return {"path": field.inner, "replace": dict.fromkeys(marks, "")} if marks else field.inner


def two_key_talk(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Recognize elements that hold both sides of a turn under two keys."""
    texts = [f for f in fields if f.facts.chars and text_weight(f) > 0]

    def pair_strength(pair: tuple[Field, ...]) -> float:
        side = max(name_sides(pair[1].name)[1], _is_machine_field(pair[1]))
        return _asking_strength(pair[0]) + side

    best = max(permutations(texts, 2), key=pair_strength, default=None)
    if best is None or (score := pair_strength(best)) < 1.2:
        return None
    user, assistant = best
    system = [
        f for f in texts if name_strength(f.name, "system") >= NAMED and f not in (user, assistant)
    ]
    entries = [
        {"each": element, "role": "user", "content": _side_text(view, element, user)},
        {"each": element, "role": "assistant", "content": _side_text(view, element, assistant)},
    ]
    named = name_strength(last_name(path), "turns") if path != "$" else 0.7
    spoken = speaker_role(user.name) == "user" and spell_name(user.name) not in ASKING_NAMES
    system_at = [
        Evidence(target="system", choice=f"{path}[0].{f.inner}", why="a system field in the turns")
        for f in system[:1]
    ]
    return Talk(
        path=path,
        entries=tuple(entries),
        score=0.55 + 0.1 * score + 0.2 * max(named, 0.7 * spoken),
        why=f"each element of {path} is a turn: {user.name} and {assistant.name}",
        ends_open=0.0,
        used=frozenset(
            {join_inner_path(element, user.inner), join_inner_path(element, assistant.inner)}
        ),
        evidence=tuple(system_at),
    )


def pair_list_talk(view: View, path: str, element: str) -> Talk | None:
    """Recognize elements that are lists of two texts: a question and its answer."""
    facts, inside = view.facts.get(element), view.facts.get(f"{element}[*]")
    if not facts or not inside or not facts.items or not inside.chars:
        return None
    if facts.items.low < 2 or facts.items.high > 2 or not _pairs_are_spoken(view, element):
        return None
    entries = tuple(
        {"each": element, "role": role, "content": f"[{place}]"}
        for place, role in enumerate(("user", "assistant"))
    )
    return Talk(
        path=path,
        entries=entries,
        score=0.85,
        why=f"{path} lists pairs of texts",
        ends_open=0.0,
        used=frozenset({f"{element}[*]"}),
    )


def _pairs_are_spoken(view: View, element: str) -> bool:
    """Whether pairs are said: the first texts are words of some length, no few names of slots."""
    first, second = (
        [text for row in field_sequences(view, element, place) for text in row if text.strip()]
        for place in ("[0]", "[1]")
    )
    if not first or not second:
        return False
    spoken = sum(count_words(t) >= 3 or is_question(t) for t in first)
    return spoken >= 0.5 * len(first) and len(set(first)) > 0.2 * len(first)
