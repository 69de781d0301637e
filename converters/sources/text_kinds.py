"""What a text looks like: url, time, hash, path, number, prose, question, code; and its scripts.

Looks are cheap observations about one text. They are evidence for a mapper and words for a prompt;
nothing is decided by one of them alone.

Which language a text is in: by script where a script tells, else by py3langid.
What the texts of a sample's records hold: what is trained on, what is constant, what is no text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from html import unescape
from typing import Annotated, Final

from ingot.converters.json_yaml import OMIT
from ingot.converters.rows import Json

_URL = re.compile(r"(?:https?|ftp|s3|hdfs)://\S+|www\.\S+\.\S+", re.IGNORECASE)
_FILE = re.compile(
    r"(?:[\w.\-]+[/\\])*[\w.\- ]+\.[A-Za-z][A-Za-z0-9]{0,5}|(?:[\w.\-]*[/\\]){2,}\S*"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.\w+|\[email(?: [a-z]+)?\]")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(
    r"(?:0x|(?:sha|md|crc|b)\d+[:-])?(?:[0-9a-f]{16,128}|[A-Z2-7]{26,64})", re.IGNORECASE
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?\s*%?")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_ZONE = r"(?:\s*(?:z|[a-z]{2,4}|[+-]\d{2}:?\d{2}))?"
_CLOCK = rf"(?:[t ,]+\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?\s*(?:am|pm)?{_ZONE})?"
_TIME = re.compile(
    rf"(?:1[5-9]|2[01])\d\d[-/.](?:0?[1-9]|1[0-2])(?:[-/.](?:0?[1-9]|[12]\d|3[01]))?{_CLOCK}"
    rf"|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}{_CLOCK}"
    rf"|\d{{4}}年(?:\d{{1,2}}月(?:\d{{1,2}}[日号])?)?[\d\s:：.,()（）上下午前后後時时点分秒星期周一二三四五六日天月火水木金土曜]{{0,14}}"
    rf"|(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?\d{{1,2}}\s+{_MONTH},?\s+\d{{4}}{_CLOCK}"
    rf"|(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?{_MONTH}\.?\s+\d{{1,2}},?"
    rf"(?:\s+\d{{1,2}}:\d{{2}}(?::\d{{2}})?{_ZONE})?,?\s+\d{{4}}{_CLOCK}"
    rf"|(?:0[1-9]|1[0-2]) \d{{1,2}}, \d{{4}}"
    rf"|\d{{1,2}}[-/]\d{{1,2}}[ ,]+\d{{1,2}}:\d{{2}}(?::\d{{2}})?"
    rf"|\d{{4}}년(?:\s*\d{{1,2}}월(?:\s*\d{{1,2}}일)?)?[\d\s:.,()오전후시분초월화수목금토일요]{{0,14}}",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[(\[（【]?[A-Ha-h][)\]）】.]?")
_OPTION = re.compile(r"[(\[（【]?[A-Ha-h1-8][)\]）】.．、:：]\s*\S.*", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_QUESTION_END = re.compile(r"[?？؟][\s\"'”’」』)）]*$|_{2,}|（\s*）|\(\s{2,}\)")
_VERBS = (
    "write give list explain describe create generate find name compute calculate translate "
    "summarize summarise classify identify tell make suggest provide compose rewrite design "
    "implement answer solve determine complete rephrase revise rework modify alter take "
    "repeat expand shorten change edit convert compare discuss draft develop imagine act "
    "pretend suppose consider evaluate assess analyze analyse recommend propose outline "
    "categorize construct build add remove replace extract organize sort rank choose select "
    "pick show prove let"
)
_QUESTION_WORDS = (
    "what who whom whose when where why how which is are was were do does did can could "
    "should would will if given que quel quelle quels quelles qui comment pourquoi combien "
    "wer wie warum wo wann qué cuál cómo quién dónde explica traduce resume traduis traduisez "
    "что как почему кто где когда напиши объясни erkläre schreibe nenne"
)
_ASKING = re.compile(
    r"\s*(?:now,? |please |could you |and |then |then, )?(?:"
    + "|".join([*_VERBS.split(), *_QUESTION_WORDS.split()])
    + r"|explique[rz]?|donne[rz]?|écri[rstvez]+|résume[rz]?|cite[rz]?|rédige[rz]?"
    r"|welche[rsn]?|escrib[ea]|por qué"
    r")\b",
    re.IGNORECASE,
)
_ASKING_AGAIN = re.compile(
    r"[^.?!\n]{0,80}\byour (?:previous|earlier|last|prior) (?:response|reply|answer)",
    re.IGNORECASE,
)
_ASKING_CJK = re.compile(
    r"什么|怎么|如何|为什么|为何|吗|呢|哪|谁|多少|是否|请|何|几|怎样|列出|写一|给出|解释|描述|生成|翻译|判断|帮我"
    r"|何ですか|ですか|か？|なぜ|教えて|무엇|어떻게|왜|까요|나요|인가|어디|누구|언제|뭐"
)
_SENTENCE = re.compile(r"[.!?。！？…؟।][\"'”’」』)）]?(?:\s|$)|[，。；、！？]")
_CODE_SIGN = re.compile(r"[(){};=<>]")
_CODE_START = re.compile(
    r"\s*+(?:def |class |import |from \S+ import|function |public |private |#include|package "
    r"|const |let |var |func |fn |SELECT |<\?php|using |if __name__|return |@\w+\()"
)
_CODE_END = re.compile(r"[;{}]\s*$|=>|==|\):\s*$|</\w+>|(?<!\w)\w++\([\w, =.\"'\[\]]*\)\s*$")
_SCRIPTS = {
    "han": re.compile(r"[\u3400-\u9fff\uf900-\ufaff]"),
    "kana": re.compile(r"[\u3040-\u30ff]"),
    "hangul": re.compile(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
    "hebrew": re.compile(r"[\u0590-\u05ff]"),
    "greek": re.compile(r"[\u0370-\u03ff]"),
    "thai": re.compile(r"[\u0e00-\u0e7f]"),
    "devanagari": re.compile(r"[\u0900-\u097f]"),
    "bengali": re.compile(r"[\u0980-\u09ff]"),
    "tamil": re.compile(r"[\u0b80-\u0bff]"),
    "latin": re.compile(r"[A-Za-z\u00c0-\u024f]"),
}


@cache
def _script_of(sign: str) -> str:
    """The script of a letter, "" for other signs."""
    return next((name for name, rule in _SCRIPTS.items() if rule.match(sign)), "")


_NO_LETTER = bytes(code for code in range(128) if not chr(code).isalpha())
_BLANKS = bytes(32 if chr(code).isspace() else code for code in range(256))
_NO_WORD = bytes(code for code in _NO_LETTER if not chr(code).isspace())
_JSON_START = re.compile(r"\s*(?:\[\s*(?:[\[{\"\d-]|$|\])|\{\s*[\"}])")


def count_words(text: str) -> int:
    """Return how many words a text has, about: two characters of Han or Kana count as one."""
    if text.isascii():
        return len(text.encode().translate(_BLANKS, _NO_WORD).split())
    han = len(_HAN.findall(text))
    rest = _HAN.sub(" ", text) if han else text
    spaced = sum(1 for token in rest.split() if _WORD.search(token))
    return spaced + (han + 1) // 2


def count_letters(text: str) -> int:
    """Return how many letters a text has, of whatever script."""
    if text.isascii():
        return len(text.encode().translate(None, _NO_LETTER))
    return sum(map(str.isalpha, text))


def script_counts(text: str) -> Counter[str]:
    """Return letters per script."""
    if text.isascii():
        latin = count_letters(text)
        return Counter(latin=latin) if latin else Counter()
    found = dict.fromkeys(_SCRIPTS, 0)
    for sign, times in Counter(text).items():
        if script := _script_of(sign):
            found[script] += times
    return Counter({name: times for name, times in found.items() if times})


_TAG = re.compile(r"<!--.*?(?:-->|\Z)|</?[a-zA-Z][^<>]*>", re.DOTALL)
_MARKDOWN = re.compile(r"(?:^|\n)(?:#{1,6}|[*-]) |\*\*|__\w|\]\(|(?<!\w)\*\w")
_SIGNS = re.compile(r"[\W_]+")
_ASCII_WORDS = bytes(ord(chr(n).lower()) if chr(n).isalnum() else 32 for n in range(128)).ljust(256)
_CHARS = 20_000  # of a text that are compared
IN_TAGS = 2  # the level of markup in tags


def bare_words(text: str) -> str:
    """Return a text without its markup: words with one blank between them."""
    plain = unescape(_TAG.sub(" ", text[:_CHARS])) if "<" in text or "&" in text else text[:_CHARS]
    if plain.isascii():
        return b" ".join(plain.encode().translate(_ASCII_WORDS).split()).decode()
    return _SIGNS.sub(" ", plain).strip().casefold()


def markup_level(texts: Sequence[str]) -> int:
    """Return how much markup most texts have: 2 tags, 1 signs as of Markdown, 0 none."""
    for level, marks in ((IN_TAGS, _TAG), (1, _MARKDOWN)):
        if 2 * sum(bool(marks.search(text)) for text in texts) > len(texts):
            return level
    return 0


def is_time(text: str) -> bool:
    """Return whether a text is a date or a point in time as usually spelled; numbers are not."""
    return len(text) < 45 and bool(_TIME.fullmatch(text.strip()))


# What a time is beside a spelling: a year, a date in digits, seconds since 1970 or parts of them.
_STAMP = re.compile(r"(?:1[5-9]|2[01])\d\d(?:[01]\d[0-3]\d(?:T?\d{4,6}Z?)?)?|\d{9,19}(?:\.\d+)?")


def is_timestamp(text: str) -> bool:
    """Return whether the value of `meta.timestamp` says a point in time, a day or a year."""
    return is_time(text) or bool(_STAMP.fullmatch(text.strip()))


def is_question(text: str) -> bool:
    """Return whether a text asks or orders something, as far as its form shows."""
    start, end = text[:400], text[-200:].rstrip()
    if _QUESTION_END.search(end) or _ASKING.match(start):
        return True
    if "your " in start[:90].lower() and _ASKING_AGAIN.match(start):
        return True
    if start.isascii():
        return False
    cjk = _HAN.search(start) or _SCRIPTS["hangul"].search(start[:100])
    return bool(cjk and _ASKING_CJK.search(text[:200]))


def is_code(text: str) -> bool:
    """Return whether at least a quarter of the lines of a text have the form of program code."""
    if not _CODE_SIGN.search(text):
        return False
    lines = [line for line in text[:4000].splitlines() if line.strip()]
    hits = [
        line
        for line in lines
        if _CODE_START.match(line) or (_CODE_SIGN.search(line) and _CODE_END.search(line))
    ]
    return len(hits) >= max(1, len(lines) / 4)


_SHAPES = (
    ("url", _URL),
    ("uuid", _UUID),
    ("email", _EMAIL),
    ("letter", _LETTER),
    ("number", _NUMBER),
    ("hash", _HEX),
    ("hash", _BASE64),
    ("file", _FILE),
)


def _text_shape(text: str) -> str | None:
    """What a text is as a whole, where it is no running text."""
    if len(text) > 300 or not text:
        return None
    if is_time(text):
        return "time"
    for name, rule in _SHAPES:
        if rule.fullmatch(text) and (name != "file" or " " not in text.rsplit(".", 1)[-1]):
            return "number" if name == "hash" and text.isdigit() else name
    return None


def text_looks(text: str) -> tuple[str, ...]:
    """Return every look of a non-blank text.

    One of url, uuid, email, letter, number, hash, file, time for a text that is such a thing as a
    whole; else any of prose (five words or more), sentence, question, code, json,
    option (`A. ...`), word (one word).
    """
    bare = text.strip()
    shape = _text_shape(bare)
    if shape:
        return (shape,)
    prose = count_words(bare[:2000]) >= 5
    looks = {
        "prose": prose,
        "sentence": prose and _SENTENCE.search(bare[:2000]),
        "word": len(bare) <= 32 and not re.search(r"\s", bare),
        "question": is_question(bare),
        "code": is_code(bare),
        "json": bare[-1:] in ("]", "}") and _JSON_START.match(bare),
        "option": _OPTION.fullmatch(bare),
    }
    return tuple(look for look, found in looks.items() if found)


LANGUAGE_CHARS: Final = 1500  # characters of a text that are looked at

_BY_SCRIPT: Final = {
    "hangul": "ko",
    "kana": "ja",
    "han": "zh",
    "thai": "th",
    "greek": "el",
    "hebrew": "he",
    "tamil": "ta",
}
_MARKUP = re.compile(r"```.*?```|https?://\S+|<[^>]{1,80}>|\\[a-zA-Z]+|[{}$_^\\]", re.DOTALL)


def recognize_language(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, None if it is too short to tell."""
    return _recognize(_MARKUP.sub(" ", text)[:LANGUAGE_CHARS])


