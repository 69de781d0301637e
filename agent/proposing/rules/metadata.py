"""The six meta keys: which columns carry them, by what the values are and what the names say."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ingot.agent.privacy.secrets import is_secret_name
from ingot.agent.proposing.columns import (
    Column,
    View,
    is_path_inside,
    parse_finite_number,
    text_of,
)
from ingot.agent.proposing.names import NAMED, language_code, name_group, spell_name
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.rules.answers.sides import SURE_SHARE, detect_language, languages_differ
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import is_code, is_timestamp, recognize_language

_EPOCHS = ((8e8, 4e9), (8e11, 4e12))
_COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?\d{4,6}Z?)?")
_DIGITS = re.compile(r"\d+")
_YEAR = re.compile(r"(?:1[789]|20)\d\d")
_FETCHED = ("crawl", "download", "fetch", "retriev", "scrap")
_CHANGED = ("updat", "modif", "edit")
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?")

_LEAST_FILL = 0.2  # of the rows have to have an id, a time, a language
_TIMES = 0.9  # of the values of a timestamp have to be times
# A question has several answers, a post several comments: the id of the smaller thing.
_INNER = ("answer", "comment", "reply", "paragraph")


def _score_original_id(column: Column, used: frozenset[str]) -> float:
    """An id names the record: different in every row, short, no running text, nobody else's id."""
    if column.path in used or column.nature == "time" or is_secret_name(column.name):
        return 0.0
    if column.named("foreign_id") >= 1 or column.words > 12 or "boolean" in column.facts.types:
        return 0.0
    if column.fill < _LEAST_FILL:
        return 0.0
    exact = spell_name(column.name) in ("id", "uid", "uuid", "guid", "_id", "doc_id", "docid")
    # Rows that stand in a file twice have their ids twice.
    least = 0.9 if exact else 0.97
    count = len(column.present)
    if count < 2 or column.distinct / count < least or _has_fractions(column):
        return 0.0
    named = column.named("id") * (0.7 if column.named("foreign_id") >= NAMED else 1)
    shape = {"uuid": 0.35, "hash": 0.3, "url": 0.25, "file": 0.1}.get(column.nature, 0.0)
    if column.nature == "number" and named < 0.5:
        first = 0.3 if column.position == 0 else 0.0
        long = all(text.isdigit() and len(text) >= 5 for text in column.present)
        return (0.4 if long else first) if column.nameless else 0.0
    if column.nature in ("url", "file") and named < 0.5:
        return _score_place(column)
    if named < 0.5 and not shape:
        return 0.26 if _is_serial(column) else 0.0
    counter = 0.25 if _counts_up(column) else 0.0
    depth = 0.05 * column.path.count(".")
    return (
        named
        + shape
        + 0.1 * exact
        - depth
        - counter
        + 0.1 * (column.fill > 0.98)
        - 0.15 * _is_other_id(column)
        - 0.1 * ("number" in column.facts.types)
        + 0.03 * spell_name(column.name).startswith(_INNER)
    )


def _has_fractions(column: Column) -> bool:
    """Numbers that are measured: an id that a tool wrote as `17.0` is still whole."""
    if "number" not in column.facts.types:
        return False
    return not all(text.endswith(".0") for text in column.present)


def _score_place(column: Column) -> float:
    """An address or a file name identifies a record where nothing else does."""
    spelt = spell_name(column.name)
    if column.nature == "url":
        page = column.named("url") == 1.0 and spelt not in ("image_url", "source_url")
        return 0.3 if page else 0.12
    return 0.26 if spelt in ("file", "path", "filepath", "file_path") else 0.12


def _is_serial(column: Column) -> bool:
    """`train_0`, `D1:17`: marks with a number, spelt alike, where nothing says what they are."""
    spelt = {_DIGITS.sub("0", text) for text in column.present}
    marks = all(len(text) <= 64 and not text.isdigit() for text in column.present)
    strength = max(column.named("foreign_id"), column.named("author"), column.named("answer"))
    return marks and strength < 0.8 and len(spelt) <= 3 and " " not in "".join(spelt)


def _is_other_id(column: Column) -> bool:
    """`answer_id`, `title_key`: ids of something that the record only holds."""
    return "_" in spell_name(column.name) and spell_name(column.name).startswith(
        ("title", "user", "author", "parent")
    )


def _counts_up(column: Column) -> bool:
    """A running number 0, 1, 2 or 1, 2, 3: a position, only the last resort as an id."""
    if column.nature != "number":
        return False
    first = sorted(column.present, key=len)[:1]
    return first in (["0"], ["1"]) and spell_name(column.name) in name_group("positions")


