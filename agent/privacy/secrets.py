"""Secrets known by the name before them: `password=...`, `"api_key": "..."`, keys of objects.

Keys and tokens that are known by how they look: PEM blocks, JWTs, the prefixes of services.
What commands, calls and markup take as one.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from unicodedata import normalize

# Exact names, with whatever stands before `_`, `-`, `.` or a capital: DB_PASSWORD, dbPassword.
# `token`, `key` and `auth` alone are everyday words of language data.
_SECRET_NAMES = (
    r"pass[_-]?(?:word|wd|phrase|code)s?|pwd|secret"
    r"|(?:client|app|api|consumer|signing|shared|jwt|webhook)[_-]?secret"
    r"|secret[_-]?(?:access[_-]?)?key|(?:api|access|private|auth|encryption|master|signing|account)"
    r"[_-]?keys?|(?:access|auth|refresh|session|id|bearer|api|bot|csrf|oauth)[_-]?token"
    r"|(?:connection|conn)[_-]?string|passwort|kennwort|contraseña|contrasena|senha|пароль"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
# No other word ends in `password`: PGPASSWORD.
_BOUNDARY = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z])|(?=(?i:passw(?:or)?d)))"
# No name is without one of these; case is folded, as `ſ` and `K` are letters of names too.
_STEMS = (
    *("pass", "pw", "psw", "secret", "key", "token", "str", "kennwort", "contrase", "senha"),
    *("пароль", "密码", "密碼", "口令", "パスワード", "비밀번호"),
)
_NAME = rf"{_BOUNDARY}(?i:{_SECRET_NAMES})"
_STEM = re.compile("|".join(_STEMS), re.IGNORECASE)
_AROUND_STEM = 80  # characters in which a name and its sign stand
_SEVERAL = re.compile(r"(?i:pass(?:word|wd|phrase|code)s|pwds)\W{0,3}\Z")
# Names that are no names of secrets alone, and what their values look like where they are secrets.
_BY_LOOK = tuple(
    (re.compile(rf"{_BOUNDARY}(?i:(?:{names})(?:_?(?:code|number))?)\d?\Z"), re.compile(look))
    for names, look in (
        ("ssn|social_security(?:_n(?:o|umber))?", r"\d{3}-?\d\d-?\d{4}"),
        ("aadhaar(?:_n(?:o|umber))?|aadhar", r"\d{4}[ -]?\d{4}[ -]?\d{4}"),
        ("sin", r"\d{3}[ -]?\d{3}[ -]?\d{3}"),
        ("pesel|bsn|cpf|nhs_number|tckn|tc_kimlik(?:_no)?|national_id", r"\d[\d .-]{7,13}\d"),
        ("passport(?:_n(?:o|umber))?", r"(?=.*\d)[A-Z0-9]{7,9}"),
        ("card_n(?:o|umber)|credit_card", r"\d[\d -]{10,21}\d"),
        ("cvv2?|cvc2?|csc", r"\d{3,4}"),
        ("otp|one_time_(?:password|code)|totp", r"\d{4,8}|[A-Z2-7]{16,}=*"),
        # not the six digits of Indian postal codes, nor the numbers of the pins of a part
        ("pin", r"\d{4,5}"),
        ("cookies?", r"[\w.-]+=[^;\s]+(?:;.*)?|(?=.*\d)[\w%+/=.-]{16,}"),
        (
            "(?:seed|recovery|mnemonic)_(?:phrase|words)|mnemonic",
            r"(?:[a-z]{3,8}+[ ,]++){11,23}+[a-z]{3,8}+",
        ),
        (
            "authorization",
            r"(?i:basic|bearer|token|digest|apikey|key|negotiate)[ \t]++\S{4,}+.*"
            r"|(?:[\w-]+[ \t]+)?(?=\S*\d)(?=\S*[A-Za-z])\S{8,}",
        ),
        ("pw|psw|pass|credentials?", r"(?=.*[A-Za-z])(?=.*[\d!-/:-@])\S{6,}"),
    )
)
_KEY = re.compile(rf"{_NAME}(?:[_-]?\d{{1,3}})?\Z")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\Z")  # of a measure, no number of a person
# A text of three words and more that reads like a sentence, or has as much of Chinese or Japanese.
_PROSE = re.compile(
    r"(?=(?:\S+\s+){2}\S)(?:[A-Z]|.*[.,:;?!](?:\s|\Z)|(?:.*\s)?[A-Za-z]{1,3}(?:\s|\Z))"
    r"|.*[\u3040-\u30ff\u4e00-\u9fff]{4}",
    re.DOTALL,
)
_AROUND = re.compile(r"^\W++|(?<!\W)\W++\Z")  # quotes, blanks and marks at the ends of a name
_PLACEHOLDERS = ("[secret]", "[private key]")  # that read like a name
_BETWEEN = re.compile(r"[\s.]++")
_LONGEST_NAME = 40
_UNSEEN = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_ASSIGNED = re.compile(
    rf"(?<!</){_BOUNDARY}(?:(?i:{_SECRET_NAMES})|(?P<weak>(?i:pw|psw|pass)))(?:\\*+[\"'`])?+\]?+"
    r"[ \t]{0,4}+(?P<sign>=>|:=|==?"
    # a type, `password: str = '...'`
    r"|:[ \t]{0,4}&?[A-Za-z][\w.\[\], |?]{0,40}?[ \t]{1,4}=(?=[ \t]{0,4}[bBuU]?\\*[\"'`])"
    # behind a blank no other attribute, nor what follows a placeholder
    r"|:|是|为|為|>|(?i:\b(?:is|was)\b)"
    r"|(?<=[ ])(?<!\][ ])(?![A-Za-z][\w:.-]{0,40}=\\*[\"'][^\s,;)}\]]))"
    r"[ \t]{0,4}+(?:[bBuU](?=[\"']))?+(?P<open>\\*+[\"'`]|[“「『])?+"
)
_CLOSING = {"“": "”", "「": "」", "『": "』"}
_BARE = re.compile(r"[!#-&()*+./0-9:=?@A-Z^_a-z|~-]{3,}+")
_NO_VALUE = re.compile(
    r"[*.#?•-]+|[xX]{3,}|[A-Z]+(?:_[A-Z]+)+"
    r"|\[[a-z ]{2,14}\]|<.*>|\{.*\}|\$(?:[A-Za-z_]+|[A-Z0-9_]+)|\$[({].*|%\(?\w*\)?s?"
    r"|(?i:str|string|text|null|none|nil|true|false|undefined|required|optional|password|secret)"
    # code: a call, an index, an attribute, a name
    r"|[A-Za-z_][\w.]*[(\[](?:.*[)\]])?(?:\.\w+)*|(?:os|self|this|process|config|settings|args|env|request|req)\..*"
)
_SECRET_LIKE = re.compile(r"\d|[!-/:-@^`{|}~]|[a-z][A-Z]")
_LONGEST_VALUE = 400
# A line of settings, `password = hunter`; a variable of a program is named for what it holds.
_LINE_BEGIN = re.compile(r"(?:\A|[\n\r\"'`]|\\[nr])(?:export |set )?[ \t+-]{0,8}[\w.-]{0,40}\Z")
_LINE_END = re.compile(r"[ \t]{0,8}(?:;|[ \t][#;][^\n]{0,200})?(?:[\n\r\"'`]|\\[nr]|\Z)")
_VARIABLE = re.compile(
    r"(?i:(?:\w*+\.)*+(?=\w*?(?:pass|pwd|pw|secret|key|token|input|value|text|str))\w*+)"
)
# After `pw` and `pass`, which are words too, a value has a letter and a digit.
_WEAK_VALUE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)\S{4,}")
_ENDS = re.compile(r"[\n\r\"']")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether values under this key are secrets whatever they look like."""
    tail = normalize("NFKC", name[-_LONGEST_NAME:].translate(_UNSEEN))
    if any(placeholder in tail for placeholder in _PLACEHOLDERS):
        return False
    return _KEY.search(_BETWEEN.sub("_", _AROUND.sub("", tail))) is not None


