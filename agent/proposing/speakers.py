"""Find who speaks: the roles of a field's values, turns in parallel lists or numbered columns."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ingot.agent.proposing.columns import (
    Column,
    View,
    has_several,
    judged_once,
    last_name,
    list_path,
    outer_names,
    text_of,
    values_at,
)
from ingot.agent.proposing.names import (
    NAMED,
    name_group,
    name_strength,
    says_yes,
    speaker_role,
    spell_name,
)
from ingot.agent.proposing.readings import Field, Talk, field_sequences, name_sides, role_evidence
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts

_ASKING_PREFIXES = ("is_", "was_", "from_", "by_", "sent_by_", "is_from_", "is_by_")
_SIDE_NAMES = {
    **dict.fromkeys(("inbound", "incoming", "human", "user", "customer", "client"), "user"),
    **dict.fromkeys(("outbound", "outgoing", "bot", "agent", "assistant"), "assistant"),
}
# What is said, not who says it: `is_answer` tells which of the answers was accepted.
_THING_NAMES = name_group("things")
_OTHER = {"user": "assistant", "assistant": "user"}


def flag_roles(name: str, values: Iterable[str]) -> dict[str, str | None] | None:
    """Return the roles of yes and no if a field's name asks whether one side speaks."""
    side = _asked_role(spell_name(name))
    answers = {value: says_yes(value) for value in values} if side in _OTHER else {}
    if side is None or None in answers.values() or len(answers) != 2:
        return None
    return {value: side if yes else _OTHER[side] for value, yes in answers.items()}


def speaking_role(name: str) -> str | None:
    """Return the role that a speaker's name means, None for a name of content."""
    return _SIDE_NAMES.get(name) or (None if name in _THING_NAMES else speaker_role(name))


def _asked_role(name: str) -> str | None:
    for start in sorted(_ASKING_PREFIXES, key=len, reverse=True):
        if name.startswith(start):
            return speaking_role(name.removeprefix(start))
    return _SIDE_NAMES.get(name)


MAX_ROLES = 16
MAX_SPEAKERS = 64
SHOWN_NAMES = 5
LONG_TALK = 3  # turns: taking turns is no accident then
LEAST_SURE = 0.3
STRICT_SHARE = 0.98


@dataclass(frozen=True, kw_only=True)
class Speakers:
    """A field of the elements that seems to say who speaks, though not all of it is understood.

    Attributes:
        roles: the understood values with their roles (None = left out of the conversation); empty
            where no value is the user or the assistant.
        understood: share of the elements whose value is understood.
        in_order: two speakers take strict turns: the order says as much as their names.
    """

    field: Field
    roles: dict[str, str | None]
    unknown: dict[str, int]
    understood: float
    in_order: bool

    @property
    def strangers(self) -> str:
        """Return the values that are not understood, for people."""
        shown = [f"{value[:40]!r} ({count} times)" for value, count in self.unknown.items()]
        more = [f"{len(shown) - SHOWN_NAMES} more"] if len(shown) > SHOWN_NAMES else []
        return ", ".join([*shown[:SHOWN_NAMES], *more])


def find_speakers(view: View, element: str, fields: Iterable[Field]) -> Speakers | None:
    """Return the field that seems to name the speaker: few values, one per element, that change."""
    speakers = [s for field in fields if (s := _speakers_in_field(view, element, field))]

    def rank(one: Speakers) -> tuple[bool, float]:
        return bool(one.roles), one.understood + name_strength(one.field.name, "speaker")

    return max(speakers, key=rank, default=None)


