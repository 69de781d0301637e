"""E-mail and IP addresses, credentials in URLs, secrets in their query strings."""

import re
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address

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
    """Yield e-mail addresses, also with `%40` as the sign; the local part ends with its letters."""
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
    """Yield `user:password` before the host of a URL, or a lone user as long as a key."""
    place = text.find("://")
    while place >= 0:
        start = place + 3
        match = _USERINFO.match(text, start)
        if match and _AUTHORITY.search(text[max(0, place - 31) : place]):
            user, colon, password = match[0][:-1].partition(":")
            if password if colon else len(user) >= 20:
                yield start, match.end() - 1
        place = text.find("://", start)


def find_query_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield values of `token=`, `key=`, `sig=` and the like in a URL, but no plain words."""
    for match in _QUERY.finditer(text):
        if not _WORD.match(match[1]):
            yield match.span(1)


def find_ip_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield IPv4 and IPv6 addresses of machines; versions, loopbacks and masks are left out."""
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