def names_several(name: str) -> bool:
    """Return whether a name is that of several passwords: `passwords`, `user_passwords`."""
    return is_secret_name(name) and _SEVERAL.search(name) is not None


@lru_cache(maxsize=4096)
def _value_pattern(name: str) -> re.Pattern[str] | None:
    """What values under an ambiguous name look like where they are secrets."""
    spelled = _BETWEEN.sub("_", _AROUND.sub("", name[-_LONGEST_NAME:]))
    return next((pattern for named, pattern in _BY_LOOK if named.search(spelled)), None)


def is_secret_of(name: str, text: str) -> bool:
    """Return whether a text under a name such as `pin` or `cookie` looks like a secret."""
    pattern, spelled = _value_pattern(name), text.strip()
    return pattern is not None and not _DECIMAL.match(spelled) and bool(pattern.fullmatch(spelled))


def names_secret(text: str) -> bool:
    """Return whether the text of a cell is a name of a secret and no more."""
    short = len(text) <= _LONGEST_NAME and text.count(" ") <= 3
    return short and (is_secret_name(text) or _value_pattern(text) is not None)


def is_value_beside(text: str) -> bool:
    """Return whether a text beside a name can be its value: not a sentence, not a name again."""
    return not (is_no_value(text) or _PROSE.match(text) or is_secret_name(text))


