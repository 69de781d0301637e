"""Draft questions and answers from columns."""

from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.proposing.columns import (
    Column,
    View,
    is_path_inside,
    list_path,
    outer_names,
    parse_json_text,
)
from ingot.agent.proposing.names import NAMED
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import Draft, question_answer_messages, thought_part
from ingot.agent.proposing.rules import context_columns
from ingot.agent.proposing.rules.answers import answer_keys, multiple_choice, sides
from ingot.agent.proposing.rules.answers.accepted_answers import (
    AcceptedAnswer,
    find_accepted_answers,
)
from ingot.agent.proposing.rules.answers.answer_keys import Options
from ingot.agent.proposing.rules.answers.preference import (
    preferred_column,
    rival_answer,
    verdict_columns,
)
from ingot.agent.proposing.rules.context_columns import ColumnRoles
from ingot.agent.proposing.rules.conversations.transcripts import find_step_markers
from ingot.agent.proposing.rules.passages import Passages, find_passages
from ingot.agent.proposing.rules.text_copies import drop_copies
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.profile import profile_values

UNDECIDED = 0.45
_FAR_LONGER = 2.5  # times the words: the answer may be a short form of it
MOST_PLACES = 6  # of a list whose elements are fields
MOST_TEXTS = 24  # columns of text that are looked at in pairs


def _cast_score(cast: ColumnRoles, total: float, unused: float) -> float:
    """What names and values say for both sides, less for prose that no part takes."""
    base = 0.42 + 0.24 * min(total, 1.9) + 0.06 * max(0.0, total - 1.9)
    weight = 0.05 if sides.is_explicit_pair(cast.question, cast.answer) else 0.1
    return max(0.0, min(0.97, base - weight * unused))


def _unused_share(columns: Sequence[Column], used: frozenset[str]) -> float:
    slots = ("rejected", "answer", "rationale", "chosen")
    prose = [c for c in columns if c.text and c.words >= 5 and max(map(c.named, slots)) < 0.8]
    whole = sum(c.chars for c in prose)
    return sum(c.chars for c in prose if c.path not in used) / whole if whole else 0.0


def _answer_parts(cast: ColumnRoles, columns: Sequence[Column]) -> list[Json]:
    answer = cast.answer
    value: Json = answer.path
    if not cast.options and (words := answer_keys.truth_words(cast.question, answer)):
        value = {"path": answer.path, "map": words}
    elif answer.many and answer.nature != "letter":
        # The first that is not empty: number 0 where the data never leaves it empty.
        gaps = any(row and not str(row[0] or "").strip() for row in answer.values)
        longest = max((len(row) for row in answer.values), default=1)
        places = range(min(longest, 5)) if gaps else range(1)
        paths = [answer.path.replace("[*]", f"[{place}]", 1) for place in places]
        value = {"any_of": paths} if gaps else paths[0]
    if cast.options and cast.how:
        value = answer_keys.answer_value(cast.options, answer, cast.how)
        if cast.how == "key" and answer.fill < 1 and cast.provisional:
            value = {"any_of": [answer.path, cast.provisional.path]}
    elif better := preferred_column(columns, answer) or sides.preferred_list_element(
        columns, answer
    ):
        value = better
    elif answer.fill < 1 and len(tries := sides.alternative_answers(answer, columns)) > 1:
        value = {"any_of": [c.path for c in tries]}
    if cast.rationale is None:
        return [value]
    led = thought_part(_path_beside_first(cast.rationale, answer), cast.rationale.name)
    return [led, value]


def _path_beside_first(column: Column, answer: Column) -> str:
    """The path of a column; in the list that the first answer is taken from, of its first place."""
    if not column.nested or list_path(column.path) != list_path(answer.path):
        return column.path
    return column.path.replace("[*]", "[0]", 1)


def _has_example_list(cast: ColumnRoles) -> bool:
    """Whether a list has both sides in each element, so that each is an example of its own."""
    asked = (cast.question, *cast.before, *cast.after)
    inside = [c for c in asked if c.nested and list_path(c.path) == list_path(cast.answer.path)]
    return cast.answer.nested and bool(inside)


