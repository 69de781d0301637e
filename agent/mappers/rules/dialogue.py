"""Conversations held in lists or objects: with roles, taken in turn, as pairs, as a tree.

Every list of the rows is asked what its elements are: objects with a speaker and an utterance, objects
with both sides of a turn, pairs, or bare texts that alternate.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ingot.agent.mappers.proposal import Evidence
from ingot.agent.mappers.rules.names import role_of, spelled, strength
from ingot.agent.mappers.rules.table import Column, View, hits, last_name, list_of, text_of
from ingot.agent.mappers.rules.transcripts import wrapping_marks
from ingot.converters.paths import Mark, Names, compile_path, steps_text
from ingot.converters.profile import PathFacts
from ingot.converters.rows import Json
from ingot.converters.text_kinds import is_question, words_in

MAX_ROLES = 16
_NUMBERED = re.compile(r"(.*?)_?(\d+)")


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation found at one place.

    Attributes:
        path: of the list (`messages`), without its wildcard.
        entries: message entries of the mapping.
        score: 0..1.
        why: in a few words.
        ends_open: share of the rows whose conversation ends without an assistant's turn.
        evidence: the decision about roles.
    """

    path: str
    entries: tuple[dict[str, Json], ...]
    score: float
    why: str
    ends_open: float
    evidence: tuple[Evidence, ...] = ()
    used: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Field:
    """A scalar below the elements of a list: its path inside an element, and its facts."""

    inner: str
    facts: PathFacts

    @property
    def name(self) -> str:
        """Its own name."""
        return last_name(self.inner) if self.inner != "$" else ""


def inner_path(path: str, prefix: str) -> str:
    """What is left of a path below a prefix (`$` where nothing is)."""
    rest = path[len(prefix) :]
    return rest.removeprefix(".") or "$"


def _under(element: str, inner: str) -> str:
    """The path of a field in its row."""
    if inner == "$":
        return element
    return element + inner if inner.startswith("[") else f"{element}.{inner}"


def lists_of(view: View) -> Iterator[tuple[str, str]]:
    """Places with several elements: their path, and the path of an element (`[*]` or `.*`)."""
    for facts in view.facts.paths:
        steps = compile_path(facts.path).steps
        if steps and isinstance(steps[-1], Mark) and steps[-1].mark in ("[*]", "*"):
            before = [step for step in steps[:-1] if isinstance(step, Mark)]
            if not before:
                yield steps_text(steps[:-1]), facts.path


def fields_of(view: View, element: str) -> list[Field]:
    """Scalars inside the elements, not inside further lists."""
    found = []
    for facts in view.facts.paths:
        if not facts.path.startswith(element) or facts.path == element:
            continue
        inner = inner_path(facts.path, element)
        if inner[0] != "[" or inner.startswith("['"):
            wild = [s for s in compile_path(inner).steps if isinstance(s, Mark)]
            if not wild and _scalar(facts):
                found.append(Field(inner=inner, facts=facts))
    return found


def _scalar(facts: PathFacts) -> bool:
    return any(facts.types.get(kind) for kind in ("string", "integer", "number", "boolean"))


def role_values(facts: PathFacts) -> dict[str, int] | None:
    """The different values of a field, where there are few enough to be speakers."""
    counted = {text_of(value): count for value, count in facts.values}
    return counted if 1 <= len(counted) <= MAX_ROLES else None


def _sequences(view: View, element: str, inner: str) -> list[list[str]]:
    path = _under(element, inner)
    return [[text_of(v) for v in hits(path, row)] for row in view.nodes]


def _alternates(sequences: list[list[str]]) -> bool:
    """Whether two values take strict turns in nearly every conversation."""
    longer = [s for s in sequences if len(s) > 1]
    strict = sum(all(a != b for a, b in zip(s, s[1:], strict=False)) for s in longer)
    return bool(longer) and strict >= 0.9 * len(longer)