@lru_cache(maxsize=2048)  # the same texts are looked at for every draft of a mapping
def _recognize(bare: str) -> str | None:
    from py3langid import classify

    scripts = script_counts(bare)
    letters = sum(scripts.values())
    if letters < 4:
        return None
    if scripts["kana"] > 0.1 * letters:
        return "ja"
    for script, code in _BY_SCRIPT.items():
        weight = 2 if script == "han" else 1  # a sign of Han says as much as two letters
        if weight * scripts[script] > 0.5 * (letters + (weight - 1) * scripts[script]):
            return code
    if letters < 20:
        return None
    code = str(classify(bare)[0])
    return code if len(code) == 2 else None  # rare ones are mostly letters that are no language


# Eight numbers and nothing else are no sentence; a short answer to a sum is fewer.
_NUMBERS = re.compile(r"\s*+[\[({]?\s*+[0-9]++(?:[\s,;|]++[0-9]++){7,}+[\s,;|]*+[\])}]?\s*+")
_NUMBERS_CHARS = 4000  # characters that are looked at; a longer list of numbers begins as one

Record = dict[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class MostFrequent:
    """How often the most frequent of some texts occurs: `count` of `texts`, `distinct` in all."""

    texts: int
    distinct: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """Counts over the records of a sample.

    Attributes:
        usual: per side (`text`; `prompts`, `answers`) the most frequent text.
        numbers: per side the records whose text is a list of numbers and nothing else.
        wordless: records that hold a text without words: an id, an address, masked letters.
        timestamps, no_times: records with a `meta.timestamp`, and those where it is no time.
    """

    records: int = 0
    trained_records: int = 0
    chars: int = 0
    trained_chars: int = 0
    usual: dict[str, MostFrequent] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    wordless: Annotated[int, OMIT] = 0
    timestamps: Annotated[int, OMIT] = 0
    no_times: Annotated[int, OMIT] = 0


def count_content(records: Sequence[Record]) -> Content:
    """Count what the records hold."""
    sides: dict[str, list[str]] = {}
    lengths = [list(_text_lengths(record)) for record in records]
    for record in records:
        for side, text in _side_texts(record):
            sides.setdefault(side, []).append(text)
    stamps = [stamp for record in records if (stamp := record.get("meta", {}).get("timestamp"))]
    return Content(
        records=len(records),
        trained_records=sum(any(on for _, on in one) for one in lengths),
        chars=sum(size for one in lengths for size, _ in one),
        trained_chars=sum(size for one in lengths for size, on in one if on),
        usual={side: _most_frequent(texts) for side, texts in sides.items()},
        numbers={side: sum(map(is_numbers, texts)) for side, texts in sides.items()},
        wordless=sum(any(map(is_wordless, record_texts(record))) for record in records),
        timestamps=len(stamps),
        no_times=sum(not is_timestamp(stamp) for stamp in stamps),
    )


def record_texts(record: Record) -> list[str]:
    """Return the text of a record, or those of its messages."""
    return [record["text"]] if "text" in record else [m["content"] for m in record["messages"]]


_KEY_TEXT = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\x21-\x7e]{8,}|[a-z][a-z0-9+]*://\S+")
_FEW_LETTERS, _MASKED = 3, 12  # letters that differ, of so many


