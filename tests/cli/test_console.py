"""What errors show of URLs and names."""

import pytest

from ingot.cli.console import print_error

URL = "https://user:secretpw@127.0.0.1:9/x.jsonl?api_key=abcdef123456&page=2"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (URL, "https://***@127.0.0.1:9/x.jsonl?api_key=***&page=2"),
        (f"zip://a.jsonl::{URL}", "zip://a.jsonl::https://***@127.0.0.1:9/x.jsonl"),
        ("data/ada@example.org/13800138000?token=abc123def.json", None),
        ("s3://bucket/2024-01-01/ada@example.org.jsonl", None),
    ],
)
def test_errors_hide_what_opens_doors_in_urls(said, shown, capfd):
    print_error(f"{said}: cannot be read", [f"ingot run '{said}' --yes"])
    printed = capfd.readouterr().err
    assert printed.count(shown or said) == 2
    assert "secretpw" not in printed
    assert "abcdef123456" not in printed