def _speakers_in_field(view: View, element: str, field: Field) -> Speakers | None:
    facts = field.facts
    numbers = facts.types.get("integer") and _is_speaker_name(field)
    if not (facts.types.get("string") or numbers) or facts.filled < 0.95 * facts.places:
        return None
    talks = [[v for v in s if v.strip()] for s in field_sequences(view, element, field.inner)]
    few = facts.distinct <= min(MAX_SPEAKERS, 0.5 * facts.filled)
    again = sum(len(set(s)) for s in talks) <= 0.6 * sum(map(len, talks))
    if facts.distinct < 2 or not (few or (again and _is_speaker_name(field))):
        return None
    counts = dict(Counter(value for s in talks for value in s).most_common())
    named = _named_roles(counts)
    both = {"user", "assistant"} & set(named.values())
    if _change_share(talks) < (0.4 if both or _is_speaker_name(field) else 0.8):
        return None
    known = {v: None if r == "drop" else r for v, r in named.items() if r} if both else {}
    return Speakers(
        field=field,
        roles=known,
        unknown={value: count for value, count in counts.items() if value not in known},
        understood=sum(counts[value] for value in known) / sum(counts.values()),
        in_order=speakers_alternate(talks, nearly=STRICT_SHARE),
    )


def _is_speaker_name(field: Field) -> bool:
    """Whether a name says that somebody speaks (`speaker`, `senderId`)."""
    return name_strength(field.name, "speaker") >= 0.5


def _change_share(talks: list[list[str]]) -> float:
    pairs = [a != b for s in talks for a, b in itertools.pairwise(s)]
    return sum(pairs) / max(1, len(pairs))


def _named_roles(values: Iterable[str]) -> dict[str, str | None]:
    """What the names of speakers stand for; single letters do so only as `q` and `a`."""
    named = {value: speaker_role(value) for value in values}
    if len(named) > 1 and set(named.values()) in ({"user"}, {"assistant"}):
        return dict.fromkeys(named)  # `user1` and `user2`: two people, whatever they are called
    letters = {value.lower() for value in named if len(value) == 1 and value.isascii()}
    if letters and not {"q", "a"} <= letters:
        return {
            value: role if value.lower() not in letters else None for value, role in named.items()
        }
    return named


def roles_of_values(
    name: str, facts: PathFacts, talks: list[list[str]]
) -> tuple[dict[str, str | None], float] | None:
    """Return the roles that the values of a field stand for, and how sure that is."""
    counted = {text_of(value): count for value, count in facts.values}
    values = counted if 1 <= len(counted) <= MAX_ROLES else None
    if values is None or facts.types.get("number"):
        return None
    flags = flag_roles(name, values)
    mapping = flags or map_roles(values, talks)
    if mapping is None:
        return None
    aliases = 1.0 if flags else sum(speaker_role(v) is not None for v in values) / len(values)
    sure = 0.55 * aliases + 0.3 * (1.0 if flags else name_strength(name, "speaker")) + 0.15
    if not aliases and act_as_speakers(talks) and sum(map(len, talks)) >= LONG_TALK * len(talks):
        sure += 0.2
    return (mapping, sure) if sure > LEAST_SURE else None


def speakers_alternate(talks: list[list[str]], nearly: float = 0.9) -> bool:
    """Return whether two speakers alternate strictly in nearly every conversation."""
    longer = [s for s in talks if len(s) > 1]
    strict = sum(len(set(s)) == 2 and all(a != b for a, b in itertools.pairwise(s)) for s in longer)
    return bool(longer) and strict >= nearly * len(longer)


def _first_speaker(talks: list[list[str]]) -> str | None:
    firsts = Counter(s[0] for s in talks if s)
    first, count = firsts.most_common(1)[0] if firsts else (None, 0)
    return first if count >= 0.8 * firsts.total() else None


def act_as_speakers(talks: list[list[str]]) -> bool:
    """Return whether values act as two speakers: the same one begins, and they alternate."""
    longer = [s for s in talks if len(s) > 1]
    both = sum(len(set(s)) == 2 for s in longer)
    if not longer or both < 0.9 * len(longer) or _first_speaker(talks) is None:
        return False
    mean = sum(map(len, longer)) / len(longer)
    return speakers_alternate(talks) or (_change_share(talks) >= 0.6 and mean >= 4)


