"""Blocks of lines as numbers: rows and rejects as plain Python has them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.preprocess.raw_lines import Block, parse_block
from tests.converters.recsys.criteo import reference
from tests.converters.recsys.criteo.lines import COLUMNS, INTEGERS, NASTY, VALUES, files
from tests.converters.recsys.criteo.reference import DENSE, SPARSE, Raw


def parsed(content: bytes, *, labelled: bool = True) -> Block:
    return parse_block(np.frombuffer(content, np.uint8), labelled=labelled)


def check(content: bytes, *, labelled: bool = True) -> reference.Rows:
    """Hold a block to the reference; gives what that has."""
    block = parsed(content, labelled=labelled)
    rows = reference.parse(Raw("", "", content, labelled))
    assert block.lines == rows.lines
    assert block.labels.tolist() == rows.labels
    assert block.labels.dtype == np.int32
    assert block.dense.tolist() == rows.dense
    assert block.sparse.T.tolist() == rows.sparse
    assert block.sparse.dtype == np.uint32
    assert block.missing.tolist() == rows.missing
    rejects = [(one.line + 1, one.reason, one.found) for one in block.rejects]
    assert rejects == [(one["line"], one["reason"], one["found"]) for one in rows.rejects]
    assert len(block.labels) + len(block.rejects) == block.lines
    return rows


@pytest.mark.more
@given(files())
@example(b"")
@example(b"\n")
@example(b"\r\n" * 3)
@example(b"\n" * 20)
@example(b"\t" * 39 + b"\n")
@example(b"\t" * 39)
@example(b"\t" * 39 + b"\r")
@example(b"\t" * 39 + b"\r\r\n")
@example(b"\t" * 39 + b"\r\r")
@example(b"\t" * 38)
@example(b"\t" * 40)
@settings(max_examples=100)
def test_lines(content: bytes) -> None:
    check(content)


@given(files(labelled=False))
@example(b"\t" * 38 + b"\n")
@example(b"\t" * 39 + b"\n")
@settings(max_examples=100)
def test_lines_without_a_label(content: bytes) -> None:
    check(content, labelled=False)


@given(st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes(content: bytes) -> None:
    check(content)


@pytest.mark.parametrize("number", range(COLUMNS + 1))
def test_every_field_in_every_column(number: int) -> None:
    """Also as the last field of a file without a last newline, where no byte follows."""
    for text in (*INTEGERS, *VALUES, *NASTY):
        fields = [b""] * (COLUMNS + 1)
        fields[number] = text
        line = b"\t".join(fields)
        check(line)
        check(line + b"\n")
        check(b"\t" * COLUMNS + b"\n" + line + b"\r\n" + b"\t" * COLUMNS)


@pytest.mark.parametrize("digits", range(1, 13))
def test_hexadecimal_numbers_of_every_length(digits: int) -> None:
    for first in (b"0", b"1", b"f"):
        for ending in (b"", b"\n", b"\r\n", b"\r"):
            text = first + b"e" * (digits - 1)
            check(b"\t".join([b""] * DENSE + [b""] + [text] * SPARSE) + ending)


@pytest.mark.more
def test_every_byte_in_a_field() -> None:
    """Digits are digits, all else is none, wherever it stands among eight."""
    for byte in range(256):
        if byte in b"\t\n":
            continue
        for at in (0, 3, 7):
            text = bytearray(b"12345678")
            text[at] = byte
            for number in (0, 1, 20, 39):
                fields = [b""] * 40
                fields[number] = bytes(text)
                check(b"\t".join(fields) + b"\n")


def test_blocks_of_the_least_rows() -> None:
    """As many rows as there can be in so many bytes."""
    for rows in (1, 2, 39, 40, 41, 80, 81):
        assert len(check((b"\t" * 39 + b"\n") * rows).labels) == rows
        assert len(check(((b"\t" * 39 + b"\n") * rows)[:-1]).labels) == rows
        assert len(check((b"\t" * 38 + b"\n") * rows, labelled=False).labels) == rows


def test_more_rejects_than_are_told_at_a_time() -> None:
    row = b"\t" * 39 + b"\n"
    rows = check(b"x\n" * 5000 + row + b"\n" * 4096 + row + b"y\n" * 4095 + row)
    assert len(rows.labels) == 3
    assert rows.lines == 3 + 5000 + 4096 + 4095


def test_what_a_reject_says() -> None:
    fields = [b"1"] * 40
    fields[14] = b"0x1f"
    block = parsed(b"\t".join(fields) + b"\n1\t2\n" + b"\t" * 39)
    assert [(one.line + 1, one.reason, one.found) for one in block.rejects] == [
        (1, "sparse", "cat_0: 0x1f"),
        (2, "columns", "2 columns: 1\t2"),
    ]
    assert len(block.labels) == 1
