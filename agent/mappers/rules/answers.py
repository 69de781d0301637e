"""Questions and answers in columns: which column is asked, which answers, and what belongs beside them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ingot.agent.mappers.proposal import Evidence
from ingot.agent.mappers.rules.choices import (
    Options,
    answer_value,
    find_options,
    inside_question,
    lettered_columns,
    refers,
    unnamed_choice,
)
from ingot.agent.mappers.rules.draft import Draft, user_assistant
from ingot.agent.mappers.rules.names import language_of, spelled, strength
from ingot.agent.mappers.rules.table import Column, View, last_name, names_around
from ingot.converters.paths import compile_path
from ingot.converters.rows import Json

ANSWERING = ("text", "label", "letter", "number", "mark")


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Columns by the part they play."""

    question: Column
    answer: Column
    system: Column | None = None
    before: tuple[Column, ...] = ()
    after: tuple[Column, ...] = ()
    rationale: Column | None = None
    options: Options | None = None
    how: str | None = None
    score: float = 0.0
    why: tuple[str, ...] = field(default=())


def _weak(column: Column) -> float:
    """How far the name speaks against a column being said at all."""
    kinds = ("label", "id", "foreign_id", "url", "author", "time", "rejected", "example", "tools")
    return max(column.named(kind) for kind in kinds)


def asks(column: Column) -> float:
    """How far a column is what the user says, 0..1 and a little more."""
    name = max(
        column.named("question"),
        0.9 * column.named("instruction"),
        0.75 * column.named("input"),
        0.65 * column.named("title"),
        0.45 * column.named("body"),
        0.4 * column.named("context"),
    )
    name = max(name, 0.7 * column.named("history") * (not column.many))
    against = 0.5 * column.named("rejected") + 0.4 * column.looks("code")
    return name + 0.35 * column.looks("question") - against


def answers(column: Column) -> float:
    """How far a column is what the assistant says."""
    name = max(
        column.named("answer"),
        column.named("chosen"),
        0.45 * column.named("body"),
        0.4 * column.named("rationale"),
        0.3 * column.named("lead"),
    )
    code = 0.4 * column.looks("code")
    prose = 0.1 * min(1.0, column.words / 12)
    against = 0.15 * column.looks("question") + 0.9 * max(
        column.named("rejected"), column.named("example")
    )
    against += 0.4 * column.named("context") * (name < 0.5)
    against += 0.6 * (column.named("question") >= 0.9 and name < 0.5 and column.looks("code") < 0.5)
    return name + code + prose - against - 0.3 * (column.looks("json") > 0.9)


def _same(a: Column, b: Column) -> bool:
    both = [(x, y) for x, y in zip(a.texts, b.texts, strict=True) if x.strip() and y.strip()]
    return bool(both) and sum(x.strip() == y.strip() for x, y in both) >= 0.8 * len(both)


def _holds(outer: Column, inner: Column) -> float:
    """Share of the rows in which one text contains the other."""
    both = [
        (x, y) for x, y in zip(outer.texts, inner.texts, strict=True) if x.strip() and y.strip()
    ]
    if not both:
        return 0.0
    return sum(y.strip() in x and len(y.strip()) < len(x) for x, y in both) / len(both)


def _askable(column: Column) -> bool:
    if column.nature != "text":
        return False
    return max(asks(column), 0.0) > 0.3 or _weak(column) < 0.8


def _answerable(column: Column) -> bool:
    if column.nature == "text":
        return answers(column) > 0.3 or _weak(column) < 0.8
    return column.nature in ANSWERING and column.named("answer") >= 0.5


def _pair_score(question: Column, answer: Column) -> float:
    order = 0.12 if question.position < answer.position else -0.06
    fill = 0.3 * (min(question.fill, 0.95) + min(answer.fill, 0.95) - 1)
    depth = 0.05 * (question.path.count(".") + answer.path.count("."))
    depth += 0.12 * (names_around(question.path) != names_around(answer.path))
    short = 0.15 if answer.nature in ("number", "letter", "label") else 0.0
    many = 0.1 * question.many
    bare = 0.15 * (answer.words < 2)
    return asks(question) + answers(answer) + order + fill - depth - short - many - bare


def _rivals(column: Column, columns: Sequence[Column]) -> int:
    """Columns of the same name in other objects: several tries at the same thing, as models leave them."""
    same = [c for c in columns if c.name == column.name and c.path != column.path]
    return len(same) if names_around(column.path) else 0