def _question_parts(cast: ColumnRoles) -> list[Json]:
    parts: list[Json] = [c.path for c in cast.before]
    if cast.passages and cast.passages.value:
        parts.insert(sum(c.named("instruction") >= NAMED for c in cast.before), cast.passages.value)
    parts.append(cast.question.path)
    parts += [c.path for c in cast.after]
    if cast.options and (cast.how == "key" or not multiple_choice.are_replies(cast.options)):
        parts.append(cast.options.shown)
    return parts


def _add_options(view: View, columns: Sequence[Column], cast: ColumnRoles) -> ColumnRoles:
    if multiple_choice.has_inline_options(cast.question.texts):
        return cast
    options = multiple_choice.find_options(
        view, [c for c in columns if c.path not in (cast.question.path,)]
    )
    if options is None or cast.answer.path in options.paths:
        return cast
    reference = answer_keys.answer_reference(options, cast.answer)
    if reference == "text" and multiple_choice.repeats_options(options, cast.question):
        return cast
    return replace(cast, options=options, how=reference) if reference or cast.answer.text else cast


def _find_passages_beside(view: View, used: set[str]) -> Passages | None:
    """Passages in lists, unless one of both sides stands among them."""
    passages = find_passages(view)
    return (
        None if passages and any(is_path_inside(path, passages.head) for path in used) else passages
    )


def _is_undecided(
    view: View, columns: Sequence[Column], cast: ColumnRoles, used: frozenset[str]
) -> bool:
    """Whether nothing in the rows says that this answer is the right one of several."""
    rival = rival_answer(columns, cast.answer)
    undecided = rival is not None and preferred_column(columns, cast.answer) is None
    if undecided or _is_one_of_keys(columns, cast):
        return True
    if sides.is_heading(cast.question, cast.answer):
        return True
    if any(_is_equal_answer(c, cast.answer) and c.path not in used for c in columns):
        return True
    left = [c for c in columns if c.named_own("answer") == 1 and c.path not in used]
    if any(
        sides.is_rewritten(c, cast.answer) and c.path not in used for c in (*columns, *view.deep)
    ):
        return True
    strength = cast.answer.named_own("answer")
    if left and strength < 0.8 and cast.how is None:
        return True
    siblings = [c for c in left if outer_names(c.path) == outer_names(cast.answer.path)]
    if strength < 0.5 and cast.how and any(c.nature == cast.answer.nature for c in siblings):
        return True
    options = None if cast.options else multiple_choice.find_options(view, columns)
    return bool(
        options and cast.answer.path in options.paths and not sides.alternative_stem(cast.answer)
    )


def _is_equal_answer(column: Column, answer: Column) -> bool:
    """Whether another text is called the answer just as much and is as long, or is far longer."""
    both = (column, answer)
    strengths = [c.named_own("answer") - c.named("rejected") + c.named("chosen") for c in both]
    is_sibling = outer_names(column.path) == outer_names(answer.path) and not column.many
    if (
        column is answer
        or not (is_sibling and column.text and column.fill > 0.5)
        or strengths[0] < 0.5
    ):
        return False
    longer = column.words > _FAR_LONGER * max(answer.words, 1.0) and answer.text
    return longer or (2 * column.words > answer.words and 0.5 <= strengths[1] <= strengths[0])


def _is_one_of_keys(columns: Sequence[Column], cast: ColumnRoles) -> bool:
    """Whether another column names options as well, and no name says which one is the key."""
    if cast.options is None or cast.how != "key" or cast.answer.named("answer") >= 0.5:
        return False
    return bool(answer_keys.other_keys(cast.options, cast.answer, columns))