def _is_epoch(column: Column) -> bool:
    spread = column.facts.numbers
    if spread is None or ("number" in column.facts.types and spread.low < 8e8):
        return False
    return any(low <= spread.low and spread.high <= high for low, high in _EPOCHS)


def _score_timestamp(column: Column, used: frozenset[str]) -> float:
    """A point in time that belongs to the text: not when it was fetched, rather than changed."""
    if column.path in used or column.fill < _LEAST_FILL:
        return 0.0
    if column.distinct < 2 < len(column.present) and column.named_own("time") < 1:
        return 0.0
    words = spell_name(column.name).split("_")
    fetched = words[0] == "added" or any(word.startswith(_FETCHED) for word in words)
    changed = any(word.startswith(_CHANGED) for word in words)
    points = _time_likeness(column)
    return points - 0.3 * fetched - 0.05 * changed if points else 0.0


def _time_likeness(column: Column) -> float:
    """How far it is a time: by a date's spelling, or as an epoch or a year with a time's name."""
    if sum(map(is_timestamp, column.present)) < _TIMES * len(column.present):
        return 0.0
    named = column.named("time")
    if column.nature == "time":
        return 0.5 + 0.5 * named - 0.05 * column.path.count(".") + 0.1 * (column.fill > 0.9)
    if column.facts.looks.get("time", 0) > 0.5:
        return 0.4 + 0.4 * named
    texts_epoch = column.looks("number") > 0.9 and all(
        t.isdigit() and 9 <= len(t) <= 13 for t in column.present
    )
    if named >= 0.8 and (_is_epoch(column) or texts_epoch):
        return 0.4 + 0.5 * named
    if named >= 0.8 and all(_COMPACT.fullmatch(text) for text in column.present):
        return 0.35 + 0.5 * named
    year = column.nature == "number" and all(_YEAR.fullmatch(text) for text in column.present)
    return 0.3 if year and named >= 0.8 else 0.0


def _score_language(column: Column, used: frozenset[str]) -> float:
    """Values that are language codes or names; programming languages are not."""
    if column.path in used or column.fill < _LEAST_FILL:
        return 0.0
    if column.nameless and not (column.distinct > 1 and max(map(len, column.present)) <= 5):
        return 0.0
    named = 0.9 if spell_name(column.name).startswith("lang") else column.named("language")
    named = 0.5 if column.nameless else named
    share = sum(_is_language(text) for text in column.present) / len(column.present)
    # The tables hold the usual languages: the others of a column that says so are spelt like them.
    if named >= 0.9 and share >= 0.3 and all(map(_looks_like_language, column.present)):
        share = max(share, 0.8)
    return (0.5 + 0.5 * named) * share if share >= 0.8 and named >= 0.5 else 0.0


def _is_language(text: str) -> bool:
    """One language: a list of them (`fra,eng`) says what a page holds, not what a text is in."""
    bare = text.strip()
    if bare in ("mix", "und"):
        return True
    code = language_code(bare) or language_code(bare.split(" ")[-1] if " " in bare else "")
    return _looks_like_language(bare) and code is not None


def _looks_like_language(text: str) -> bool:
    """A code (`pt-BR`, `zho_Hans`) or a name of letters (`Simplified Chinese`)."""
    bare = text.strip()
    return bool(_CODE.fullmatch(bare)) or all(word.isalpha() for word in bare.split(" "))


def _score_source(column: Column, used: frozenset[str]) -> float:
    """Where the text comes from: a few short names under a source's name."""
    if column.path in used or column.named("source") < NAMED or column.words > 6:
        return 0.0
    if column.nature in ("number", "time", "letter", "empty"):
        return 0.0
    return column.named("source") * (
        0.9 if column.nature in ("url", "file") else 1.0
    ) - 0.02 * column.path.count(".")


def _score_quality(column: Column, used: frozenset[str]) -> float:
    """A score of the text: a number from 0 to 1 that varies, under a name that says quality."""
    if column.path in used or not column.numeric or column.distinct < 2:
        return 0.0
    numbers = [n for t in column.present if (n := parse_finite_number(t)) is not None]
    if not numbers or min(numbers) < 0 or max(numbers) > 1:
        return 0.0
    # A bare `score` says not of what: beside one text or pair it rates that, unless few values come
    # back again and again, as marks and votes do.
    if column.name == column.path == "score":
        return 0.4 if len(set(numbers)) > 0.8 * len(numbers) and len(used) <= 2 else 0.0
    if column.named("quality") < NAMED or column.named("not_quality") >= 1:
        return 0.0
    return column.named("quality")