def map_roles(values: dict[str, int], talks: list[list[str]]) -> dict[str, str | None] | None:
    """Map speakers to roles by the meaning of their names, or two strangers by who begins."""
    named = _named_roles(values)
    if set(named.values()) == {"user", "system"} and len(values) == 2 and _is_machine(named, talks):
        return {value: "user" if role == "user" else "assistant" for value, role in named.items()}
    if all(named.values()) and {"user", "assistant"} <= set(named.values()):
        left = ("drop", "system") if _tells_news(named, talks) else ("drop",)
        return {value: None if role in left else role for value, role in named.items()}
    known = {role for role in named.values() if role in ("user", "assistant")}
    unknown = [value for value, role in named.items() if role is None]
    if len(unknown) == 1 and len(known) == 1 and len(values) <= 5:
        other = "assistant" if known == {"user"} else "user"
        return {
            v: (r if r != "drop" else None) or (other if v in unknown else None)
            for v, r in named.items()
        }
    if all(named.values()) and set(named.values()) <= {"user", "system"}:
        return dict(named)
    if len(values) == 2 and act_as_speakers(talks):
        first = _first_speaker(talks)
        return {value: "user" if value == first else "assistant" for value in values}
    return None


def _is_machine(named: dict[str, str | None], talks: list[list[str]]) -> bool:
    """Whether a `system` is the machine of a dialogue: it speaks later than at the start."""
    later = [named.get(value) for s in talks for value in s[1:]]
    return later.count("system") > 0.3 * len(later)


def _tells_news(named: dict[str, str | None], talks: list[list[str]]) -> bool:
    """Whether a `system` among people tells what goes on (`Ann has joined`): it begins nothing.

    Messages of a protocol, whose sides are `user` and `assistant`, are instructions in any place.
    """
    if {"user", "assistant"} <= set(named):
        return False
    turns = [[named.get(value) for value in sequence] for sequence in talks]
    count = sum(turn.count("system") for turn in turns)
    opening = sum(turn[:1].count("system") for turn in turns)
    return opening < 0.5 * count


TURN_NAMES = ("message", "msg", "utterance", "turn", "speech", "say", "发言", "消息", "话语")
TEXT_NATURES = ("text", "label", "letter", "empty")
OTHER_SLOTS = name_group("slots_of_no_turn")
_LONGEST = 200  # characters of a name: what is longer has no number
_NUMBERED = re.compile(r"(.*?)_?(?<!\d)(\d++)(?:_([^\d]+))?")


def parallel_list_talk(view: View) -> list[Talk]:
    """Find two lists of the same lengths, questions in one and answers in the other."""
    columns = [
        c for c in view.columns if c.many and c.nature in ("text", "letter", "label", "number")
    ]
    best: tuple[float, Column, Column] | None = None
    for question in columns:
        for answer in columns:
            score = name_sides(_list_own_name(question))[0] + name_sides(_list_own_name(answer))[1]
            fits = question.path != answer.path and score >= 1.5 and question.text
            if fits and _equal_lengths(question, answer):
                score -= 0.01 * (answer.position + question.position)
                score += 0.2 * (question.nested and question.name == answer.name)
                score -= 0.3 * answer.named("rejected")
                best = max(
                    best or (0.0, question, answer), (score, question, answer), key=lambda b: b[0]
                )
    return [_parallel_talk(view, best[1], best[2])] if best else []


def _list_own_name(column: Column) -> str:
    return last_name(list_path(column.path))


def _element_path(column: Column) -> str:
    head = list_path(column.path)
    return "[*]" if head == "$" else f"{head}[*]"


