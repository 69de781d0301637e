"""Find what belongs beside a question and its answer: context, system text, reasoning and tools."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import Column, View, last_name, list_path, outer_names, text_of
from ingot.agent.proposing.names import (
    CLEAR,
    NAMED,
    PLAIN,
    flags_bad_rows,
    language_code,
    left_out_values,
    name_group,
    name_strength,
    says_yes,
    spell_name,
    verdict_of,
)
from ingot.agent.proposing.rules.answers.answer_keys import Options
from ingot.agent.proposing.rules.answers.sides import (
    SURE_SHARE,
    addresses_bot,
    detect_language,
    judged_partner,
    rival_columns,
)
from ingot.agent.proposing.rules.passages import Passages
from ingot.agent.proposing.rules.text_copies import containment_share, have_same_words
from ingot.agent.proposing.speakers import speaking_role
from ingot.converters.paths import compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words

_CHARACTER = ("char", "character", "persona", "npc", "companion")
_DESCRIBES = name_group("descriptions")
_MOST_FLAGGED = 0.7  # of the rows; what flags more of them is a kind, not a fault


def persona_system_value(columns: Sequence[Column]) -> Json:
    """Return the value of `system` from columns beside a conversation, None if there is none."""
    system_columns = [
        c
        for c in columns
        if max(c.named("system"), *(name_strength(n, "system") for n in outer_names(c.path)), 0.0)
        >= 0.8
    ]
    measured = [(c.chars, c.path) for c in system_columns if _holds_text(c)]
    measured += [
        (c.chars, c.path.replace("[*]", "[0]", 1)) for c in system_columns if _is_same_in_group(c)
    ]
    measured += [
        (c.chars, c.path)
        for c in system_columns
        if c.nested and c.nature in ("text", "label") and _is_its_list(c)
    ]
    if measured:
        best = max(measured)[1]
        whole, _, _ = best.partition("[*].")
        listed = [item for item in measured if item[1].startswith(f"{whole}[*].")]
        # A text in some rows, the texts of a list in others.
        both = listed and any(path == whole for _, path in measured)
        return {"any_of": [max(listed)[1], whole]} if both else best
    spoken_to = [c.path for c in columns if _holds_text(c) and addresses_bot(c)]
    if len(spoken_to) == 1:
        return spoken_to[0]
    parts: list[Json] = [c.path for c in columns if _describes_bot(c) and _holds_text(c)]
    return parts[0] if len(parts) == 1 else parts or None


def _is_its_list(column: Column) -> bool:
    """Whether the list is called so: `system[*].text`, `system_instruction.parts[*].text`."""
    head = list_path(column.path)
    names = (last_name(head), *outer_names(head))
    return any(name_strength(name, "system") >= NAMED for name in names)


def _is_same_in_group(column: Column) -> bool:
    """Whether the rows of a conversation that were gathered all hold the same text."""
    gathered = column.path.startswith("[*].") and bool(column.present) and not column.numeric
    return gathered and all(len(set(row)) == 1 for row in column.values if row)


def _holds_text(column: Column) -> bool:
    """Whether it holds a text, or a list of texts, and not a number."""
    return bool(column.present) and not column.nested and not column.numeric


def _describes_bot(column: Column) -> bool:
    """Names such as `bot_description` or `character_profile`."""
    *head, tail = spell_name(column.name).split("_")
    whose = "_".join(head)
    bot = speaking_role(whose) == "assistant" or whose in _CHARACTER
    return tail.removesuffix("s") in _DESCRIBES and bot and column.text


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Columns by the part they play."""

    question: Column
    answer: Column
    system: Column | None = None
    before: tuple[Column, ...] = ()
    after: tuple[Column, ...] = ()
    rationale: Column | None = None
    options: Options | None = None
    passages: Passages | None = None
    how: str | None = None
    provisional: Column | None = None


def system_column(columns: Sequence[Column], used: set[str]) -> Column | None:
    """Return the column of standing instructions or of a persona."""
    candidates = [
        c
        for c in columns
        if (c.named("system") >= NAMED or addresses_bot(c))
        and c.path not in used
        and c.present
        and not c.numeric
        and c.nature in ("text", "label")
    ]
    return max(candidates, key=lambda c: c.chars, default=None)


def rationale_column(columns: Sequence[Column], answer: Column, used: set[str]) -> Column | None:
    """Return the column of the reasoning before the answer, unless the answer holds it.

    A column with rivals of the same name is not returned.
    """
    candidates = [
        c
        for c in columns
        if c.path not in used
        and c.text
        and c.named("rationale") >= NAMED
        and c.fill > 0.3
        and not rival_columns(c, columns)
    ]
    best = max(candidates, key=lambda c: c.chars, default=None)
    return best if best and containment_share(answer, best) < 0.5 else None


_PLACES = ("task", "context", "title")  # before the question, in this order


