"""Judge which columns ask and which answer, which pair fits, and which languages they are in."""

import re
from collections import Counter
from collections.abc import Sequence

from ingot.agent.proposing.columns import (
    Column,
    has_several,
    last_name,
    list_path,
    outer_names,
    parse_whole_number,
    text_of,
)
from ingot.agent.proposing.names import (
    CLEAR,
    NAMED,
    PLAIN,
    language_code,
    name_strength,
    spell_name,
)
from ingot.agent.proposing.rules.text_copies import containment_share, have_same_words
from ingot.converters.mapping.language import add_pick
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import (
    LANGUAGE_CHARS,
    count_words,
    recognize_language,
    script_counts,
)

_PHRASE = re.compile(r"\w\s*[.!?…]\s*$")
_PLACEHOLDER = re.compile(r"[(（\[【<].{0,20}[)）\]】>]|[-–—－/.]{1,3}|n/?a", re.IGNORECASE)
_REWRITTEN = re.compile(
    r"edit|revis|correct|rewrit|annot|amend|修订|修改|更正|訂正|修正", re.IGNORECASE
)
SURE_SHARE = 0.7
PREFERS = re.compile(
    r"prefer|better|best|winner|win\b|won\b|chosen|choice|select|label|verdict|rank|judg"
)
OF_TESTS = re.compile(r"label|rank|answer|correct")


def detect_language(texts: Sequence[str]) -> tuple[str | None, float]:
    """Return the language of most texts, weighted by length, and its share."""
    votes: Counter[str] = Counter()
    short: list[str] = []
    for text in texts[:60]:
        if len(text) < 80:
            short.append(text)
            continue
        if code := recognize_language(text):
            votes[code] += min(len(text), LANGUAGE_CHARS)
    for start in range(0, len(short), 12):
        together = "\n".join(short[start : start + 12])
        if code := recognize_language(together):
            votes[code] += len(together)
    if not votes:
        return None, 0.0
    code, weight = votes.most_common(1)[0]
    return code, weight / sum(votes.values())


def languages_differ(sides: Sequence[Sequence[str]]) -> bool:
    """Return whether the sides are in different languages; names, numbers and labels have none."""
    known = set()
    for texts in sides:
        code, share = detect_language(texts) if _are_phrases(texts) else (None, 0.0)
        if code and share >= SURE_SHARE:
            known.add(code)
    return len(known) > 1


def _are_phrases(texts: Sequence[str]) -> bool:
    """Whether texts are phrases: several words, or the end of a sentence, or another script."""
    sample = [text for text in texts[:60] if text.strip()]
    phrases = sum(count_words(text) >= 4 or bool(_PHRASE.search(text)) for text in sample)
    letters = script_counts("\n".join(sample))
    return phrases > 0.4 * len(sample) or letters["latin"] < 0.5 * sum(letters.values())


ANSWER_NATURES = ("text", "label", "letter", "number", "mark")
_ASK = {
    "question": 1,
    "instruction": 0.9,
    "input": 0.75,
    "title": 0.65,
    "body": 0.45,
    "context": 0.4,
}
_ANSWERS = {"answer": 1, "chosen": 1, "body": 0.45, "rationale": 0.4, "lead": 0.3}
_JUDGED = (("premise", "hypothesis"), ("text_a", "text_b"), ("sentence_a", "sentence_b"))
_NUMBERED = re.compile(r"(.*\D)_?(\d)")


def _unspoken_strength(column: Column) -> float:
    """How far the name speaks against a column being said at all."""
    kinds = ("label", "id", "foreign_id", "url", "author", "time", "rejected", "example", "tools")
    sentences = column.words >= 5 and column.looks("sentence") > 0.5
    return max(column.named(kind) for kind in (kinds[-3:] if sentences else kinds))


_TO_BOT = re.compile(  # in the second person, as nobody begins who asks
    r"\s*(?:(?:you|tu|vous|du|sie|eres|usted|você|jij|ты|вы|bạn|anda)\b|act as|you're|sei un|"
    r"jesteś|sen bir|你是|您是|你将|あなたは|당신은|너는)",
    re.IGNORECASE,
)


def addresses_bot(column: Column) -> bool:
    """Return whether the texts tell an assistant who it is, and repeat from row to row."""
    hits = sum(bool(_TO_BOT.match(text)) for text in column.present)
    again = column.distinct <= 0.7 * len(column.present)
    return (
        not column.many and len(column.present) > 3 and again and hits > 0.6 * len(column.present)
    )


