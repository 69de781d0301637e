"""Multiple choice: where options stand, whether they carry letters, what answers point to."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.proposing.columns import (
    Column,
    View,
    last_name,
    list_path,
    parent_path,
    text_of,
    total_chars,
)
from ingot.agent.proposing.names import CLEAR, NAMED, PLAIN, name_strength, spell_name
from ingot.agent.proposing.rules.answers.answer_keys import LETTERS, Options, answer_reference
from ingot.agent.proposing.rules.answers.sides import may_be_question, question_strength
from ingot.converters.paths import Key, Names, compile_path, steps_text
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts
from ingot.converters.sources.text_kinds import count_words

_LABELLED = re.compile(r"\s*[(\[（【]?([A-Ha-h]|[1-9])[)\]）】.．、:：]")
_LETTER_NAME = re.compile(
    r"(?:.*_)?(?:option|choice|opt?|ans|answer|选项|ending|sol|alternative)?_?([a-h]|[0-9])"
)
_NUMBERED_NAME = re.compile(
    r"[^\W\d_]{2,}_?([1-9])|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+([a-h1-9])"
)
_OPTION_STEM = re.compile(r"option|choice|opt|op|ans|ending|选项|sol|alternative|distract|mc")
_OPTIONS_END = 2_000  # characters at the end of a question in which its options stand
_INSIDE = re.compile(
    r"(?>.*?(?:^|\s|\\n)[(（]?[AaＡ][)）.．、:：]).*?(?:\s|\\n)[(（]?[BbＢ][)）.．、:：]", re.DOTALL
)
_SECOND = re.compile(r"[BbＢ][)）.．、:：]")  # what the text of options is not without


def has_inline_options(texts: Sequence[str]) -> bool:
    """Return whether most texts already hold lettered options."""
    filled = [text for text in texts if text.strip()]
    ends = [text[-_OPTIONS_END:] for text in filled]
    hits = sum(bool(_SECOND.search(end) and _INSIDE.match(end)) for end in ends)
    return bool(filled) and hits > 0.6 * len(filled)


_SENTENCE = re.compile(r".*[.!?。！？]\s*", re.DOTALL)
_REPLY_WORDS = 5


def are_replies(options: Options) -> bool:
    """Return whether options are whole replies, one of which was chosen, not choices of a test."""
    texts = [text for row in options.texts for text in row]
    words = sum(count_words(text[:500]) for text in texts)
    ended = sum(bool(_SENTENCE.fullmatch(text)) for text in texts)
    return words >= _REPLY_WORDS * len(texts) and ended >= 0.8 * len(texts) > 0


def repeats_options(options: Options, question: Column) -> bool:
    """Return whether most questions already contain the texts of their options."""
    rows = [
        (asked, texts)
        for asked, texts in zip(question.texts, options.texts, strict=True)
        if len(texts) > 1 and asked.strip()
    ]
    hits = sum(all(text.strip() in asked for text in texts) for asked, texts in rows)
    return bool(rows) and hits > 0.8 * len(rows)


def _labelled_value(value: dict[str, Json], texts: Sequence[Sequence[str]]) -> Json:
    firsts = [row[0] for row in texts if row]
    seconds = [row[1] for row in texts if len(row) > 1]
    hits = sum(bool(_LABELLED.match(t)) for t in (*firsts, *seconds))
    if firsts and hits > 0.8 * (len(firsts) + len(seconds)):
        return value["path"] if set(value) == {"path"} else value
    return {**value, "label": "A. "}


def _make_options(
    value: dict[str, Json], texts: tuple[tuple[str, ...], ...], paths: Sequence[str]
) -> Options:
    return Options(
        shown=_labelled_value(value, texts),
        bare=value,
        keys=tuple(tuple(LETTERS[: len(row)]) for row in texts),
        texts=texts,
        paths=frozenset(paths),
    )


def _list_options(column: Column) -> Options | None:
    texts = tuple(tuple(text_of(v) for v in row) for row in column.values)
    sizes = [len(row) for row in texts if row]
    if not sizes or min(sizes) < 2 or max(sizes) > 10:
        return None
    return _make_options({"path": column.path}, texts, [column.path])


def _column_letter(column: Column) -> str | None:
    name = spell_name(column.name)
    match = _LETTER_NAME.fullmatch(name) or _NUMBERED_NAME.fullmatch(name)
    return next(filter(None, match.groups())).upper() if match else None


def _path_before_key(path: str) -> str:
    step = compile_path(path).steps[-1]
    if isinstance(step, Names):
        return ".".join(step.names[:-1])
    return steps_text(compile_path(path).steps[:-1]) if isinstance(step, Key) else path


def _options_from_columns(columns: Sequence[Column]) -> Options | None:
    """Columns called A, B, C or option_a, ... or choice1, ...: three in a row, two with a stem."""
    groups: dict[tuple[str, str], list[tuple[str, Column]]] = {}
    for column in columns:
        letter = _column_letter(column)
        if letter and not column.many and column.nature not in ("time", "url"):
            stem = spell_name(column.name)[: -len(letter)]
            groups.setdefault((_path_before_key(column.path), stem), []).append((letter, column))
    for (_, stem), lettered in groups.items():
        letters = [letter for letter, _ in lettered]
        start = {"A": "ABCDEFGH", "1": "12345678", "0": "01234567"}.get(letters[0], "")
        enough = len(lettered) >= (3 if not stem else 2)
        if not enough or "".join(letters) != start[: len(letters)] or lettered[0][1].words > 60:
            continue
        named = _OPTION_STEM.search(stem) or any(
            name_strength(c.name, "options") for _, c in lettered
        )
        options = _columns_options([column for _, column in lettered])
        if not stem or named or (len(lettered) >= 3 and _points_into(options, columns)):
            return options
    return None


def _points_into(options: Options, columns: Sequence[Column]) -> bool:
    """Whether a column of numbers or letters names one of the options in every row."""
    marks = [c for c in columns if c.nature in ("number", "letter") and c.distinct > 1]
    most = len(options.paths)
    return any(
        c.named("answer") >= 0.5
        and c.distinct <= most
        and answer_reference(options, c) in ("key", "place1", "place0")
        for c in marks
    )


def _columns_options(columns: Sequence[Column]) -> Options:
    paths = [column.path for column in columns]
    texts = tuple(zip(*(column.texts for column in columns), strict=True))
    return _make_options({"concat": paths}, texts, paths)


def _object_options(view: View) -> Options | None:
    """A list of objects with a label and a text, or parallel lists of labels and texts."""
    for facts in view.facts.paths:
        if not facts.path.endswith("[*]") or facts.path.count("[*]") != 1:
            continue
        head = list_path(facts.path)
        named = name_strength(last_name(head), "options") >= NAMED
        if facts.types.get("object") and (named or _have_letters(view, facts.path)):
            options = _labelled_objects(view, facts.path)
        elif facts.types.get("string") and name_strength(last_name(head), "options") < 1:
            options = _parallel_lists(view, facts.path)
        else:
            options = None
        if options:
            return options
    return None


def _have_letters(view: View, element: str) -> bool:
    """Whether a field of the elements letters them in every row: A, B, C, ..."""
    inner = [f.path for f in view.facts.paths if f.path.startswith(element + ".")]
    rows = ([t for t in _row_texts(view, path) if t] for path in inner)
    return any(row and all(map(_counts_letters, row)) for row in rows)


def _counts_letters(texts: Sequence[str]) -> bool:
    return len(texts) > 1 and list(map(str.upper, texts)) == list(LETTERS[: len(texts)])


def _are_labels(facts: PathFacts) -> bool:
    return facts.looks.get("letter", 0) + facts.looks.get("number", 0) > 0.8


def _labelled_objects(view: View, element: str) -> Options | None:
    inner = [f for f in view.facts.paths if f.path.startswith(element + ".") and f.chars]
    labels = [f for f in inner if _are_labels(f)]
    texts = [f for f in inner if f not in labels]
    if not texts:
        return None
    path = max(texts, key=total_chars).path
    options = _make_options({"path": path}, _row_texts(view, path), [path])
    if not labels:
        return options
    name, text = (p.removeprefix(element + ".") for p in (labels[0].path, path))
    shown = {"each": element, "template": "{{" + name + "}}. {{" + text + "}}"}
    return replace(options, shown=shown, keys=_row_texts(view, labels[0].path))


def _row_texts(view: View, path: str) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, view.places.texts(path)))


def _parallel_lists(view: View, path: str) -> Options | None:
    """`choices.text` with `choices.label` beside it."""
    stem = parent_path(list_path(path))
    if stem == "$" or name_strength(last_name(stem), "options") < NAMED:
        return None
    for facts in view.facts.paths:
        is_sibling = (
            facts.path.startswith(stem + ".") and facts.path.endswith("[*]") and facts.path != path
        )
        if is_sibling and _are_labels(facts):
            return Options(
                shown={"each": [facts.path, path], "template": "{{[0]}}. {{[1]}}"},
                bare={"path": path},
                keys=_row_texts(view, facts.path),
                texts=_row_texts(view, path),
                paths=frozenset({path, facts.path}),
            )
    return None


def find_options(view: View, columns: Sequence[Column]) -> Options | None:
    """Return the options of multiple choice rows, None if there are none."""
    objects = _object_options(view)
    if objects:
        return objects
    lists = [
        c for c in columns if c.many and c.named("options") >= NAMED and c.named("rejected") < NAMED
    ]
    for column in lists:
        options = _list_options(column)
        if options:
            return options
    return _options_from_columns(columns)


def numbered_answer_options(columns: Sequence[Column]) -> Options | None:
    """Return a list named `answers` that holds options, one of which a label numbers.

    The list has the same length in all rows.
    """
    labels = [c for c in columns if c.nature == "number" and c.named("label") >= PLAIN]
    for column in (
        c for c in columns if c.many and not c.nested and c.named_own("answer") >= CLEAR
    ):
        sizes = {len(row) for row in column.values}
        options = _list_options(column) if len(sizes) == 1 else None
        if options and any(c.distinct > 1 and answer_reference(options, c) for c in labels):
            return options
    return None


def _options_needed(answer: Column) -> int:
    """How many options an answer must have beside it, by its letters or numbers; 0 = none."""
    marks = {re.sub(r"[^A-Za-z0-9]", "", text).upper() for text in answer.present}
    if not marks or not all(len(mark) == 1 for mark in marks) or answer.distinct < 2:
        return 0
    if marks <= set("ABCDEFGH"):
        return ord(max(marks)) - ord("A") + 1
    return int(max(marks)) if marks <= set("0123456789") and answer.words < 1 else 0


def find_unnamed_choice(columns: Sequence[Column]) -> tuple[Column, Column, Options] | None:
    """Find a question, its options and the answer's letter by order and form, without names.

    The options are as many columns side by side as there are letters, the question stands before
    them and the letters behind.
    """
    flat = [c for c in columns if not c.many]
    if any((_column_letter(c) and len(c.name) == 1) or c.named("options") >= NAMED for c in flat):
        return None
    for answer in (c for c in flat if c.nature == "letter"):
        count = _options_needed(answer)
        before = [c for c in flat if c.position < answer.position]
        if count < 2 or len(before) < count + 1:
            continue
        options, question = before[-count:], before[-count - 1]
        are_options = all(c.nature in ("text", "label", "number", "mark", "time") for c in options)
        named = any(c.named("answer") >= CLEAR or c.named("question") >= CLEAR for c in options)
        if are_options and not named and question.text and question.words >= 3:
            return question, answer, _columns_options(options)
    return None


_LETTERS = re.compile(r"\s*[A-Ha-h](?:[\s,|;、，/]*[A-Ha-h])*\s*")


def find_lettered_text(columns: Sequence[Column]) -> tuple[Column, Column, Options] | None:
    """Find a question, a text that lists its lettered options, and the right letters."""
    flat = [c for c in columns if not c.many]
    listed = [c for c in flat if c.text and has_inline_options(c.texts)]
    lettered = [
        c for c in flat if c.present and c.distinct > 1 and all(map(_LETTERS.fullmatch, c.present))
    ]
    if len(listed) != 1 or not lettered or question_strength(listed[0]) >= 0.8:
        return None
    asked = [c for c in flat if may_be_question(c) and c is not listed[0]]
    before = [c for c in asked if c.position < listed[0].position] or asked
    question = max(before, key=lambda c: (question_strength(c), c.position), default=None)
    answer = max(lettered, key=lambda c: (c.named("answer"), c.fill, -c.position))
    if question is None or question.words < 2:
        return None
    path = listed[0].path
    rows = len(listed[0].texts)
    options = Options(
        shown=path,
        bare=None,
        keys=(tuple("ABCDEFGH"),) * rows,
        texts=((),) * rows,
        paths=frozenset({path}),
    )
    return question, answer, options


def option_columns(columns: Sequence[Column]) -> list[Column]:
    """Return at least three columns A, B, C, ...: options, whatever else their names may mean."""
    lettered = [c for c in columns if len(c.name) == 1 and _column_letter(c) and not c.many]
    names = "".join(c.name.upper() for c in lettered)
    return lettered if len(lettered) >= 3 and names.startswith("ABC") else []


def find_named_choice(
    view: View, columns: Sequence[Column]
) -> tuple[Column, Column, Options] | None:
    """Find a question with options and a column that says which option is right."""
    options = find_options(view, columns) or numbered_answer_options(columns)
    if options is None:
        return None
    rest = [c for c in columns if c.path not in options.paths]
    asked = max(
        (c for c in rest if may_be_question(c)),
        key=lambda c: (question_strength(c), -c.position),
        default=None,
    )
    if asked is None or question_strength(asked) < 0.3 or has_inline_options(asked.texts):
        return None
    if repeats_options(options, asked):
        return None
    choices = [
        (_key_strength(c), -c.position, c)
        for c in rest
        if c is not asked
        and max(c.named("answer"), c.named("label")) >= 0.5
        and answer_reference(options, c)
    ]
    choices = choices or [
        (0.4, -c.position, c)
        for c in rest
        if c.nature in ("number", "letter")
        and 1 < c.distinct <= max(map(len, options.keys))
        and answer_reference(options, c)
    ]
    best = max(choices, key=lambda choice: choice[:2], default=None)
    return (asked, best[2], options) if best else None


def _key_strength(column: Column) -> float:
    """How far a column is the key: the final one before a provisional one."""
    final = 0.3 * column.named("chosen") - 0.6 * column.named("rejected")
    return max(column.named("answer"), 0.8 * column.named("label")) + 0.1 * column.fill + final