def user_turn_columns(
    columns: Sequence[Column], cast: ColumnRoles, used: set[str]
) -> tuple[list[Column], list[Column]]:
    """Return the columns of the user's turn before the question, and those after it.

    Several columns of one list are left out: the elements would be torn apart.
    """
    before, after = list[tuple[int, Column]](), list[Column]()
    for column in columns:
        sayable = column.nature in ("text", "label") and _is_plain_text(column)
        if column.path in used or not sayable or _is_repeated(column, cast):
            continue
        place = _column_place(column, cast)
        if place == "after":
            after.append(column)
        elif place:
            before.append((_PLACES.index(place), column))
    before.sort(key=lambda item: (item[0], item[1].position))
    placed = [*(c for _, c in before), *after]
    lists = Counter(list_path(c.path) for c in placed if c.nested)
    left = {c.path for c in placed if lists[list_path(c.path)] > 1}
    left |= _repeated_columns(placed, cast.answer)
    return [c for _, c in before if c.path not in left], [c for c in after if c.path not in left]


def _repeated_columns(placed: Sequence[Column], answer: Column) -> set[str]:
    """Columns that others hold; and a template filled with others and the answer."""
    repeated = set()
    for outer in placed:
        for inner in placed:
            if outer is not inner and inner.words >= 2 and containment_share(outer, inner) > 0.6:
                filled = outer.named("context") < PLAIN and containment_share(outer, answer) > 0.6
                repeated.add(outer.path if filled else inner.path)
    return repeated


def _is_repeated(column: Column, cast: ColumnRoles) -> bool:
    """Whether a column is one of both sides again, a part of the question, or made of it."""
    question, answer = cast.question, cast.answer
    if have_same_words(column, question) or have_same_words(column, answer):
        return True
    if column.many and _names_all_elements(column, question):
        return True
    return containment_share(question, column) > 0.6 or (
        containment_share(column, question) > 0.6 and question.words >= 3
    )


def _names_all_elements(column: Column, question: Column) -> bool:
    """Whether questions name every element of a list: their options, for example."""
    both = zip(column.values, question.texts, strict=True)
    rows = [(values, asked) for values, asked in both if values and asked.strip()]
    inside = sum(all(text_of(v).strip() in asked for v in values) for values, asked in rows)
    return bool(rows) and inside > 0.8 * len(rows)


def _is_plain_text(column: Column) -> bool:
    against = () if left_out_values("", [column.name]) else name_group("slots_of_no_context")
    plain = all(column.named(kind) < PLAIN or column.named("context") == 1 for kind in against)
    return plain and bool(against)  # a note of the staff is said to nobody


def _column_place(column: Column, cast: ColumnRoles) -> str | None:
    question = cast.question
    task = question.named("instruction") < CLEAR
    wording = column.named("instruction") >= NAMED and column.words >= 2
    if task and wording and column.named("system") < NAMED:
        return "task"
    if column.nature != "text":
        return None
    if (
        column.named("context") >= NAMED
        and column.words >= 3
        and ((not have_same_words(column, cast.answer) and column.distinct > 1) or column.words > 8)
    ):
        return "context"
    if column.named("input") >= NAMED and question.named("input") < NAMED:
        return "after"
    if _is_passage(column, cast):
        return "context"
    if _continues_question(column, question) or (
        column.named("options") >= PLAIN and not cast.options
    ):
        return "after"
    if _stands_between(column, cast):
        return "after"
    asking = max(question.named("question"), question.named("body"), question.named("lead"))
    if asking >= 0.8 and _is_record_title(column) and column.looks("question") > 0.3:
        return "title" if question.named("title") < NAMED else None
    asked = min(question.named("question"), column.named("question")) >= 0.9
    asked = asked and column.named("title") < NAMED and column.position > question.position
    return "after" if asked and judged_partner(column, question) else None


def _is_passage(column: Column, cast: ColumnRoles) -> bool:
    """A text that holds most answers, or a body before a question and its answer."""
    question, answer = cast.question, cast.answer
    long = 2 <= answer.words < column.words / 4 and not column.many
    if long and containment_share(column, answer) > 0.6:
        return True
    named = min(question.named("question"), answer.named("answer"), column.named("body")) >= 0.9
    body = named and column.fill > 0.8 and column.looks("prose") > 0.5
    return body and not column.many and column.position < question.position


def _continues_question(column: Column, question: Column) -> bool:
    """Whether a column says at length what the question is about: the body under its title."""
    follows = max(column.named("lead"), column.named("body"))
    if question.named("title") >= NAMED and column.chars > question.chars:
        same = spell_name(column.name).split("_")[0] == spell_name(question.name).split("_")[0]
        if same and max(follows, column.named("question")) >= 0.5:
            return True
    unsaid = question.named("question") < CLEAR and question.named("instruction") < CLEAR
    if (question.named("title") < CLEAR and not unsaid) or column.nested or column.path[0] == "^":
        return False
    return follows >= 0.8 and column.position > question.position and column.words >= 2