def question_strength(column: Column) -> float:
    """Score how likely a column is what the user says, from 0 to slightly above 1."""
    name = max(weight * column.named(slot) for slot, weight in _ASK.items())
    name = max(name, 0.7 * column.named("history") * (not column.many))
    against = 0.5 * column.named("rejected") + 0.4 * column.looks("code")
    against += 0.3 * (column.words < 1.5)
    against += 0.8 * addresses_bot(column)
    return name + 0.35 * column.looks("question") - against


def answer_strength(column: Column) -> float:
    """Score how likely a column is what the assistant says."""
    name = max(weight * column.named(slot) for slot, weight in _ANSWERS.items())
    code = 0.4 * column.looks("code")
    prose = 0.1 * min(1.0, column.words / 12)
    against = 0.15 * column.looks("question") + 0.9 * max(
        column.named("rejected"), column.named("example")
    )
    against += 0.4 * column.named("context") * (name < 0.5)
    against += 0.6 * (
        column.named("question") >= CLEAR and name < 0.5 and column.looks("code") < 0.5
    )
    return name + code + prose - against - 0.3 * (column.looks("json") > 0.9)


def is_tool_path(path: str) -> bool:
    """Return whether a path leads into the definitions of tools."""
    names = (last_name(path), *outer_names(path))
    return any(name_strength(name, "tools") >= NAMED for name in names)


def may_be_question(column: Column) -> bool:
    """Return whether a column may be what the user says."""
    if column.nature != "text" or is_tool_path(column.path):
        return False
    return max(question_strength(column), 0.0) > 0.3 or _unspoken_strength(column) < 0.8


def _may_be_answer(column: Column) -> bool:
    if is_tool_path(column.path):
        return False
    if column.nature == "text":
        return answer_strength(column) > 0.3 or _unspoken_strength(column) < 0.8
    truth = column.facts.types.get("boolean", 0) > 0.5 * len(column.present)
    return column.nature in ANSWER_NATURES and column.named("answer") >= (0.95 if truth else 0.5)


def _is_pointer(column: Column, columns: Sequence[Column]) -> bool:
    """A number or a mark that stands for a row of some table, such as the reply to this one."""
    if column.words >= 3:
        return False
    rows = [c for c in columns if c is not column and c.named("id") >= NAMED and not c.many]
    is_marked = any(
        sum(t in set(c.present) for t in column.present) > len(column.present) / 2 for c in rows
    )
    named = max(column.named_own("id"), column.named_own("foreign_id")) >= 0.8
    return is_marked or (named and column.nature in ("number", "mark", "hash", "uuid"))


def _pair_score(question: Column, answer: Column) -> float:
    order = 0.12 if question.position < answer.position else -0.06
    fill = 0.3 * (min(question.fill, 0.95) + min(answer.fill, 0.95) - 1)
    depth = 0.05 * (question.path.count(".") + answer.path.count("."))
    depth += 0.12 * (outer_names(question.path) != outer_names(answer.path))
    short = 0.15 if answer.nature in ("number", "letter", "label") else 0.0
    many = (0.8 if has_several(question) else 0.1) * question.many
    bare = 0.15 * (answer.words < 2)
    both = question_strength(question) + answer_strength(answer)
    about = 0.8 * is_heading(question, answer) + 0.4 * answer.path.startswith("^")
    # Both may stand in one list, the question first: `fields[0]`, `fields[1]`.
    head = question.path.removesuffix("[0]")
    about -= 0.4 * (head != question.path and answer.path == f"{head}[1]")
    return both + order + fill - depth - short - many - bare - about


def is_heading(question: Column, answer: Column) -> bool:
    """Return whether one text is only the title of the other, so that nobody asks."""
    asked = max(question.named(slot) for slot in ("question", "instruction", "input"))
    answer_named = max(answer.named(slot) for slot in ("answer", "chosen"))
    body = answer.named("body") >= NAMED and answer_named < 0.8
    titled = question.named("title") >= NAMED and question.looks("question") < 0.3
    return titled and (body or answer.named("lead") >= NAMED) and asked < 0.8


def _is_bare_label(column: Column, question: Column) -> bool:
    """A word or two that no name calls an answer; nameless ones that differ answer a question."""
    asked = question.looks("question") >= 0.8 and column.distinct > 0.6 * len(column.present)
    if column.nameless and asked:
        return False
    return column.words < 4 and max(column.named("answer"), column.named("chosen")) < 0.3


def rival_columns(column: Column, columns: Sequence[Column]) -> int:
    """Count the columns of the same name in other objects: several attempts at one thing."""
    same = [c for c in columns if c.name == column.name and c.path != column.path]
    return len(same) if outer_names(column.path) else 0


