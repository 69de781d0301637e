"""Random raw files of Ali-CCP with everything that may be odd in them, and random featuremaps."""

from dataclasses import dataclass

from hypothesis import strategies as st

from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, TokenSelect

OWN, SHARED = ("1", "22", "ß"), ("1", "9_14", "110_14")
"""Fields of the skeleton and of the common features; one name is in both files."""
IDS = (*"abcdef", "aa", "b ", "", "é", "日", "\x02", "\x00", '"', " a", ",", "ａ")
NUMBERS = (
    *("1", "1.0", "1", "2", "0.5", "3.25", "-1", "-0.0", "0", "0.1", "1.0000001", "1.00000001"),
    *("16777217", "9007199254740993", "1234567890" * 3, "0." + "0" * 30 + "1", "1E2", "+.5", "5."),
    *("nan", "-inf", "Infinity", "1e39", "-1e39", "3.4028236e38", "1e-46", "1_0", "_1", "1__0"),
    *(" 1", "1 ", "1\t", "\u0663", "\u00a02", "1\x1f", "", ".", "-", "1,5", "0x1", "1e", "--1"),
    *("1\x021", "1\x03", "x", "+-1", "e5", "1\x00", "1.1.1"),
)
PLAIN = NUMBERS[:12]
ENTITIES = (*(b"%d" % number for number in range(12)), "é".encode(), b"x y", b"0 ")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """The bytes of both files."""

    skeleton: bytes
    common: bytes


def _spelled(field: str, text: str, number: str) -> bytes:
    return f"{field}\x02{text}\x03{number}".encode()


_FIELDS = st.sampled_from((*OWN, *SHARED, "7", "", " 1", "1\x00"))
_TOKEN = st.builds(_spelled, _FIELDS, st.sampled_from(IDS), st.sampled_from(PLAIN))
_ODD_NUMBER = st.builds(_spelled, _FIELDS, st.sampled_from(IDS), st.sampled_from(NUMBERS))
_MALFORMED = st.sampled_from(
    (
        *(b"", b"", b"1", b"1\x03a\x021", b"1\x02a", b"\x02\x03", b"1\x02\xff\x031", b"\x03"),
        *(b"\xff\x02a\x031", b"1\x02a\x03\xff", b"1\x02a\x031\r", b"1\x02a\r\x031", b"\r"),
        *(b"22\x02\xc3\x031", b"\x02"),
    )
)
_ANYTHING = st.binary(max_size=8)
_ANY_TOKEN = st.one_of(_TOKEN, _TOKEN, _TOKEN, _ODD_NUMBER, _MALFORMED, _ANYTHING)
_TOKENS = st.lists(_ANY_TOKEN, max_size=7)
_COUNTS = st.sampled_from((*[None] * 9, b"", b"x", b"07", b"0000000003", b"3 ", b"-1", b"\xff"))
_LABELS = st.sampled_from((*(b"0", b"1") * 20, b"", b"01", b"2", b"x"))
_ENTITIES = st.sampled_from((*ENTITIES * 3, b"", b"\xff", b"\xed\xa0\x80"))
_SAMPLES = st.sampled_from((b"", b"0", b"1", b"2", b"3", b"4", b"5", b"\xff", b"long" * 9))
_ENDS = st.sampled_from((b"\n", b"\n", b"\r\n"))
_STRAY = st.sampled_from(
    (b"\n", b"\r\n", b"no line\n", b"1,0,0,e\n", b"\xff,,\n", b",\n", b",,,,,\n")
)


def _line(
    columns: tuple[bytes, ...], stated: bytes | None, tokens: list[bytes], end: bytes
) -> bytes:
    number = b"%d" % len([one for one in tokens if one]) if stated is None else stated
    return b",".join((*columns, number, b"\x01".join(tokens))) + end


_ROW = st.builds(_line, st.tuples(_SAMPLES, _LABELS, _LABELS, _ENTITIES), _COUNTS, _TOKENS, _ENDS)
_COMMON = st.builds(_line, st.tuples(_ENTITIES), _COUNTS, _TOKENS, _ENDS)


@st.composite
def _file(draw: st.DrawFn, line: st.SearchStrategy[bytes]) -> bytes:
    lines = st.one_of(*[line] * 9, _STRAY)
    content = b"".join(draw(st.lists(lines, min_size=draw(st.sampled_from((0, 5))), max_size=20)))
    return content if draw(st.booleans()) else content.removesuffix(b"\n")


RAW = st.builds(Raw, skeleton=_file(_ROW), common=_file(_COMMON))

_SELECT = st.builds(
    TokenSelect,
    strategy=st.sampled_from(("auto", "auto", "auto_mix", "topk_by_freq")),
    non_one_ratio_gte=st.sampled_from((0.05, 0.5, 0.8, 1.0, 0.0)),
    value_std_gte=st.sampled_from((0.001, 0.3, 1e9, 0.0)),
    value_fraction=st.sampled_from((2 / 3, 1 / 3, 0.5, 0.1, 0.0, 1.0)),
)


@st.composite
def _features(draw: st.DrawFn) -> tuple[Feature, ...]:
    sources = [(0, name) for name in OWN] + [(1, name) for name in SHARED]
    chosen = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=5))
    return tuple(_feature(draw, number, *source) for number, source in enumerate(chosen))


def _feature(draw: st.DrawFn, number: int, src: int, name: str) -> Feature:
    encoding = draw(st.sampled_from(("vocab", "hash", "hybrid")))
    longest = draw(st.sampled_from((None, 1, 2, 3, 4, 50)))
    size = st.sampled_from((1, 2, 3, 1000))
    return Feature(
        name=f"f{src}_{number}",
        src=src,
        field=name,
        encoding=encoding,
        vocab_num_tokens=None if encoding == "hash" else draw(size),
        hash_bucket=None if encoding == "vocab" else draw(size),
        max_len=longest,
        use_value=draw(st.booleans()),
        token_select=TokenSelect() if longest is None else draw(_SELECT),
    )


FEATUREMAPS = st.builds(
    FeatureMap,
    features=_features(),
    split_seed=st.integers(0, 3),
    train_ratio=st.sampled_from((0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 0.0)),
    hash_seed=st.sampled_from((17, 0, 2**63 - 1)),
    click_mask=st.sampled_from(("clicked", "exposed")),
    tail_ids=st.sampled_from(("disjoint", "contract")),
    funnel=st.sampled_from(("keep", "drop", "coerce")),
)
