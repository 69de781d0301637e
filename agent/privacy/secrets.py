"""Secrets known by the name before them: `password=...`, `"api_key": "..."`, keys of objects.

Keys and tokens that are known by how they look: PEM blocks, JWTs, the prefixes of services.
E-mail addresses, credentials in URLs, secrets in query strings, IP addresses.
What opens doors in the URLs of a message; all else of it stays as it is.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from ipaddress import IPv6Address, ip_address
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
    (re.compile(rf"{_BOUNDARY}(?i:{names})\d?\Z"), re.compile(look))
    for names, look in (
        ("ssn|social_security(?:_n(?:o|umber))?", r"\d{3}-?\d\d-?\d{4}"),
        ("aadhaar(?:_n(?:o|umber))?|aadhar", r"\d{4}[ -]?\d{4}[ -]?\d{4}"),
        ("sin|pesel|bsn|cpf|nhs_number|tckn|tc_kimlik(?:_no)?|national_id", r"\d[\d .-]{7,13}\d"),
        ("passport(?:_n(?:o|umber))?", r"(?=.*\d)[A-Z0-9]{7,9}"),
        ("card_n(?:o|umber)|credit_card", r"\d[\d -]{10,21}\d"),
        ("cvv2?|cvc2?|csc", r"\d{3,4}"),
        ("otp|one_time_(?:password|code)|totp", r"\d{4,8}|[A-Z2-7]{16,}=*"),
        # not the six digits of Indian postal codes, nor the numbers of the pins of a part
        ("pin", r"\d{4,5}"),
        ("cookies?", r"[\w.-]+=[^;\s]+(?:;.*)?|(?=.*\d)[\w%+/=.-]{16,}"),
        (
            "(?:seed|recovery|mnemonic)_(?:phrase|words)|mnemonic",
            r"(?:[a-z]{3,8}[ ,]+){11,23}[a-z]{3,8}",
        ),
        ("pw|psw|pass|credentials?", r"(?=.*[A-Za-z])(?=.*[\d!-/:-@])\S{6,}"),
    )
)
_KEY = re.compile(rf"{_NAME}(?:[_-]?\d{{1,3}})?\Z")
_AROUND = re.compile(r"^\W++|(?<!\W)\W++\Z")  # quotes, blanks and marks at the ends of a name
_PLACEHOLDERS = ("[secret]", "[private key]")  # that read like a name
_BETWEEN = re.compile(r"[\s.]++")
_LONGEST_NAME = 40
_UNSEEN = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_ASSIGNED = re.compile(
    rf"(?<!</){_BOUNDARY}(?:(?i:{_SECRET_NAMES})|(?P<weak>(?i:pw|psw|pass)))(?:\\*+[\"'`])?+\]?+"
    r"[ \t]{0,4}+(?P<sign>=>|:=|==?|:|是|为|為|>|(?i:\b(?:is|was)\b)|(?<=[ ]))"
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
_VARIABLE = re.compile(r"(?i:[\w.]*(?:pass|pwd|pw|secret|key|token|input|value|text|str)\w*)")
# After `pw` and `pass`, which are words too, a value has a letter and a digit.
_WEAK_VALUE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)\S{4,}")
_ENDS = re.compile(r"[\n\r\"']")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether values under this key are secrets whatever they look like."""
    tail = normalize("NFKC", name[-_LONGEST_NAME:].translate(_UNSEEN))
    if any(one in tail for one in _PLACEHOLDERS):
        return False
    return _KEY.search(_BETWEEN.sub("_", _AROUND.sub("", tail))) is not None


def names_several(name: str) -> bool:
    """Whether a name is that of several passwords: `passwords`, `user_passwords`."""
    return is_secret_name(name) and _SEVERAL.search(name) is not None


@lru_cache(maxsize=4096)
def _value_pattern(name: str) -> re.Pattern[str] | None:
    """What values under an ambiguous name look like where they are secrets."""
    spelled = _BETWEEN.sub("_", _AROUND.sub("", name[-_LONGEST_NAME:]))
    return next((pattern for named, pattern in _BY_LOOK if named.search(spelled)), None)


def is_secret_of(name: str, text: str) -> bool:
    """Whether a text under `pin`, `cvv`, `cookie` and their like is a secret by how it looks."""
    pattern = _value_pattern(name)
    return pattern is not None and pattern.fullmatch(text.strip()) is not None