def _is_filled_template(answer: Column, question: Column, replies: Sequence[Column]) -> bool:
    """Whether a text repeats question and answer, as `text` beside instruction and output does."""
    if question.words < 3 or containment_share(answer, question) < 0.8:
        return False
    inside = [c for c in replies if c.path not in (answer.path, question.path) and c.words >= 1]
    return any(containment_share(answer, c) > 0.8 and c.named("answer") >= NAMED for c in inside)


def _contains_other(outer: Column, inner: Column) -> bool:
    """Whether a text is made of another one that is long enough to tell."""
    return outer.path != inner.path and inner.words >= 3 and containment_share(outer, inner) > 0.8


def alternative_answers(column: Column, columns: Sequence[Column]) -> list[Column]:
    """Return the answers with similar names: `summary1`, `summary2`; `answer_a`, `answer_gpt`."""
    stem = alternative_stem(column)
    return [c for c in columns if c.text and not c.many and stem and alternative_stem(c) == stem]


def _is_later_alternative(column: Column, columns: Sequence[Column]) -> bool:
    tries = alternative_answers(column, columns)
    return bool(tries) and column is not tries[0]


def alternative_stem(column: Column) -> str:
    """Return the common name of alternative answers (`answer` of `answer_gpt`), or ""."""
    name = spell_name(column.name)
    match = _NUMBERED.fullmatch(name)
    stem = match[1].rstrip("_") if match else name.rpartition("_")[0]
    other = max(column.named_own(kind) for kind in ("rationale", "rejected", "chosen", "id"))
    return stem if stem and name_strength(stem, "answer") == 1 and other < 0.8 else ""


def _first_text_only(columns: Sequence[Column]) -> list[Column]:
    """Of two columns of text the first, whatever its name says: keywords that a poem is made of."""
    texts = [
        c for c in columns if c.text and max(c.named("id"), c.named("url")) < 0.8 and c.words >= 1.5
    ]
    return texts[:1] if len(texts) == 2 else []


def score_pairs(columns: Sequence[Column]) -> list[tuple[float, Column, Column]]:
    """Return scored pairs of a question and an answer, best first."""
    replies = [
        c
        for c in columns
        if _may_be_answer(c)
        and not _is_pointer(c, columns)
        and not (c.nameless and is_boilerplate(c))
    ]
    asking = [c for c in columns if may_be_question(c)]
    pairs = _fitting_pairs(asking, replies, columns) or _fitting_pairs(
        _first_text_only(columns), replies, columns
    )
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1].position, pair[2].position))


def _fitting_pairs(
    questions: Sequence[Column], replies: Sequence[Column], columns: Sequence[Column]
) -> list[tuple[float, Column, Column]]:
    return [
        (
            _pair_score(q, a)
            - 0.2 * min(2, rival_columns(a, columns))
            - 0.5 * _is_unnamed_answer(q, a, replies),
            q,
            a,
        )
        for q in questions
        for a in replies
        if q.path != a.path
        and not (q.path.startswith("^") and a.path.startswith("^"))
        and not (has_several(q) and a.many and list_path(q.path) == list_path(a.path))
        and (_has_sentences(q, a) or is_explicit_pair(q, a))
        and not (
            have_same_words(q, a)
            or judged_partner(a, q)
            or judged_partner(q, a)
            or _is_bare_label(a, q)
        )
        and not _is_later_alternative(a, columns)
        and not _is_filled_template(a, q, replies)
        and not (
            containment_share(q, a) > 0.8
            and any(_contains_other(q, c) for c in questions if c is not a)
        )
    ]


def _is_unnamed_answer(question: Column, answer: Column, replies: Sequence[Column]) -> bool:
    """Whether another column is called the answer, and this one is not."""
    if max(answer.named("answer"), answer.named("chosen")) >= 0.5:
        return False
    return any(
        c.named("answer") >= PLAIN and c.fill > 0.8 and c.path != question.path for c in replies
    )


