"""Whether new rows fit to vocabularies that were made of others, and where a job stops.

A token that is spelled in another way (`5.0` for `5`) is another token: such a job would end well,
and its model would know nothing.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError

RESPELLED: Final = 0.05  # of the tokens: more that are known in another spelling are no chance
_FEW: Final = 10  # tokens: fewer are unseen by chance
_SHOWN: Final = 5
# Of lower case, without white space around it: a text without the quotes of a program, the digits
# of a date, a number without zeros before it and without `.0`.
_SPELLINGS: Final = (
    (r"""^b?(?:'(.*)'|"(.*)")$""", r"\1\2"),
    (r"^(\d{4})[-/.](\d\d)[-/.](\d\d)(?:[t ]00:00(?::00(?:\.0+)?)?(?:z|\+00:00)?)?$", r"\1\2\3"),
    (r"^\+?(-?)0*(\d+)(?:\.0*)?$", r"\1\2"),
)


def plain_spelling(texts: pa.Array) -> pa.Array:
    """Return large_string texts as they would be equal if only their spelling differed."""
    texts = pc.utf8_trim_whitespace(pc.utf8_lower(texts.cast(pa.large_string())))
    for pattern, plain in _SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, plain)
    return texts


def expected_unseen(counts: NDArray[np.int64]) -> float:
    """Return how likely a further token is unseen: the share of those seen once (Good, Turing)."""
    return float((counts == 1).sum() / max(1, counts.sum()))


def describe_misfit(
    tokens: int, unseen: int, expected: float, missing: float, missing_before: float | None
) -> str:
    """Say why tokens are not those of a vocabulary: more than half of what it should know is gone.

    `expected` is the share of unseen ones in rows like those of the vocabulary, `missing` that of
    rows without a token, `missing_before` (None: not known) the same in those rows.
    """
    if tokens * (1 - expected) >= _FEW and 2 * unseen > (1 + expected) * tokens:
        return f"{unseen / tokens:.1%} of its tokens are unseen, {expected:.1%} are expected"
    if missing_before is None:
        return "no row has a token" if missing == 1 else ""
    said = f"{missing:.1%} of the rows have no token, {missing_before:.1%} there"
    return said if 2 * missing > 1 + missing_before else ""


def refuse_misfits(where: str, problems: Mapping[str, str]) -> None:
    """Stop where features are others than those of the vocabularies. Raises ConversionError."""
    lines = [f"\n  {name}: {said}" for name, said in problems.items() if said]
    if lines:
        more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        problem = f"does not fit to the vocabularies:{''.join(lines[:_SHOWN])}{more}\n "
        hint = "write the columns as they were, or set `accept_unseen` to continue anyway"
        raise ConversionError(where, problem, hint)