def is_no_value(text: str) -> bool:
    """Whether a text under the name of a secret says that there is none, or is code."""
    return _NO_VALUE.fullmatch(text) is not None


def find_assignments(text: str) -> Iterator[tuple[int, int]]:
    """Values that stand behind the name of a secret; `text` keeps its backslashes."""
    for literal, pattern in _COMMANDS:
        for match in pattern.finditer(text) if literal in text else ():
            name = match.groupdict().get("name")
            if (name is None or is_secret_name(name)) and not is_no_value(match["value"]):
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
    found = _BARE.match(text, start)
    if found is None:
        return start
    value = found[0].rstrip(".:?!")
    value = value if "(" in value else value.partition(")")[0]
    sure = "=" in sign and (text[start - 1] == "=" or _is_setting(text, match, value))
    code = "(" in value and ")" not in value  # a call with several arguments
    if len(value) >= 3 and not code and (sure or _is_like_secret(value)):
        return start + len(value)
    return start


def _is_like_secret(value: str) -> bool:
    return len(value) >= 4 and _SECRET_LIKE.search(value) is not None


def _is_setting(text: str, match: re.Match[str], value: str) -> bool:
    """Whether name and value are a line of their own, as in INI files."""
    before = text[max(0, match.start() - _AROUND_STEM) : match.start()]
    alone = _LINE_BEGIN.search(before) and _LINE_END.match(text, match.end() + len(value))
    return alone is not None and _VARIABLE.fullmatch(value) is None