def is_wordless(text: str) -> bool:
    """Return whether a text is a key or an address as a whole, or letters that were masked."""
    bare = text.strip()[:400]
    if _KEY_TEXT.fullmatch(bare):
        return not re.search(r"[=+*()^{}\\]", bare)  # a formula is an answer
    for part in (bare[:_MASKED], bare):  # the first word of most texts tells
        if len({sign.lower() for sign in set(part) if sign.isalpha()}) >= _FEW_LETTERS:
            return False
    return sum(map(str.isalpha, bare)) >= _MASKED


MOST_TRANSCRIPTS: Final = 0.02  # of some records: with more they have to be cut
_SPEAKER = r"(?:[<\[|#]\W{{0,4}})?(?:{})\W{{0,3}}[:：>\]]"
_USER, _OTHER = "user|human|用户", "assistant|bot|chatbot|ai|gpt|chatgpt|助手|机器人"
_TRANSCRIPT = re.compile(
    rf"\s*{_SPEAKER.format(_USER)}.*[\s>\]]{_SPEAKER.format(f'{_USER}|{_OTHER}')}",
    re.IGNORECASE | re.DOTALL,
)


def is_transcript(text: str) -> bool:
    """Return whether a text begins with a user's mark that no sentence has, before others."""
    return bool(_TRANSCRIPT.match(text[:4000]))