def _assign_columns(
    view: View, columns: Sequence[Column], question: Column, answer: Column, options: Options | None
) -> tuple[ColumnRoles, frozenset[str]]:
    """Both sides with all that belongs beside them, and the paths that they take from."""
    cast = ColumnRoles(question=question, answer=answer)
    if options:
        cast = replace(cast, options=options, how=answer_keys.answer_reference(options, answer))
    else:
        cast = _add_options(view, columns, cast)
    if cast.options and cast.how == "key":
        cast = replace(cast, options=answer_keys.spell_options_as_answer(cast.options, answer))
    used = {question.path, answer.path} | (cast.options.paths if cast.options else set())
    if cast.options and cast.how == "key":
        keys = answer_keys.other_keys(cast.options, answer, columns)
        prior = [c for c in keys if c.named("rejected") >= NAMED or answer.named("chosen") >= NAMED]
        cast = replace(cast, provisional=prior[0] if prior else None)
    system = context_columns.system_column(columns, used)
    used |= {system.path} if system else set()
    rationale = context_columns.rationale_column(columns, answer, used)
    used |= {rationale.path} if rationale else set()
    if passages := _find_passages_beside(view, used):
        used |= {c.path for c in columns if is_path_inside(c.path, passages.head)}
    if other := rival_answer(columns, answer):
        used |= {other.path}
    used |= {c.path for c in sides.alternative_answers(answer, columns) if answer.fill < 1}
    before, after = context_columns.user_turn_columns(columns, cast, used)
    cast = replace(
        cast,
        system=system,
        rationale=rationale,
        passages=passages,
        before=tuple(before),
        after=tuple(after),
    )
    return cast, frozenset(used | {c.path for c in (*before, *after)})


def _pair_draft(
    view: View,
    columns: Sequence[Column],
    score: float,
    question: Column,
    answer: Column,
    options: Options | None = None,
    accepted: AcceptedAnswer | None = None,
) -> Draft:
    cast, used = _assign_columns(view, columns, question, answer, options)
    messages = question_answer_messages(_question_parts(cast), _answer_parts(cast, columns))
    if accepted:
        messages[1] = accepted.entry
    elif messages[1]["content"] == answer.path and (steps := find_step_markers(answer)):
        messages[1]["role"] = {"split": steps}
    body: MappingDocument = {"messages": messages}
    if cast.system:
        body["system"] = _path_beside_first(cast.system, answer)
    if tools := context_columns.tools_value(view):
        body["tools"] = tools
    where = context_columns.good_rows_condition(view, used, answer=answer) or []
    if not accepted and (blanks := sides.find_placeholders(answer)):
        where = [*where, {"path": answer.path, "not_in": blanks}]
    if cast.options and cast.how and (void := answer_keys.void_keys(cast.options, answer)):
        where = [*where, {"path": answer.path, "not_in": void}]
    if where:
        body["where"] = where
    unsure = accepted is not None and not accepted.sure
    preferred = preferred_column(columns, answer)
    answer_name = f"the better of {' and '.join(preferred['concat'])}" if preferred else answer.path
    raw = _is_json_of_texts(answer) or question.looks("json") > 0.9
    draft = Draft(
        kind="sft",
        body=body,
        score=_cast_score(cast, score + 0.3 * bool(cast.how), _unused_share(columns, used)),
        why=f"user = {question.path}, assistant = {answer_name}",
        pair=True,
        used=used,
        most=UNDECIDED if _is_undecided(view, columns, cast, used) or unsure else 1.0,
        explicit=sides.is_explicit_pair(question, answer) or cast.how is not None,
        evidence=(
            _side_evidence("user", question, sides.question_strength(question)),
            _side_evidence("assistant", answer, sides.answer_strength(answer)),
        ),
    )
    return draft.times((0.85 if raw else 1.0) * (0.6 if _has_example_list(cast) else 1.0))


def _is_json_of_texts(column: Column) -> bool:
    """Whether a column spells lists of texts as JSON, which are answers only when parsed."""
    values = [parse_json_text(text) for text in column.present[:20]]
    lists = all(isinstance(v, list) and all(isinstance(x, str) for x in v) for v in values)
    return lists and column.looks("json") >= 0.9