def is_no_value(text: str) -> bool:
    """Return whether a text under the name of a secret says that there is none, or is code."""
    return _NO_VALUE.fullmatch(text) is not None


def find_assignments(text: str) -> Iterator[tuple[int, int]]:
    """Yield values that stand behind the name of a secret; `text` keeps its backslashes."""
    for literal, pattern in _COMMANDS:
        for match in pattern.finditer(text) if literal in text else ():
            name = match.groupdict().get("name")
            if (name is None or is_secret_name(name)) and is_value_beside(match["value"]):
                yield match.span("value")
    done = 0
    for first, last in _stem_windows(text):
        for match in _ASSIGNED.finditer(text, max(first, done), last):
            start, end = match.end(), _assigned_end(text, match)
            if match.start() >= done and end > start and not is_no_value(text[start:end]):
                done = end
                yield start, end


def _stem_windows(text: str) -> Iterator[tuple[int, int]]:
    """Where names of secrets may stand, in order, apart from each other."""
    first = last = 0
    for match in _STEM.finditer(text):
        if match.start() > last:
            if last:
                yield first, last
            first = max(0, match.start() - _AROUND_STEM)
        last = match.end() + _AROUND_STEM
    if last:
        yield first, last


def _assigned_end(text: str, match: re.Match[str]) -> int:
    """Where the value behind a name ends; its own start where it is none."""
    start, quote = match.end(), match["open"]
    end = _value_end(text, start, quote) if quote else _unquoted_end(text, match)
    weak = match["weak"] and not _WEAK_VALUE.fullmatch(text[start:end])
    return start if weak else end


def _value_end(text: str, start: int, quote: str) -> int:
    """Where a quoted value ends: at the same quote behind as many backslashes, or with its line."""
    most, quote = start + _LONGEST_VALUE, _CLOSING.get(quote, quote)
    end = text.find(quote, start, most)
    while end > start and text[end - 1] == "\\":
        end = text.find(quote, end + len(quote), most)
    if end >= 0:
        return end
    stop = _ENDS.search(text, start, most)
    return stop.start() if stop else min(most, len(text))


def _unquoted_end(text: str, match: re.Match[str]) -> int:
    """Where a value without quotes ends; `start` where it is more likely a word of a sentence."""
    start, sign = match.end(), match["sign"]
    bare = _BARE.match(text, start)
    if bare is None:
        return start
    value = bare[0].rstrip(".:?!")
    value = value if "(" in value else value.partition(")")[0]
    sure = "=" in sign and (text[start - 1] == "=" or _is_setting(text, match, value))
    code = "(" in value and ")" not in value  # a call with several arguments
    if len(value) >= 3 and not code and (sure or is_like_secret(value)):
        return start + len(value)
    return start


def is_like_secret(value: str) -> bool:
    """Return whether a word looks like a secret: a digit, a sign or a capital inside."""
    return len(value) >= 4 and _SECRET_LIKE.search(value) is not None


def _is_setting(text: str, match: re.Match[str], value: str) -> bool:
    """Whether name and value are a line of their own, as in INI files."""
    before = text[max(0, match.start() - _AROUND_STEM) : match.start()]
    alone = _LINE_BEGIN.search(before) and _LINE_END.match(text, match.end() + len(value))
    return alone is not None and _VARIABLE.fullmatch(value) is None