def _equal_lengths(a: Column, b: Column) -> bool:
    if list_path(a.path) == list_path(b.path):
        return False
    sizes = [(len(x), len(y)) for x, y in zip(a.values, b.values, strict=True) if x or y]
    same, longer = sum(x == y for x, y in sizes), sum(x > 1 for x, _ in sizes)
    return bool(sizes) and same >= 0.95 * len(sizes) and longer > 0.3 * len(sizes)


def _parallel_options(view: View, question: Column) -> str | None:
    """A list of lists of options, as many as there are questions."""
    for facts in view.facts.paths:
        outer = facts.path.removesuffix("[*]") or "$"
        named = (
            facts.path.endswith("[*][*]") and name_strength(last_name(outer), "options") >= NAMED
        )
        sizes = [
            (len(values_at(outer, node)), len(q))
            for node, q in zip(view.nodes, question.values, strict=True)
        ]
        if named and all(a == b for a, b in sizes):
            return outer
    return None


def _parallel_talk(view: View, question: Column, answer: Column) -> Talk:
    each = [_element_path(c) for c in (question, answer)]
    inner = [
        f"[{n}]" + c.path.removeprefix(e)
        for n, (c, e) in enumerate(zip((question, answer), each, strict=True))
    ]
    options = _parallel_options(view, question)
    asked: Json = inner[0]
    if options:
        each.append(options)
        asked = [asked, {"path": "[2][*]", "label": "A. "}]
    entries: tuple[dict[str, Json], ...] = (
        {"each": each, "role": "user", "content": asked},
        {"each": each, "role": "assistant", "content": inner[1]},
    )
    return Talk(
        path=list_path(question.path),
        entries=entries,
        score=0.94,
        why=f"{each[0]} and {each[1]} are questions and answers in step",
        ends_open=0.0,
        used=frozenset({question.path, answer.path}),
    )


def numbered_column_talk(view: View) -> list[Talk]:
    """Find turns in columns of their own: `user_1`, `bot_1`, `user_2`, ... or `turn1`, ..."""
    numbered: dict[int, dict[str, Column]] = {}
    for column in view.columns:
        name = _numbered_name(column)
        match = _NUMBERED.fullmatch(name) if len(name) <= _LONGEST else None
        if match and not column.many and column.nature in TEXT_NATURES:
            stem = "_".join(part for part in (match[1], match[3]) if part)
            numbered.setdefault(int(match[2]), {}).setdefault(stem, column)
    columns = _columns_in_order(numbered)
    if len(columns) < 2 or not all(column.text for _, column in columns[:2]):
        return []
    return [
        Talk(
            path=columns[0][1].path,
            entries=tuple({"role": role, "content": column.path} for role, column in columns),
            score=0.93 if _stem_roles(_name_stems(numbered)) else 0.85,
            why=f"{len(columns)} columns are the turns of a conversation",
            ends_open=float(columns[-1][0] != "assistant"),
            used=frozenset(column.path for _, column in columns),
        )
    ]


def _numbered_name(column: Column) -> str:
    """Its name, with the one around it where that has the number (`turn_1.user`)."""
    name, around = spell_name(column.name), outer_names(column.path)
    return name if any(map(str.isdigit, name)) or not around else f"{spell_name(around[-1])}_{name}"


def _name_stems(numbered: dict[int, dict[str, Column]]) -> list[str]:
    return list(dict.fromkeys(stem for turns in numbered.values() for stem in turns))


def _columns_in_order(numbered: dict[int, dict[str, Column]]) -> list[tuple[str, Column]]:
    stems = _name_stems(numbered)
    if len(stems) == 1 and (name_strength(stems[0], "turns") >= NAMED or stems[0] in TURN_NAMES):
        turns = enumerate(sorted(numbered))
        return [(("user", "assistant")[n % 2], numbered[k][stems[0]]) for n, k in turns]
    sides = _stem_roles(stems) or _alternating_stems(numbered, stems)
    return [
        (role, numbered[n][s]) for n in sorted(numbered) for role, s in sides if s in numbered[n]
    ]


