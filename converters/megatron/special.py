"""The check of special tokens: what a training expects of a tokenizer, and what it has."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.loading import is_unicode, read_bounded
from ingot.converters.megatron.tokenizer import TokenizerFile, token_id
from ingot.converters.rows import Json

LARGEST_FILE: Final = 4 << 20
_HINT: Final = 'give a JSON object of tokens and their ids, {"<|im_start|>": 73441}'
_SHOWN: Final = 80
_DIGITS: Final = 100  # of a number that is read at all
_IDS: Final = 1 << 31  # beyond what a data set can hold


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecialCheck:
    """What came of the check.

    Attributes:
        tokenizer_path: the tokenizer as the user named it.
        strict: whether a difference is an error.
        checked: how many tokens were stated.
        missing: stated tokens that the tokenizer does not have, with their stated ids.
        mismatched: stated tokens with another id: the stated one, the one it has.
        odd: stated BOS and EOS ids that are no special tokens: option, id.
    """

    tokenizer_path: str
    strict: bool
    checked: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    mismatched: dict[str, tuple[int, int]] = field(default_factory=dict)
    odd: tuple[tuple[str, int], ...] = ()

    def to_document(self) -> dict[str, Json]:
        """The section `special_tokens_check` of `.meta.json`."""
        return {
            "tokenizer_path": self.tokenizer_path,
            "strict": self.strict,
            "checked": self.checked,
            "missing": list(self.missing),
            "mismatched": {
                token: {"expected_id": expected, "actual_id": actual}
                for token, (expected, actual) in self.mismatched.items()
            },
        }

    def warnings(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Events for the log, level `warn` and component `tokenizer`, and their fields."""
        for token, expected in self.missing.items():
            yield (
                "special_token_missing",
                {"token": token, "expected_id": expected, "actual_id": None},
            )
        for token, (expected, actual) in self.mismatched.items():
            yield (
                "special_token_mismatch",
                {"token": token, "expected_id": expected, "actual_id": actual},
            )
        for option, number in self.odd:
            yield "special_id_not_special", {"option": option, "actual_id": number}


def check_special(
    loaded: TokenizerFile,
    path: Path | None,
    *,
    strict: bool,
    bos_id: int | None = None,
    eos_id: int | None = None,
) -> SpecialCheck:
    """Compare what is expected of special tokens with what a tokenizer has.

    Args:
        loaded: the tokenizer.
        path: a JSON object of tokens and their ids; None = nothing is expected.
        strict: a missing token or another id is an error.
        bos_id: the id that the user stated for the start of a text.
        eos_id: the one for its end.

    Raises:
        ConversionError: the file is wrong; a stated id is none of the tokenizer's; in strict mode
            a token is missing or has another id, all of them named.
    """
    expected = {} if path is None else _expected(path)
    actual = {token: token_id(loaded, token) for token in expected}
    check = SpecialCheck(
        tokenizer_path=loaded.given,
        strict=strict,
        checked=len(expected),
        missing={token: number for token, number in expected.items() if actual[token] is None},
        mismatched={
            token: (number, has)
            for token, number in expected.items()
            if (has := actual[token]) is not None and has != number
        },
        odd=tuple(_odd(loaded, {"--bos-id": bos_id, "--eos-id": eos_id})),
    )
    if strict and (check.missing or check.mismatched):
        raise _refused(check)
    return check


def _odd(loaded: TokenizerFile, stated: dict[str, int | None]) -> Iterator[tuple[str, int]]:
    """Stated ids that are no special tokens."""
    special = frozenset(loaded.special.values())
    for option, number in stated.items():
        if number is None or number in special:
            continue
        if not 0 <= number <= loaded.largest_id:
            raise ConversionError(
                loaded.given,
                f"has no id {number}, which {option} states",
                f"its ids go from 0 to {loaded.largest_id}",
            )
        yield option, number


def _refused(check: SpecialCheck) -> ConversionError:
    problems = [f"{token!r} is missing, expected {n}" for token, n in check.missing.items()]
    problems += [
        f"{token!r} is {actual}, expected {expected}"
        for token, (expected, actual) in check.mismatched.items()
    ]
    return ConversionError(
        check.tokenizer_path,
        f"{len(problems)} of {check.checked} special tokens differ: {'; '.join(problems)}",
        "update added_tokens of tokenizer.json, or take the tokenizer of the right repository",
    )


def _expected(path: Path) -> dict[str, int]:
    data = read_bounded(path, LARGEST_FILE, _HINT)
    try:
        document: Any = json.loads(data, object_pairs_hook=_distinct(path), parse_int=_whole(path))
    except RecursionError as error:
        raise ConversionError(str(path), "not JSON: nested too deeply", _HINT) from error
    except ValueError as error:  # a decoding error is one, too
        raise ConversionError(str(path), f"not JSON: {error}", _HINT) from error
    if not isinstance(document, dict):
        raise ConversionError(str(path), "not a JSON object", _HINT)
    for token, number in document.items():
        if not is_unicode(token):
            raise ConversionError(str(path), f"{token!r} is no valid Unicode", _HINT)
        if type(number) is not int or not 0 <= number < _IDS:  # a bool is an int
            shown = json.dumps(number)[:_SHOWN]
            raise ConversionError(str(path), f"the id of {token!r} is {shown}", _HINT)
    return document


def _whole(path: Path) -> Callable[[str], int]:
    """Integers of a length that Python reads."""

    def read(digits: str) -> int:
        if len(digits) > _DIGITS:
            problem = f"a number of {len(digits):,} digits in it is no id"
            raise ConversionError(str(path), problem, _HINT)
        return int(digits)

    return read


def _distinct(path: Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Objects without a key that stands twice: which id was meant is not guessed."""

    def built(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                problem = f"{key!r} stands in it twice"
                raise ConversionError(str(path), problem, "remove one of them")
            found[key] = value
        return found

    return built