def role_map(values: dict[str, int], sequences: list[list[str]]) -> dict[str, str | None] | None:
    """Speakers to roles: by what their names stand for, else two strangers by who begins."""
    named = {value: role_of(value) for value in values}
    letters = {value.lower() for value in values if len(value) == 1}
    if letters and not {"q", "a"} <= letters:
        named = {value: role if len(value) > 1 else None for value, role in named.items()}
    if (
        set(named.values()) == {"user", "system"}
        and len(values) == 2
        and _answered(named, sequences)
    ):
        return {value: "user" if role == "user" else "assistant" for value, role in named.items()}
    if all(named.values()) and _speaks_both(named):
        return {value: None if role == "drop" else role for value, role in named.items()}
    known = {role for role in named.values() if role in ("user", "assistant")}
    unknown = [value for value, role in named.items() if role is None]
    if len(unknown) == 1 and len(known) == 1 and len(values) <= 5:
        other = "assistant" if known == {"user"} else "user"
        return {
            v: (r if r != "drop" else None) or (other if v in unknown else None)
            for v, r in named.items()
        }
    if len(values) == 2 and _alternates(sequences):
        first = Counter(s[0] for s in sequences if s).most_common(1)[0][0]
        return {value: "user" if value == first else "assistant" for value in values}
    if all(named.values()) and set(named.values()) <= {"user", "system"}:
        return {value: role for value, role in named.items()}
    return None


def _answered(named: dict[str, str | None], sequences: list[list[str]]) -> bool:
    """Whether a `system` is the machine of a dialogue: it speaks later than the first turn, again and again."""
    later = [named.get(value) for s in sequences for value in s[1:]]
    return later.count("system") > 0.3 * len(later)


def _speaks_both(named: dict[str, str | None]) -> bool:
    return {"user", "assistant"} <= set(named.values())


def _role_field(
    view: View, element: str, fields: list[Field]
) -> tuple[Field, dict[str, str | None], float] | None:
    """The field that says who speaks, its map, and how sure that is."""
    best: tuple[float, Field, dict[str, str | None]] | None = None
    for one in fields:
        values = role_values(one.facts)
        if values is None or one.facts.types.get("number"):
            continue
        mapping = role_map(values, _sequences(view, element, one.inner))
        if mapping is None:
            continue
        aliases = sum(role_of(v) is not None for v in values) / len(values)
        sure = 0.55 * aliases + 0.3 * strength(one.name, "speaker") + 0.15
        if best is None or sure > best[0]:
            best = (sure, one, mapping)
    return (best[1], best[2], best[0]) if best and best[0] > 0.3 else None


def _text_weight(view: View, element: str, one: Field) -> float:
    """How much running text a field of the elements carries."""
    facts = one.facts
    if not facts.chars or facts.types.get("string", 0) == 0:
        return 0.0
    if (
        max(facts.looks.get(k, 0.0) for k in ("url", "uuid", "hash", "time", "number", "file"))
        > 0.7
    ):
        return 0.0
    total = facts.chars.total
    if facts.distinct <= max(2, 0.05 * facts.filled) and facts.filled > 20:
        total *= 0.05
    total *= 0.3 + 0.7 * facts.distinct / max(1, facts.filled)
    return total * (1 + strength(one.name, "utterance"))


def _content(view: View, element: str, fields: list[Field], not_this: str) -> str | None:
    """The path of what is said, inside an element: a text, or the texts of a list of parts."""
    flat = [(_text_weight(view, element, f), f.inner) for f in fields if f.inner != not_this]
    best = max(flat, default=(0.0, ""))
    for facts in view.facts.paths:
        inner = inner_path(facts.path, element) if facts.path.startswith(element + ".") else ""
        parts = compile_path(inner).steps if inner else ()
        wild = [s for s in parts if isinstance(s, Mark)]
        if len(wild) != 1 or not facts.types.get("string") or wild[0].mark != "[*]":
            continue
        one = Field(inner=inner, facts=facts)
        if strength(last_name(inner), "utterance") < 0.5:
            continue
        weight = _text_weight(view, element, one)
        head = strength(_head(inner), "utterance")
        best = max(best, (weight * (1 + head), inner))
    return best[1] if best[0] > 0 else None