def _stem_roles(stems: list[str]) -> list[tuple[str, str]]:
    """User and assistant with their stems, where the names of both say so."""
    named = {_stem_role(stem): stem for stem in stems}
    both = len(stems) == 2 and set(named) == {"user", "assistant"}
    return [(role, named[role]) for role in ("user", "assistant")] if both else []


def _stem_role(stem: str) -> str | None:
    """The role of `user`, `turn_user`, `user_turn` and of what is called a question alike."""
    words = stem.split("_")
    named = speaker_role(stem) or speaker_role(words[-1]) or speaker_role(words[0])
    asked, answered = name_sides(stem)
    return named or ("user" if asked > answered else "assistant" if answered > asked else None)


def _alternating_stems(
    numbered: dict[int, dict[str, Column]], stems: list[str]
) -> list[tuple[str, str]]:
    """Two stems that mean nothing else and take turns in the columns' order: the first begins."""
    meant = any(name_strength(stem, slot) >= NAMED for stem in stems for slot in OTHER_SLOTS)
    paired = len(stems) == 2 and all(len(turns) == 2 for turns in numbered.values())
    if meant or not paired or len(numbered) < 2:
        return []
    columns = sorted((c.position, s, c) for turns in numbered.values() for s, c in turns.items())
    order = [stem for _, stem, _ in columns]
    spoken = all(c.words >= 3 for _, _, c in columns if c.present)
    if not spoken or any(a == b for a, b in itertools.pairwise(order)):
        return []
    return [("user", order[0]), ("assistant", order[1])]


def parallel_speaker_talks(view: View) -> list[Talk]:
    """Find lists of texts beside another list of the same lengths that names the speakers."""
    lists = [c for c in view.columns if c.many and c.path.endswith("[*]")]
    texts = [c for c in lists if c.text and has_several(c)]
    return [
        talk
        for texts_column in texts
        for who in lists
        if (talk := _speaker_list_talk(view, texts_column, who))
    ]


def _speaker_list_talk(view: View, texts_column: Column, who: Column) -> Talk | None:
    value_roles = (
        _roles_of_list(who) if who is not texts_column and who.sizes == texts_column.sizes else None
    )
    if value_roles is None:
        return None
    roles, sure = value_roles
    role: dict[str, Json] = {"path": "[0]"}
    if roles != {value: value for value in roles}:
        role["map"] = roles
    each = [who.path, texts_column.path]
    spoken = ", ".join(f"{value} = {role or 'left out'}" for value, role in roles.items())
    ends = [roles.get(text_of(row[-1])) != "assistant" for row in who.values if row]
    return Talk(
        path=list_path(texts_column.path),
        entries=({"each": each, "role": role, "content": "[1]"},),
        score=0.7 + 0.28 * sure + 0.01 * name_strength(_list_own_name(texts_column), "utterance"),
        why=f"{who.path} says who speaks in {texts_column.path}",
        ends_open=sum(ends) / max(1, len(ends)),
        evidence=role_evidence(_list_own_name(who), spoken, sure),
        used=frozenset({texts_column.path}),
    )


@judged_once
def _roles_of_list(who: Column) -> tuple[dict[str, str | None], float] | None:
    talks = [[text_of(value) for value in row] for row in who.values]
    return roles_of_values(_list_own_name(who), who.facts, talks)


def has_other_speakers(view: View, path: str) -> bool:
    """Return whether a list beside the texts names speakers who do not alternate strictly."""
    column = view.column(path)
    lists = [
        c for c in view.columns if column and c.many and c is not column and c.sizes == column.sizes
    ]
    named = [c for c in lists if name_strength(_list_own_name(c), "speaker") >= NAMED]
    talks = [[[text_of(v) for v in row] for row in c.values] for c in named]
    return any(not speakers_alternate(talk, nearly=STRICT_SHARE) for talk in talks)