def _score_token_count(column: Column, used: frozenset[str]) -> float:
    """Whole numbers under a name that says tokens."""
    if column.path in used or not column.numeric or column.named("token_count") < NAMED:
        return 0.0
    whole = all(t.isdigit() for t in column.present)
    return column.named("token_count") if whole and column.distinct > 1 else 0.0


Finder = Callable[[Column, frozenset[str]], float]
FINDERS: dict[str, Finder] = {
    "source": _score_source,
    "language": _score_language,
    "timestamp": _score_timestamp,
    "token_count": _score_token_count,
    "quality_score": _score_quality,
    "original_id": _score_original_id,
}


# What may be said once per element of a list, and the same of all: of the turns of a conversation.
SHARED_KEYS = ("source", "language", "timestamp")


def _first_shared_value(column: Column) -> Column | None:
    """The first value of a list whose values are all equal in every row."""
    if column.path.count("[*]") != 1 or not column.many or not column.present:
        return None
    if any(len(set(map(text_of, row))) > 1 for row in column.values):
        return None
    first = tuple(row[:1] for row in column.values)
    return replace(column, path=column.path.replace("[*]", "[0]"), many=False, values=first)


def _is_inside_text(path: str, used: frozenset[str]) -> bool:
    """Whether a path leads to a tag inside what is taken as a text, or to an attribute of one."""
    place = path.replace("[0]", "[*]")
    heads = (text.removesuffix(".#text") for text in used if text.endswith(".#text"))
    return any(is_path_inside(place, head) and "." in place[len(head) + 1 :] for head in heads)


def _is_beside(path: str, used: frozenset[str]) -> bool:
    """Whether a path stands in an element of which a text is taken: in a turn of the talk."""
    head = f"{path.partition('[*]')[0]}[*]"
    return any(text.startswith(head) for text in used)


def find_meta(view: View, used: frozenset[str]) -> tuple[dict[str, Json], tuple[Evidence, ...]]:
    """Return the columns of the metadata keys that the data has, with evidence."""
    meta: dict[str, Json] = {}
    evidence: list[Evidence] = []
    free = [c for c in view.columns if c.present and not _is_inside_text(c.path, used)]
    columns = [c for c in free if not c.many]
    within = [c for c in free if c.many and _is_beside(c.path, used)]
    shared = [*columns, *filter(None, map(_first_shared_value, within))]
    for key, score in FINDERS.items():
        candidates = shared if key in SHARED_KEYS else columns
        scored = [(score(c, used) - 0.15 * ("[0]" in c.path), c) for c in candidates]
        ranked = sorted(scored, key=lambda r: (-r[0], r[1].position))
        likely = [item for item in ranked[:2] if item[0] >= 0.25]
        if not likely:
            continue
        sure, best = likely[0]
        meta[key] = best.path
        evidence.append(
            Evidence(
                target=f"meta.{key}",
                choice=best.path,
                why=f"different values: {best.distinct}, in {len(best.present)} rows",
                runner_up=likely[1][1].path if len(likely) > 1 else None,
                confidence=min(1.0, sure),
            )
        )
    return meta, tuple(evidence)


_FEW_KNOWN = 5
SAME_LANGUAGE = 0.9  # share of the records in one language that a constant may claim for all


def _example_texts(
    records: Sequence[Record], roles: Sequence[str] = ("user", "assistant")
) -> list[str]:
    texts: list[str] = []
    for record in records:
        contents = [m["content"] for m in record.get("messages", ()) if m["role"] in roles]
        texts += [t for t in contents or [record.get("text", "")] if t.strip() and not is_code(t)]
    return texts


def _detect_texts_language(records: Sequence[Record]) -> tuple[str | None, float]:
    """The language of the texts; none where questions and answers are in different ones."""
    talks = any("messages" in record for record in records)
    if talks and languages_differ(
        [_example_texts(records, [role]) for role in ("user", "assistant")]
    ):
        return None, 0.0
    code, share = detect_language(_example_texts(records))
    known = [
        language
        for r in records
        if (language := recognize_language("\n".join(_example_texts([r]))))
    ]
    if len(known) >= _FEW_KNOWN and known.count(code or "") < SAME_LANGUAGE * len(known):
        return None, 0.0  # long texts of one language do not speak for short ones of another
    return code, share


def mapping_language(
    records: Sequence[Record], asked: str | None, meta: dict[str, Json]
) -> tuple[Json, dict[str, Json], float]:
    """Return the mapping's language: a column, the requested one, or the one detected in texts."""
    if "language" in meta:
        return meta["language"], {}, 1.0
    if asked:
        return {"literal": asked}, {}, 1.0
    code, share = _detect_texts_language(records)
    if code is None or share < SURE_SHARE:
        return None, {}, share
    return {"literal": code}, {"language": code}, share