def _head(inner: str) -> str:
    first = compile_path(inner).steps[0]
    return first.names[0] if isinstance(first, Names) else ""


def _mask(fields: list[Field]) -> str | None:
    """A field that says which turns are trained on."""
    for one in fields:
        values = {value for value, _ in one.facts.values}
        plain = values and values <= {"true", "false", 0, 1, 0.0, 1.0}
        if plain and strength(one.name, "weight") >= 0.9:
            return one.inner
    return None


def _open_end(view: View, element: str, inner: str, mapping: dict[str, str | None]) -> float:
    sequences = [s for s in _sequences(view, element, inner) if s]
    ends = sum(1 for s in sequences if mapping.get(s[-1]) != "assistant")
    return ends / max(1, len(sequences))


def _with_roles(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    found = _role_field(view, element, fields)
    if not found:
        return None
    field, mapping, sure = found
    content = _content(view, element, fields, field.inner)
    if content is None:
        return None
    role: dict[str, Json] = {"path": field.inner}
    if mapping != {name: name for name in mapping}:
        role["map"] = mapping
    entry: dict[str, Json] = {"each": element, "role": role, "content": content}
    if mask := _mask(fields):
        entry["loss_mask"] = mask
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in mapping.items())
    return Talk(
        path=path,
        entries=(entry,),
        score=0.7 + 0.28 * sure,
        why=f"{path} lists messages with their speakers",
        ends_open=_open_end(view, element, field.inner, mapping),
        evidence=(
            Evidence(target="messages.role", choice=field.inner, why=spoken, confidence=sure),
        ),
        used=frozenset({_under(element, content)}),
    )


def _side(name: str) -> tuple[float, float]:
    """How far a name is the user's side of a turn, and the assistant's."""
    role = role_of(name)
    user = max(
        strength(name, "question"),
        0.8 * strength(name, "input"),
        0.8 * strength(name, "instruction"),
    )
    assistant = strength(name, "answer")
    return max(user, float(role == "user")), max(assistant, float(role == "assistant"))


def _machine(one: Field) -> float:
    """A `system` beside a `user` that says something else every time is the machine of a dialogue."""
    varied = one.facts.distinct > 0.5 * one.facts.filled
    return 0.7 * (role_of(one.name) == "system" and varied)


def _bare_text(view: View, element: str, one: Field) -> Json:
    """A side's text without the speaker's mark before it and the end mark after it, where all have them."""
    texts = [t for s in _sequences(view, element, one.inner) for t in s if t.strip()]
    marks = wrapping_marks(texts)
    return {"path": one.inner, "replace": dict.fromkeys(marks, "")} if marks else one.inner