# Commands and calls that take a secret: what must stand in a text, and how it is written.
_QUOTE = r"\\{0,4}[\"']"
_COMMANDS = (
    (
        "(",
        re.compile(
            rf"\b(?i:define|\w{{0,20}}(?:set|put|env|prop|config)\w{{0,20}})\(\s{{0,4}}{_QUOTE}"
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
        re.compile(
            r"\s(?:-u|--(?:proxy-)?user)[ =]{0,2}[\"']?[^\s:\"'@/-][^\s:\"'@/]{0,64}:"
            r"(?P<value>[^\s\"'@]{3,200})"
        ),
    ),
    (
        " -p",
        re.compile(
            r"\b(?:(?:mysql|mariadb)\w{0,8}\b[^\n|;]{0,200}?\s-p|sshpass\s{1,4}-p\s?)[\"']?"
            r"(?P<value>[^\s\"'-][^\s\"']{2,200})"
        ),
    ),
    ("jdbc:", re.compile(r"jdbc:[\w:]{1,40}:[^\s/@:\"']{1,64}/(?P<value>[^\s@/\"']{1,200})@")),
    (
        ":",
        re.compile(  # .pgpass
            r"(?<![\w:/.*-])[\w.*-]{1,80}:(?:54\d\d|6432|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:"
            r"(?P<value>[^\s:\"']{3,200})"
        ),
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
    """PEM and PGP blocks of private keys, also those that are cut off before their end."""
    begins = list(_BEGIN.finditer(text))
    after = [*(one.start() for one in begins[1:]), len(text)]
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
    """Whether lines of a key may stand around a text; without one such text there are none."""
    full = len(line) in _FULL_WIDTHS and _KEY_LINE.fullmatch(line) is not None
    return full or "----" in line or "Private-" in line


def find_key_lines(texts: Iterable[str]) -> Iterator[str]:
    """Texts in order, such as lines of a file, that together are the lines of a private key."""
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
            yield from (one for one in run if len(one) >= least)
        run, begun = [], not ended and _BEGIN.search(line) is not None


def find_jwts(text: str) -> Iterator[tuple[int, int]]:
    """JSON Web Tokens: two or more parts of base64url, the first a JSON object."""
    for match in _JWT.finditer(text):
        header, _, rest = match[0].partition(".")
        before = text[match.start() - 1] if match.start() else ""
        if len(header) > 10 and "." in rest and not before.isalnum():
            yield match.span()


def find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Tokens with the prefix of a service (tokens.json), and what follows `Bearer` and `Basic`."""
    for match in _token_pattern().finditer(text):
        yield match.span()
    for pattern in (_BEARER, _BASIC):
        for match in pattern.finditer(text):
            yield match.span(1)


@cache
def _token_pattern() -> re.Pattern[str]:
    kinds = json.loads(files("ingot.agent.privacy").joinpath("tokens.json").read_text("utf-8"))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(one['pattern'] for one in kinds)})")


_AT_SIGN = re.compile(r"@|%40")
_LONGEST_LOCAL = 64
_LOCAL = re.compile(r"[A-Za-z0-9._%+'-]++|[\w.%+'-]++")  # backwards from the sign
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])"
    r"|(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_]{2,24}"
)
# `icon@2x.png` and `git@host:path` are no addresses of people.
_FILE_ENDINGS = frozenset(
    ("png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "css", "js", "py", "html")
)
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}\Z")
_USERINFO = re.compile(r"[^\s\"'<>`/?#\\]{0,300}@|[^\s\"'<>`?#\\@:]{1,64}:[^\s\"'<>`\\@]{1,200}@")
_QUERY = re.compile(
    r"(?<=[?&;])(?:(?:x-amz-|x-goog-)?(?:access_?|auth_?|api_?|security-?|refresh_?|session_?)?"
    r"(?:token|signature|secret|password|passwd|pwd|apikey|sig)|key|api_?key|api-key|client_secret"
    r"|x-amz-credential|code)=([^&;\s\"'<>`\\\[\]]{6,}+)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]{1,15}(?:[_-][A-Za-z]{1,15})?\Z")
_V4 = re.compile(r"(?<![\w.])\d{1,3}+(?:\.\d{1,3}+){3}(?![\w]|\.\d)")
# Addresses in use begin with four digits, or with `::`; a cloze such as `c1::9` does not.
_V6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]{0,39}\d)(?:[0-9A-Fa-f]{4}|(?=::))(?::[0-9A-Fa-f]{0,4}+){2,7}(?![\w:])"
)
# 1.2.3.4 after these is a version: `v1.2.3.4`, `Chrome/1.2.3.4`, `version: 1.2.3.4`, `==1.2.3.4`.
_VERSION = re.compile(
    r"(?:[A-Za-z]/|==|>=|<=|~=|\^|~|\b(?:v|ver|version|release|build|rev|section|chapter|§)"
    r"[\"']?[.:=\s]{0,3}[\"']?|版本[号:为是\s]{0,3})\Z",
    re.IGNORECASE,
)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """E-mail addresses, `%40` for the sign included; the local part ends where its letters end."""
    for at in _AT_SIGN.finditer(text):
        domain = _DOMAIN.match(text, at.end())
        if domain is None or domain[0].rpartition(".")[2].lower() in _FILE_ENDINGS:
            continue
        before = text[max(0, at.start() - _LONGEST_LOCAL) : at.start()][::-1]
        local = _LOCAL.match(before)
        name = local[0].rstrip(".%'+-") if local else ""
        if name and name != "tig":
            yield at.start() - len(name), domain.end()


def find_url_credentials(text: str) -> Iterator[tuple[int, int]]:
    """`user:password` before the host of a URL; a user alone where it is as long as a key."""
    place = text.find("://")
    while place >= 0:
        start = place + 3
        found = _USERINFO.match(text, start)
        if found and _AUTHORITY.search(text[max(0, place - 31) : place]):
            user, colon, password = found[0][:-1].partition(":")
            if password if colon else len(user) >= 20:
                yield start, found.end() - 1
        place = text.find("://", start)


def find_query_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Values of `token=`, `key=`, `sig=` and their like in the query of a URL; no plain words."""
    for match in _QUERY.finditer(text):
        if not _WORD.match(match[1]):
            yield match.span(1)


def find_ip_addresses(text: str) -> Iterator[tuple[int, int]]:
    """IPv4 and IPv6 addresses that say which machine it is; no versions, loopbacks and masks."""
    for match in _V4.finditer(text):
        if _identifies_machine(match[0]) and not _VERSION.search(
            text[max(0, match.start() - 12) : match.start()]
        ):
            yield match.span()
    for match in _V6.finditer(text):
        if _identifies_machine(match[0]):
            yield match.span()


def _identifies_machine(spelled: str) -> bool:
    try:
        address = ip_address(spelled)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        return not (address.is_loopback or address.is_unspecified or address.is_multicast)
    if address.is_loopback or address.packed[0] in (0, 255):
        return False
    # 1.2.3.4 is a section, a version or a public resolver more often than somebody's machine.
    return any(len(part) > 1 for part in spelled.split("."))