# Last word of keys under which the value of something named stands: `stringValue`.
VALUE_KEY = r"(?:\b|(?<=_)|(?<=[a-z])(?=[A-Z]))(?i:values?|val|v|content|default|string)(?![\w.-])"
# Commands and calls that take a secret: what must stand in a text, and how it is written.
_QUOTE = r"\\{0,4}[\"']"
_VALUE_ATTRIBUTE = rf"\s[\w:.-]{{0,40}}{VALUE_KEY}\s?=\s?{_QUOTE}(?P<value>[^\"'<>\\]{{1,400}})"
_NAME_ATTRIBUTE = rf"[^<>]{{0,400}}?=\s?{_QUOTE}[\w.: -]{{0,40}}?{_NAME}\d?{_QUOTE}"
_ELEMENT_TEXT = r"\s{0,20}(?P<value>[^<>\s][^<>]{0,400}?)\s{0,20}</"
_USER = (  # and password; two numbers are those of a user and a group
    r"[ =]{0,2}[\"']?(?!\d+:\d+\b)[^\s:\"'@/-][^\s:\"'@/]{0,64}:(?P<value>[^\s\"'@]{3,200})"
)
_COMMANDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        ",",
        re.compile(
            rf"(?:\b(?i:define|\w{{0,20}}(?:set|put|env|prop|config)\w{{0,20}})\(\s{{0,4}}{_QUOTE}"
            rf"|{_QUOTE}--?)"
            rf"(?P<name>[\w.-]{{1,60}}){_QUOTE}\s{{0,2}},\s{{0,4}}{_QUOTE}(?P<value>[^\"'\n\\]{{3,200}})"
            rf"{_QUOTE}"
        ),
    ),
    (
        "setenv",
        re.compile(r"\bsetenv[ \t]+(?P<name>\w{1,60})[ \t]+[\"']?(?P<value>[^\s\"'()]{3,200})"),
    ),
    (
        "curl",
        re.compile(rf"\s(?:-u|--(?:proxy-)?user){_USER}"),
    ),
    (
        "http",  # HTTPie
        re.compile(rf"\bhttps?[ \t][^\n|;]{{0,200}}?(?<=\s)(?:-a|--auth){_USER}"),
    ),
    (
        ":",
        re.compile(  # headers
            rf"(?:\s(?:-H|--header)[ =]{{0,2}}(?:{_QUOTE})?|(?<![\w-])(?=[Xx]-))"
            r"(?P<name>[\w-]{1,60}):[ \t]{0,2}(?P<value>[^\s\"'\\]{3,200})"
        ),
    ),
    (
        " -p",
        re.compile(
            r"\b(?:(?:mysql|mariadb)\w{0,8}\b[^\n|;]{0,200}?\s-p"
            r"(?![a-z]{2,}[ =]\d|(?:ort|ath|rotocol|assword|rint|rofile)\b)"  # `-port 3306`
            r"|sshpass\s{1,4}-p\s?)[\"']?"
            r"(?P<value>[^\s\"'-][^\s\"']{2,200})"
        ),
    ),
    ("jdbc:", re.compile(r"jdbc:[\w:]{1,40}:[^\s/@:\"']{1,64}/(?P<value>[^\s@/\"']{1,200})@")),
    (
        "/",
        re.compile(
            r"(?:\bjdbc:oracle:\w{1,10}:@[^\s\"']{1,200}"
            r"|\b(?:sqlplus|sqlldr|expdp|impdp|sqlcl)(?:[ \t]{1,4}-\w{1,20}){0,4})"
            r"[ \t]{1,4}[\"']?[^\s/@:\"']{1,64}/(?P<value>[^\s@/\"']{3,200})"
        ),
    ),
    (
        ":",
        re.compile(  # .pgpass; with any port as a line of its own whose host has a dot
            r"(?:(?<![\w:/.*-])[\w.*-]{1,80}:(?:54\d\d|6432|\*)"
            r"|(?<![^\n\"'])(?:localhost|\*|[\w-]{1,80}\.[\w.-]{1,80}(?<!\.py)(?<!\.js)(?<!\.log)):\d{4,5}"
            r"(?=[^\s\"']{0,400}(?:[\n\"']|\Z))):[\w.*-]{1,64}:[\w.*-]{1,64}:(?P<value>[^\s:\"']{3,200})"
        ),
    ),
    # Markup: text of an element, of one whose attribute is the name, and of the one behind it;
    # attributes beside each other.
    ("</", re.compile(rf"<(?P<name>[\w:.-]{{1,60}})(?:\s[^<>]{{0,400}})?>{_ELEMENT_TEXT}")),
    ("</", re.compile(rf"<{_NAME_ATTRIBUTE}[^<>]{{0,400}}>{_ELEMENT_TEXT}")),
    (
        "</",
        re.compile(
            rf"<(?P<tag>[\w:.-]{{1,60}})>[\w.: -]{{0,40}}?{_NAME}\W?</(?P=tag)>"
            rf"(?:\s|\\\\[nrt]){{0,40}}<(?!(?P=tag)[>\s])[\w:.-]{{1,60}}>{_ELEMENT_TEXT}"
        ),
    ),
    ("<", re.compile(rf"<{_NAME_ATTRIBUTE}[^<>]{{0,400}}?{_VALUE_ATTRIBUTE}")),
    (
        "<",
        re.compile(rf"<[^<>]{{0,400}}?{_VALUE_ATTRIBUTE}{_QUOTE}{_NAME_ATTRIBUTE}"),
    ),
)