def _as_pairs(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Elements that hold both sides of a turn under two keys."""
    texts = [f for f in fields if f.facts.chars and _text_weight(view, element, f) > 0]
    if len(texts) < 2:
        return None
    ranked = sorted(
        (
            (_side(a.name)[0] + max(_side(b.name)[1], _machine(b)), a, b)
            for a in texts
            for b in texts
            if a is not b
        ),
        key=lambda one: -one[0],
    )
    score, user, assistant = ranked[0]
    if score < 1.2:
        return None
    entries: list[dict[str, Json]] = []
    system = [f for f in texts if strength(f.name, "system") >= 0.8 and f not in (user, assistant)]
    entries = [
        {"each": element, "role": "user", "content": _bare_text(view, element, user)},
        {"each": element, "role": "assistant", "content": _bare_text(view, element, assistant)},
    ]
    named = strength(last_name(path), "turns") if path != "$" else 0.7
    spoken = role_of(user.name) == "user" and role_of(assistant.name) == "assistant"
    system_at = [
        Evidence(target="system", choice=f"{path}[0].{f.inner}", why="a system field in the turns")
        for f in system[:1]
    ]
    return Talk(
        path=path,
        entries=tuple(entries),
        score=0.6 + 0.1 * score + 0.15 * max(named, 0.7 * spoken),
        why=f"each element of {path} is a turn: {user.name} and {assistant.name}",
        ends_open=0.0,
        used=frozenset({_under(element, user.inner), _under(element, assistant.inner)}),
        evidence=tuple(system_at),
    )


def _in_turn(view: View, path: str, element: str, content: str, why: str, score: float) -> Talk:
    sequences = _sequences(view, element, content)
    odd = sum(len(s) % 2 for s in sequences) / max(1, len(sequences))
    entry = {"each": element, "role": ["user", "assistant"], "content": content}
    return Talk(
        path=path,
        entries=(entry,),
        score=score,
        why=why,
        ends_open=odd,
        evidence=(
            Evidence(
                target="messages.role",
                choice="user and assistant in turn",
                why=why,
                confidence=score,
            ),
        ),
        used=frozenset({_under(element, content)}),
    )


def _turns_score(view: View, path: str, element: str, inner: str) -> float:
    """How far bare texts in a list look like turns of a conversation rather than lines of a document."""
    sequences = [[t for t in s if t.strip()] for s in _sequences(view, element, inner)]
    sequences = [s for s in sequences if s]
    if not sequences:
        return 0.0
    several = sum(len(s) > 1 for s in sequences) / len(sequences)
    even = sum(len(s) % 2 == 0 for s in sequences) / len(sequences)
    words = [words_in(t) for s in sequences for t in s]
    prose = sum(w >= 3 for w in words) / len(words)
    named = strength(last_name(path), "turns") if path != "$" else 0.7
    replies = [t for s in sequences for t in s[1::2]]
    asking = sum(map(is_question, replies)) / max(1, len(replies))
    if several < 0.6 or prose < 0.5 or asking > 0.75:
        return 0.0
    return 0.35 * named + 0.2 * even + 0.15 * several + 0.1 * prose


def _bare(view: View, path: str, element: str) -> Talk | None:
    """Elements that are texts, spoken in turn."""
    facts = view.facts.get(element)
    if facts is None or not facts.types.get("string") or not facts.chars:
        return None
    score = _turns_score(view, path, element, "$")
    if score < 0.3:
        return None
    return _in_turn(view, path, element, "$", f"{path} lists texts that alternate", score)


def _twos(view: View, path: str, element: str) -> Talk | None:
    """Elements that are lists of two texts: a question and its answer."""
    facts, inside = view.facts.get(element), view.facts.get(f"{element}[*]")
    if not facts or not inside or not facts.items or not inside.chars:
        return None
    if facts.items.low < 2 or facts.items.high > 2:
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


def _speechless(view: View, path: str, element: str, fields: list[Field]) -> Talk | None:
    """Objects with one text each and no speaker: they take turns."""
    texts = [f for f in fields if _text_weight(view, element, f) > 0]
    if not texts:
        return None
    content = _content(view, element, texts, "")
    if content is None or "[" in content:
        return None
    score = _turns_score(view, path, element, content)
    named = strength(last_name(content), "utterance")
    if score < 0.3:
        return None
    why = f"{path} lists utterances without speakers"
    return _in_turn(view, path, element, content, why, min(0.9, score + 0.1 * named))


def talks(view: View) -> list[Talk]:
    """Every place that holds a conversation, best first."""
    found: list[Talk] = []
    for path, element in lists_of(view):
        if (
            path != "$"
            and max(strength(last_name(path), s) for s in ("rejected", "example")) >= 0.8
        ):
            continue
        fields = fields_of(view, element)
        talk = (
            _with_roles(view, path, element, fields)
            or _as_pairs(view, path, element, fields)
            or _speechless(view, path, element, fields)
            or _twos(view, path, element)
            or _bare(view, path, element)
        )
        if talk:
            found.append(talk)
    found += _in_step(view)
    found += _numbered(view)
    return sorted(found, key=lambda talk: -talk.score)


def _in_step(view: View) -> list[Talk]:
    """Two lists of the same lengths, questions in one and answers in the other."""
    columns = [
        c for c in view.columns if c.many and c.nature in ("text", "letter", "label", "number")
    ]
    best: tuple[float, Column, Column] | None = None
    for question in columns:
        for answer in columns:
            score = _side(_list_name(question))[0] + _side(_list_name(answer))[1]
            fits = question.path != answer.path and score >= 1.5 and question.text
            if fits and _equal_lengths(question, answer):
                score -= 0.01 * (answer.position + question.position)
                score += 0.2 * (question.nested and question.name == answer.name)
                score -= 0.3 * answer.named("rejected")
                best = max(
                    best or (0.0, question, answer), (score, question, answer), key=lambda b: b[0]
                )
    return [_stepped(view, best[1], best[2])] if best else []


def _list_name(column: Column) -> str:
    return last_name(list_of(column.path))


def _element(column: Column) -> str:
    head = list_of(column.path)
    return "[*]" if head == "$" else f"{head}[*]"


def _equal_lengths(a: Column, b: Column) -> bool:
    if list_of(a.path) == list_of(b.path):
        return False
    sizes = [(len(x), len(y)) for x, y in zip(a.values, b.values, strict=True) if x or y]
    same = sum(x == y for x, y in sizes)
    return (
        bool(sizes)
        and same >= 0.95 * len(sizes)
        and sum(x > 1 for x, _ in sizes) > 0.3 * len(sizes)
    )


def _options_in_step(view: View, question: Column) -> str | None:
    """A list of lists of options, as many as there are questions."""
    for facts in view.facts.paths:
        outer = facts.path.removesuffix("[*]") or "$"
        named = facts.path.endswith("[*][*]") and strength(last_name(outer), "options") >= 0.8
        sizes = [
            (len(hits(outer, node)), len(q))
            for node, q in zip(view.nodes, question.values, strict=True)
        ]
        if named and all(a == b for a, b in sizes):
            return outer
    return None


def _stepped(view: View, question: Column, answer: Column) -> Talk:
    each = [_element(c) for c in (question, answer)]
    inner = [
        f"[{n}]" + c.path.removeprefix(e)
        for n, (c, e) in enumerate(zip((question, answer), each, strict=True))
    ]
    options = _options_in_step(view, question)
    asked: Json = inner[0]
    if options:
        each.append(options)
        asked = [asked, {"path": "[2][*]", "label": "A. "}]
    entries: tuple[dict[str, Json], ...] = (
        {"each": each, "role": "user", "content": asked},
        {"each": each, "role": "assistant", "content": inner[1]},
    )
    return Talk(
        path=list_of(question.path),
        entries=entries,
        score=0.94,
        why=f"{each[0]} and {each[1]} are questions and answers in step",
        ends_open=0.0,
        used=frozenset({question.path, answer.path}),
    )


def _numbered(view: View) -> list[Talk]:
    """Turns in columns of their own: `user_1`, `bot_1`, `user_2`, ... or `turn1`, `turn2`, `turn3`."""
    found: dict[int, list[tuple[str, Column]]] = {}
    for column in view.columns:
        match = _NUMBERED.fullmatch(spelled(column.name))
        if match and not column.many and column.text:
            found.setdefault(int(match[2]), []).append((match[1], column))
    stems = list(dict.fromkeys(stem for turns in found.values() for stem, _ in turns))
    roles = [role_of(stem) for stem in stems]
    if len(stems) == 2 and set(roles) == {"user", "assistant"}:
        order = sorted(zip(roles, stems, strict=True), key=lambda one: one[0] == "assistant")
        said = [
            (role, c) for n in sorted(found) for role, s in order for t, c in found[n] if t == s
        ]
    elif len(stems) == 1 and max(strength(stems[0], s) for s in ("turns", "utterance")) >= 0.8:
        said = [(("user", "assistant")[n % 2], found[k][0][1]) for n, k in enumerate(sorted(found))]
    else:
        return []
    if len(said) < 2:
        return []
    return [
        Talk(
            path=said[0][1].path,
            entries=tuple({"role": role, "content": column.path} for role, column in said),
            score=0.93,
            why=f"{len(said)} columns are the turns of a conversation",
            ends_open=float(said[-1][0] != "assistant"),
            used=frozenset(column.path for _, column in said),
        )
    ]