def find_translation(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """Find two columns named after languages or, without names, written in two languages."""
    spoken = [
        c for c in columns if c.text and language_code(c.name) and len(c.name) < 12 and c.fill > 0.8
    ]
    if len(spoken) == 2:
        return spoken[0], spoken[1]
    texts = [c for c in columns if c.text and c.fill > 0.8 and not is_boilerplate(c)]
    if len(texts) != 2 or not all(c.nameless for c in texts):
        return None
    (first, sure), (second, sure_too) = (detect_language(c.present) for c in texts)
    two = first and second and first != second and min(sure, sure_too) > 0.6
    return (texts[0], texts[1]) if two else None


def is_boilerplate(column: Column) -> bool:
    """Return whether nearly all texts begin alike, as an attribution or a licence does."""
    starts = Counter(text.strip()[:24] for text in column.present)
    return len(column.present) > 4 and starts.most_common(1)[0][1] > 0.8 * len(column.present)


def find_judged_pair(columns: Sequence[Column]) -> tuple[Column, Column] | None:
    """Find two texts and the word that judges them: premise, hypothesis, and whether it follows."""
    texts = [c for c in columns if c.text and not c.many]
    firsts = [a for a in texts if any(judged_partner(b, a) for b in texts if b is not a)]
    words = [
        c
        for c in columns
        if c.nature == "label" and max(c.named("label"), c.named("answer")) >= 0.95
    ]
    return (firsts[0], words[0]) if firsts and words else None


def judged_partner(column: Column, question: Column) -> bool:
    """Return whether this is the second of two texts judged together: `sentence2`, `text_b`."""
    first, second = spell_name(question.name), spell_name(column.name)
    if (first, second) in _JUDGED:
        return True
    stem = first[:-1].rstrip("_")
    numbered = first[-1:] == "1" and second[-1:] == "2" and first[:-1] == second[:-1]
    return numbered and stem in ("sentence", "sent", "text", "question", "phrase", "句子", "文本")


def is_explicit_pair(question: Column, answer: Column) -> bool:
    """Return whether names, or else the form of the texts, say who asks and who answers."""
    if question.nameless:
        return question.looks("question") >= 0.6
    asked = max(question.named(slot) for slot in ("question", "instruction", "input"))
    replies = max(answer.named("answer"), answer.named("chosen"))
    whole = replies >= 0.95 and answer.words >= 5 and question.named("body") >= PLAIN
    return (asked >= 0.75 and replies >= 0.7) or whole


def _has_sentences(question: Column, answer: Column) -> bool:
    """Whether at least one of two columns holds more than names and short labels."""
    both = (question, answer)
    looks = [max(map(c.looks, ("sentence", "question", "code"))) for c in both]
    unlike = all(c.distinct > 0.9 * len(c.present) and c.words >= 2.5 for c in both)
    prose = max(question.looks("prose"), answer.looks("prose")) > 0.5
    return max(looks) > 0.3 or max(question.words, answer.words) >= 8 or (unlike and prose)


def preferred_list_element(columns: Sequence[Column], answer: Column) -> dict[str, Json] | None:
    """Return the answer of a list whose number a column gives: `summaries` and `choice`."""
    sizes = [len(row) for row in answer.values]
    if not answer.many or min(sizes, default=0) < 2:
        return None
    same = [c for c in columns if c.many and list_path(c.path) == list_path(answer.path)]
    starts = [n for n in (0, 1) if any(_counts_elements(c, n) for c in same)]
    for column in columns:
        words = spell_name(column.name).replace("_", " ")
        named = PREFERS.search(words) and not OF_TESTS.search(words)
        if not (named or starts) or column.many or column.distinct < 2:
            continue
        places = [
            (parse_whole_number(t), size) for t, size in zip(column.texts, sizes, strict=True)
        ]
        known = [(place, size) for place, size in places if place is not None]
        first = starts[0] if starts else 0
        if len(known) >= (0.5 if starts else 1) * len(places) and all(
            first <= place < size + first for place, size in known
        ):
            pick: Json = {"path": column.path, "from": first} if first else column.path
            return add_pick({"path": answer.path}, pick)
    return None


def find_placeholders(answer: Column) -> list[str]:
    """Return the placeholders for answers that were not given: `(none)`, `-`."""
    seen = Counter(text.strip() for text in answer.present)
    placeholders = sorted(filter(_PLACEHOLDER.fullmatch, seen))
    some = answer.words >= 4 and 1 < sum(seen[t] for t in placeholders) < 0.5 * len(answer.present)
    return placeholders if some else []


def is_rewritten(column: Column, answer: Column) -> bool:
    """Return whether a column is an edited version of the answer, or an annotation of it."""
    is_marked = _REWRITTEN.search(column.path) and not _REWRITTEN.search(answer.path)
    long = column.text and 3 * column.words > max(9, answer.words)
    return bool(is_marked) and long and not have_same_words(column, answer)


def _counts_elements(column: Column, start: int) -> bool:
    """Whether a field of the elements numbers them."""
    rows = ([parse_whole_number(text_of(value)) for value in row] for row in column.values)
    return all(row == list(range(start, start + len(row))) for row in rows)