# PEM, PGP, SSH2 and PuTTY
_BEGIN = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-Lines: \d{1,4}"
)
_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-MAC:")
_LONGEST_KEY = 20_000
# A block without an end: its lines of base64, and a last one that the text cuts off.
_KEY_LINES = re.compile(r"(?:\s*+[A-Za-z0-9+/=]{20,}+)*+(?:\s*+[A-Za-z0-9+/=]++\s*+\Z)?+")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+){0,4}")
_BEARER = re.compile(r"\bbearer[ \t]++(?=[A-Za-z._~+/=-]{0,80}\d)([A-Za-z0-9._~+/=-]{16,}+)", re.I)
_BASIC = re.compile(
    r"\bauthorization\W{1,6}(?:basic|bearer|token)[ \t]++([A-Za-z0-9._~!+/=-]{8,}+)", re.I
)


def find_private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield PEM and PGP blocks of private keys, also those that are cut off before their end."""
    begins = list(_BEGIN.finditer(text))
    after = [*(begin.start() for begin in begins[1:]), len(text)]
    for begin, most in zip(begins, after, strict=False):
        lines = _KEY_LINES.match(text, begin.end(), most)
        stop = lines.end() if lines else begin.end()
        end = _END.search(text, stop, min(most, stop + _LONGEST_KEY))
        yield begin.start(), end.end() if end else stop


# A line of a key alone; the widths of full ones are those of PEM and PGP, with letters of all kinds
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]*={0,2}|(?:Proc-Type|DEK-Info|Version|Comment): .{1,80}")
_FULL_WIDTHS = (64, 70, 76)
_FULL_LINE = re.compile(
    rf"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])(?:{'|'.join(f'.{{{n}}}' for n in _FULL_WIDTHS)})"
)
_SHORTEST_LINE = 16


def may_be_key_line(line: str) -> bool:
    """Return whether a text may be a line of a key.

    A quick test: where no text passes it, there is no key.
    """
    full = len(line) in _FULL_WIDTHS and _KEY_LINE.fullmatch(line) is not None
    return full or "----" in line or "Private-" in line


def find_key_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, in order, that together are the lines of a private key."""
    run: list[str] = []
    begun = False
    for text in (*texts, "."):
        line = text.strip()
        if _KEY_LINE.fullmatch(line):
            run.append(line)
            continue
        ended = _END.search(line) is not None
        if begun or ended or sum(map(bool, map(_FULL_LINE.fullmatch, run))) > 1:
            least = 1 if begun and ended else _SHORTEST_LINE
            yield from (part for part in run if len(part) >= least)
        run, begun = [], not ended and _BEGIN.search(line) is not None


def find_jwts(text: str) -> Iterator[tuple[int, int]]:
    """Yield JSON Web Tokens: two or more parts of base64url, the first of them a JSON object."""
    for match in _JWT.finditer(text):
        header, _, rest = match[0].partition(".")
        before = text[match.start() - 1] if match.start() else ""
        if len(header) > 10 and "." in rest and not before.isalnum():
            yield match.span()


def find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield tokens with a known prefix (tokens.json), or after `Bearer` and `Basic`."""
    for match in _token_pattern().finditer(text):
        yield match.span()
    for pattern in (_BEARER, _BASIC):
        for match in pattern.finditer(text):
            yield match.span(1)


@cache
def _token_pattern() -> re.Pattern[str]:
    kinds = json.loads(files("ingot.agent.privacy").joinpath("tokens.json").read_text("utf-8"))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(kind['pattern'] for kind in kinds)})")