def _only_text(columns: Sequence[Column]) -> list[Column]:
    """Of two columns of text the first, whatever its name says: keywords that a poem is made of."""
    texts = [
        c for c in columns if c.text and max(c.named("id"), c.named("url")) < 0.8 and c.words >= 1.5
    ]
    return texts[:1] if len(texts) == 2 else []


def _pairs(columns: Sequence[Column]) -> list[tuple[float, Column, Column]]:
    questions = [c for c in columns if _askable(c)] or _only_text(columns)
    replies = [c for c in columns if _answerable(c)]
    scored = [
        (_pair_score(q, a) - 0.2 * min(2, _rivals(a, columns)), q, a)
        for q in questions
        for a in replies
        if q.path != a.path and (_said(q, a) or _explicit(q, a)) and not _same(q, a)
    ]
    return sorted(scored, key=lambda one: (-one[0], one[1].position, one[2].position))


def _translation(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """Two columns whose names are languages."""
    spoken = [
        c for c in columns if c.text and language_of(c.name) and len(c.name) < 12 and c.fill > 0.8
    ]
    return (spoken[0], spoken[1]) if len(spoken) == 2 else None


def _system(columns: Sequence[Column], taken: set[str]) -> Column | None:
    found = [
        c
        for c in columns
        if c.named("system") >= 0.8
        and c.path not in taken
        and c.present
        and not c.numeric
        and c.nature in ("text", "label")
    ]
    return max(found, key=lambda c: c.chars, default=None)


def _rationale(columns: Sequence[Column], answer: Column, taken: set[str]) -> Column | None:
    found = [
        c
        for c in columns
        if c.path not in taken and c.text and c.named("rationale") >= 0.8 and c.fill > 0.3
    ]
    best = max(found, key=lambda c: c.chars, default=None)
    return best if best and _holds(answer, best) < 0.5 else None


def _beside(
    columns: Sequence[Column], cast: Cast, taken: set[str]
) -> tuple[list[Column], list[Column]]:
    """Columns of the user's turn: before the question, and after it."""
    before: list[tuple[float, Column]] = []
    after: list[Column] = []
    question = cast.question
    for column in columns:
        if column.path in taken or column.nature not in ("text", "label") or not _plain(column):
            continue
        if _same(column, question) or _same(column, cast.answer) or _holds(question, column) > 0.6:
            continue
        place = _place(column, cast)
        if place == "task":
            before.append((0, column))
        elif place == "context":
            before.append((1, column))
        elif place == "title":
            before.append((2, column))
        elif place == "after":
            after.append(column)
    before.sort(key=lambda one: (one[0], one[1].position))
    return [column for _, column in before], after


def _plain(column: Column) -> bool:
    against = (
        "rejected",
        "answer",
        "id",
        "foreign_id",
        "url",
        "time",
        "author",
        "example",
        "tools",
        "source",
    )
    return all(column.named(kind) < 0.95 or column.named("context") == 1 for kind in against)


def _place(column: Column, cast: Cast) -> str | None:
    question = cast.question
    task = question.named("instruction") < 0.9
    wording = column.named("instruction") >= 0.8 and column.words >= 2
    if task and wording and column.named("system") < 0.8:
        return "task"
    if column.nature != "text":
        return None
    if column.named("context") >= 0.8 and column.words >= 3 and _belongs(column, cast):
        return "context"
    if column.named("input") >= 0.8 and question.named("input") < 0.8:
        return "after"
    if (
        question.named("title") >= 0.9
        or question.named("question") < 0.9
        and question.named("instruction") < 0.9
    ):
        follows = max(column.named("lead"), column.named("body"))
        if follows >= 0.8 and column.position > question.position:
            return "after"
    asking = max(question.named("question"), question.named("body"), question.named("lead"))
    if asking >= 0.8 and column.named("title") >= 0.95 and column.looks("question") > 0.3:
        return "title" if question.named("title") < 0.9 else None
    if (
        question.named("question") >= 0.9
        and column.named("question") >= 0.9
        and column.named("title") < 0.8
    ):
        return "after" if column.position > question.position and _more(column, question) else None
    return None


def _more(column: Column, question: Column) -> bool:
    """The second of two texts that are judged together: `sentence2`, `text_b`, a hypothesis."""
    first, second = spelled(question.name), spelled(column.name)
    if (first, second) in (
        ("premise", "hypothesis"),
        ("text_a", "text_b"),
        ("sentence_a", "sentence_b"),
    ):
        return True
    stem = first[:-1].rstrip("_")
    numbered = first[-1:] == "1" and second[-1:] == "2" and first[:-1] == second[:-1]
    return numbered and stem in ("sentence", "sent", "text", "question", "phrase", "句子", "文本")


def _belongs(column: Column, cast: Cast) -> bool:
    """A context is no label, and not a text that only repeats the answer."""
    return not _same(column, cast.answer) and column.distinct > 1 or column.words > 8


def _score(cast: Cast, total: float, unused: float) -> float:
    base = 0.42 + 0.24 * min(total, 1.9) + 0.06 * max(0.0, total - 1.9)
    return max(0.0, min(0.97, base - 0.1 * unused))


def _unused(columns: Sequence[Column], used: frozenset[str]) -> float:
    """Share of the characters of prose that no part takes."""
    said = ("rejected", "answer", "rationale", "chosen")
    prose = [c for c in columns if c.text and c.words >= 5 and max(map(c.named, said)) < 0.8]
    whole = sum(c.chars for c in prose)
    return sum(c.chars for c in prose if c.path not in used) / whole if whole else 0.0


def _answer_parts(cast: Cast) -> list[Json]:
    answer = cast.answer
    value: Json = answer.path
    if answer.many and answer.nature != "letter":
        value = _first(answer)
    if cast.options and cast.how:
        value = answer_value(cast.options, answer, cast.how)
    return [cast.rationale.path, value] if cast.rationale else [value]


def _first(answer: Column) -> Json:
    """The first answer that is not empty: number 0 where the data never leaves it empty."""
    gaps = any(row and not str(row[0] or "").strip() for row in answer.values)
    longest = max((len(row) for row in answer.values), default=1)
    places = range(min(longest, 5)) if gaps else range(1)
    paths = [answer.path.replace("[*]", f"[{place}]", 1) for place in places]
    return {"any_of": paths} if gaps else paths[0]


def _question_parts(cast: Cast) -> list[Json]:
    parts: list[Json] = [c.path for c in cast.before]
    parts.append(cast.question.path)
    parts += [c.path for c in cast.after]
    if cast.options:
        parts.append(cast.options.shown)
    return parts


def _options_of(view: View, columns: Sequence[Column], cast: Cast) -> Cast:
    if inside_question(cast.question.texts):
        return cast
    options = find_options(view, [c for c in columns if c.path not in (cast.question.path,)])
    if options is None or cast.answer.path in options.paths:
        return cast
    how = refers(options, cast.answer)
    return replace(cast, options=options, how=how) if how or cast.answer.text else cast


def _draft(
    view: View,
    columns: Sequence[Column],
    score: float,
    question: Column,
    answer: Column,
    options: Options | None = None,
) -> Draft:
    taken = {question.path, answer.path}
    cast = Cast(question=question, answer=answer)
    if options:
        cast = replace(cast, options=options, how=refers(options, answer))
    else:
        cast = _options_of(view, columns, cast)
    if cast.options:
        taken |= cast.options.paths
    system = _system(columns, taken)
    taken |= {system.path} if system else set()
    rationale = _rationale(columns, answer, taken)
    taken |= {rationale.path} if rationale else set()
    before, after = _beside(columns, cast, taken)
    cast = replace(
        cast, system=system, rationale=rationale, before=tuple(before), after=tuple(after)
    )
    used = frozenset(taken | {c.path for c in (*before, *after)})
    messages = user_assistant(_question_parts(cast), _answer_parts(cast))
    body: dict[str, Json] = {"messages": messages}
    if system:
        body["system"] = system.path
    if tools := tools_beside(view):
        body["tools"] = tools
    if where := marked_good(view, used):
        body["where"] = where
    raw = _texts_in_json(answer) or question.looks("json") > 0.9
    draft = Draft(
        kind="sft",
        body=body,
        score=_score(cast, score + 0.3 * bool(cast.how), _unused(columns, used)),
        why=f"{question.path} asks and {answer.path} answers",
        used=used,
        explicit=_explicit(question, answer),
        evidence=(
            _evidence("user", question, asks(question)),
            _evidence("assistant", answer, answers(answer)),
        ),
    )
    return draft.times(0.85) if raw else draft


def _explicit(question: Column, answer: Column) -> bool:
    """Whether names say who asks and who answers; or, without names, the form of the texts does."""
    if question.nameless:
        return question.looks("question") >= 0.6
    asked = max(question.named(slot) for slot in ("question", "instruction", "input"))
    replies = max(answer.named("answer"), answer.named("chosen"))
    whole = replies >= 0.95 and answer.words >= 5 and question.named("body") >= 0.95
    return (asked >= 0.75 and replies >= 0.75) or whole


def _said(question: Column, answer: Column) -> bool:
    """Whether at least one of two columns holds more than names and short labels."""
    told = [
        max(c.looks("sentence"), c.looks("question"), c.looks("code")) for c in (question, answer)
    ]
    unlike = all(c.distinct > 0.9 * len(c.present) and c.words >= 2.5 for c in (question, answer))
    prose = max(question.looks("prose"), answer.looks("prose")) > 0.5
    return max(told) > 0.3 or max(question.words, answer.words) >= 8 or (unlike and prose)


def _texts_in_json(column: Column) -> bool:
    """Whether a column spells lists of texts as JSON, which are answers only when parsed."""
    if column.looks("json") < 0.9:
        return False
    try:
        values = [json.loads(text) for text in column.present[:20]]
    except ValueError:
        return False
    return all(isinstance(v, list) and all(isinstance(x, str) for x in v) for v in values)


def tools_beside(view: View) -> Json:
    """Tool definitions beside a conversation, as JSON text; None where there are none."""
    for facts in view.facts.paths:
        plain = len(compile_path(facts.path).steps) == 1
        if plain and strength(last_name(facts.path), "tools") >= 0.9:
            if facts.types.get("list") or facts.types.get("object"):
                return {"path": facts.path, "as": "json"}
            if facts.types.get("string"):
                return facts.path
    return None


def marked_good(view: View, used: frozenset[str]) -> list[Json] | None:
    """Binary feedback: the rows marked good."""
    for column in view.columns:
        truths = column.facts.types.get("boolean", 0) >= 0.9 * max(1, len(column.present))
        good = truths and not column.many and column.distinct == 2 and column.named("good") >= 0.9
        beside = any(names_around(column.path) == names_around(path) for path in used)
        if good and column.path not in used and (beside or not names_around(column.path)):
            return [{"path": column.path, "in": [True]}]
    return None


def _evidence(role: str, column: Column, score: float) -> Evidence:
    asked = column.looks("question")
    why = f"name {column.name!r}, {column.words:.0f} words, {asked:.0%} look like questions"
    return Evidence(
        target=f"messages.{role}", choice=column.path, why=why, confidence=min(1.0, score)
    )


def question_answer_drafts(view: View) -> list[Draft]:
    """Drafts for rows that hold a question and an answer in columns, best first."""
    columns = [c for c in view.columns if c.present]
    spoken = _translation(columns)
    if spoken:
        return [_draft(view, columns, 1.7, *spoken)]
    judged = _judged(columns)
    if judged:
        return [_draft(view, columns, 1.4, *judged)]
    chosen = unnamed_choice(columns) or _named_choice(view, columns)
    if chosen:
        return [_draft(view, columns, 1.5, *chosen)]
    lettered = lettered_columns(columns)
    rest = [c for c in columns if c not in lettered]
    return [_draft(view, rest, *found) for found in _pairs(rest)[:4] if found[0] > 0.25]


def _judged(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """Two texts and a word that judges them: a premise, a hypothesis, and whether it follows."""
    texts = [c for c in columns if c.text and not c.many]
    firsts = [a for a in texts if any(_more(b, a) for b in texts if b is not a)]
    words = [
        c
        for c in columns
        if c.nature == "label" and max(c.named("label"), c.named("answer")) >= 0.95
    ]
    return (firsts[0], words[0]) if firsts and words else None


def _named_choice(view: View, columns: Sequence[Column]) -> tuple[Column, Column, Options] | None:
    """A question with options and a column that says which one is right."""
    options = find_options(view, columns)
    if options is None:
        return None
    rest = [c for c in columns if c.path not in options.paths]
    asked = max(
        (c for c in rest if _askable(c)), key=lambda c: (asks(c), -c.position), default=None
    )
    if asked is None or asks(asked) < 0.3 or inside_question(asked.texts):
        return None
    told = [
        (max(c.named("answer"), 0.8 * c.named("label")) + 0.1 * c.fill, -c.position, c)
        for c in rest
        if c is not asked and max(c.named("answer"), c.named("label")) >= 0.5 and refers(options, c)
    ]
    told = told or [
        (0.4, -c.position, c)
        for c in rest
        if c.nature in ("number", "letter")
        and 1 < c.distinct <= len(options.keys)
        and refers(options, c)
    ]
    best = max(told, key=lambda one: one[:2], default=None)
    return (asked, best[2], options) if best else None