def _lists_phrases(column: Column) -> bool:
    """Whether the texts of a list have three words or more each, as conditions of a task have."""
    texts = [text_of(value) for row in column.values[:100] for value in row]
    return sum(count_words(text) >= 3 for text in texts) > 0.8 * len(texts)


def _stands_between(column: Column, cast: ColumnRoles) -> bool:
    """A text of no known meaning between the question and its answer: what the task is about."""
    known = max(
        column.named(slot)
        for slot in (*name_group("slots_of_no_context"), "rationale", "title", "label", "good")
    )
    is_sibling = outer_names(column.path) == outer_names(cast.question.path)
    between = cast.question.position < column.position < cast.answer.position
    is_answer = (
        not column.nested
        and column.words >= 3
        and 2 * column.distinct > len(column.present)  # a signature comes again and again
        and (column.looks("prose") > 0.5 or (column.many and _lists_phrases(column)))
    )
    code = language_code(spell_name(column.name).split("_")[-1])
    alone = not cast.options and not code and _in_same_language(column, cast.question)
    return between and is_sibling and is_answer and known < 0.5 and alone


def _in_same_language(column: Column, question: Column) -> bool:
    """Whether nothing says that two columns are in different languages."""
    (language, sure), (other, sure_too) = (
        detect_language(c.present[:20]) for c in (column, question)
    )
    return language == other or min(sure, sure_too) < SURE_SHARE


def _is_record_title(column: Column) -> bool:
    """A title of the record itself, also one that says whose it is: `question_title`."""
    asked = column.named_own("title") >= NAMED and column.named_own("question") >= 0.5
    return (column.named("title") >= PLAIN or asked) and not column.path.startswith("^")


def tools_value(view: View) -> Json:
    """Return the tool definitions beside a conversation as JSON text, None if there are none."""
    for facts in view.facts.paths:
        plain = len(compile_path(facts.path).steps) == 1
        if plain and name_strength(last_name(facts.path), "tools") >= CLEAR:
            if facts.types.get("list") or facts.types.get("object"):
                return {"path": facts.path, "as": "json"}
            if facts.types.get("string"):
                return facts.path
    return None


def good_rows_condition(
    view: View,
    used: frozenset[str],
    worse: Sequence[str] = ("bad", "gone"),
    answer: Column | None = None,
) -> list[Json] | None:
    """Return conditions that keep the rows that a person or a program has judged good."""
    places = {tuple(outer_names(path)) for path in used} | {()}
    conditions: list[Json] = []
    for column in view.columns:
        known = column.path not in used and not column.many and column.present
        if not known or tuple(outer_names(column.path)) not in places:
            continue
        truths = column.facts.types.get("boolean", 0) >= 0.9 * len(column.present)
        if truths and column.distinct == 2 and column.named("good") >= CLEAR:
            conditions.append({"path": column.path, "in": [True]})
        elif truths and flags_bad_rows(column.name) and _is_told_apart(column):
            conditions.append({"path": column.path, "not_in": [True]})
        elif condition := truth_condition(column):
            conditions.append({"path": column.path, "not_in": condition})
        elif bad := _bad_values(column, worse, answer):
            conditions.append({"path": column.path, "not_in": bad})
    return conditions or None


def _is_told_apart(column: Column) -> bool:
    """Whether a flag is true of some rows alone: false, or left away, in the others."""
    if column.distinct == 2:
        return True
    return column.fill <= _MOST_FLAGGED and says_yes(column.present[0]) is True


def truth_condition(column: Column) -> list[Json]:
    """Return the yes or no, in any language, of the rows not to be used, by the field's name."""
    values = sorted(set(column.present))
    truths = {value: says_yes(value) for value in values}
    if len(values) != 2 or set(truths.values()) != {True, False}:
        return []
    current = spell_name(column.name).removeprefix("is_").removeprefix("ist_")
    holds = current in name_group("flags_of_current_rows")
    gone = [value for value in values if truths[value] is not holds]
    if not holds and not flags_bad_rows(column.name):
        return []
    if sum(text in gone for text in column.present) > _MOST_FLAGGED * len(column.present):
        return []
    raw = {
        str(v).lower() if isinstance(v, bool) else str(v): v for row in column.values for v in row
    }
    return [raw[value] for value in gone]


def _bad_values(column: Column, worse: Sequence[str], answer: Column | None) -> list[str]:
    """The values that call a row bad, in a column of few values that all judge it.

    Where there is no answer, a value may say so in any way.
    """
    texts = answer.texts if answer else column.texts
    judged = [x for x, y in zip(column.texts, texts, strict=True) if x.strip() and y.strip()]
    verdicts = {value: verdict_of(value) for value in sorted(set(judged))}
    bad = [value for value, verdict in verdicts.items() if verdict in worse]
    dropped = sum(text in bad for text in judged)
    clear = all(verdicts.values()) or "good" in verdicts.values()
    few = 1 < len(verdicts) <= 6 and clear and not column.numeric
    return bad if few and len(bad) < len(verdicts) and 2 * dropped <= len(judged) else []