def _side_texts(record: Record) -> Iterator[tuple[str, str]]:
    """What is asked and what is answered, as one text each; of a PT record its text."""
    if "text" in record:
        yield "text", record["text"]
        return
    messages = record["messages"]
    for side, roles in (("prompts", ("user", "tool")), ("answers", ("assistant",))):
        yield side, "\n".join(one["content"] for one in messages if one["role"] in roles)


def _text_lengths(record: Record) -> Iterator[tuple[int, bool]]:
    """Characters of each text, and whether it is trained on."""
    if "text" in record:
        yield len(record["text"]), True
        return
    for message in record["messages"]:
        yield len(message["content"]), bool(message["loss_mask"])
    yield len(record.get("system") or ""), False


def _most_frequent(texts: Sequence[str]) -> MostFrequent:
    counts = Counter(texts)
    return MostFrequent(texts=len(texts), distinct=len(counts), count=max(counts.values()))


def is_numbers(text: str) -> bool:
    """Return whether a text is a list of eight or more whole numbers, such as token ids."""
    head = text[:_NUMBERS_CHARS]
    if not head[:64].lstrip(" \t\n[({")[:1].isdigit():
        return False
    if len(text) > _NUMBERS_CHARS:  # the cut may have split a number, which stays one
        head = head.rstrip(" \t\n,;|")
    return _NUMBERS.fullmatch(head) is not None