def _side_evidence(role: str, column: Column, score: float) -> Evidence:
    """Why a column is a side; a name that says nothing leaves it an even bet."""
    asked = column.looks("question")
    why = f"name {column.name!r}, {column.words:.0f} words, {asked:.0%} look like questions"
    return Evidence(
        target=f"messages.{role}",
        choice=column.path,
        why=why,
        confidence=round(min(1.0, max(0.5, score)), 2),
    )


def question_answer_drafts(view: View) -> list[Draft]:
    """Draft mappings for rows with a question and an answer in columns, best first."""
    if view.each and sides.is_tool_path(view.each):
        return []
    split_columns = [column for c in view.columns if c.present for column in _split_places(c)]
    columns = drop_copies(_likeliest_columns(split_columns))
    spoken = sides.find_translation(columns)
    if spoken:
        return [_pair_draft(view, columns, 1.7, *spoken)]
    weighed = sides.find_judged_pair(columns)
    if weighed:
        return [_pair_draft(view, columns, 1.4, *weighed)]
    chosen = (
        multiple_choice.find_named_choice(view, columns)
        or multiple_choice.find_unnamed_choice(columns)
        or multiple_choice.find_lettered_text(columns)
    )
    judging = verdict_columns(columns)
    # Options may be whole answers of two models rather than choices of a test.
    stems = [sides.alternative_stem(c) for c in columns if chosen and c.path in chosen[2].paths]
    if chosen and not (chosen[1] in judging and any(stems)):
        return [_pair_draft(view, columns, 1.5, *chosen)]
    lettered = multiple_choice.option_columns(columns)
    rest = [c for c in columns if c not in lettered]
    accepted = find_accepted_answers(view)[:2]
    lists = [list_path(answer.element) for answer in accepted if answer.sure]
    candidates = [c for c in rest if c not in judging and list_path(c.path) not in lists]
    drafts = [
        _pair_draft(view, rest, *pair)
        for pair in sides.score_pairs(candidates)[:4]
        if pair[0] > 0.25
    ]
    return [*_accepted_drafts(view, columns, accepted), *drafts]


def _accepted_drafts(
    view: View, columns: Sequence[Column], accepted: Sequence[AcceptedAnswer]
) -> list[Draft]:
    """The best question of a record with the answer of a list that was accepted."""
    rest = [c for c in columns if not c.nested]
    asked = max(
        (c for c in rest if sides.may_be_question(c) and not c.many),
        key=lambda c: (sides.question_strength(c), -c.position),
        default=None,
    )
    if asked is None:
        return []
    score = sides.question_strength(asked) + 1
    return [
        _pair_draft(view, rest, score, asked, accepted_answer.column, accepted=accepted_answer)
        for accepted_answer in accepted
    ]


def _split_places(column: Column) -> list[Column]:
    """The places of a list as columns, where the first one asks and no other one does."""
    sizes = {len(row) for row in column.values}
    size = max(sizes, default=0)
    if not column.path.endswith("[*]") or len(sizes) > 1 or not 3 <= size <= MOST_PLACES:
        return [column]
    cells = [[row[place] for row in column.values] for place in range(size)]
    places = [
        replace(
            column,
            path=f"{column.path.removesuffix('[*]')}[{place}]",
            facts=profile_values(values).paths[0],
            many=False,
            values=tuple((value,) for value in values),
        )
        for place, values in enumerate(cells)
    ]
    asks = [place.looks("question") for place in places]
    return places if asks[0] >= 0.6 and max(asks[1:]) < 0.3 and places[1].text else [column]


def _likeliest_columns(columns: Sequence[Column]) -> list[Column]:
    """The columns without those texts of a wide table that are least likely to be a side."""
    texts = [c for c in columns if c.text]
    ranked = sorted(
        texts, key=lambda c: (-max(sides.question_strength(c), sides.answer_strength(c)), -c.chars)
    )
    left = {c.path for c in ranked[MOST_TEXTS:]}
    return [c for c in columns if c.path not in left]
