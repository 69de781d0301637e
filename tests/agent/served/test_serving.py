"""Which requests a served graph refuses."""

import pytest

from ingot.agent.served.authentication import STUDIO, refusal_reason


@pytest.mark.parametrize("host", ["localhost:2024", "127.0.0.1:2024", "[::1]:2024", "LOCALHOST"])
@pytest.mark.parametrize("origin", ["", STUDIO, "http://localhost:3000", "https://127.0.0.1"])
def test_programs_and_known_pages_may_ask(host: str, origin: str) -> None:
    assert refusal_reason(host, origin) == ""


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("", ""),
        ("a.example", ""),
        ("localhost.a.example", ""),
        ("localhost@a.example", ""),
        ("[", ""),
        ("x[::1]", ""),
        ("localhost", "null"),
        ("localhost", "https://a.example"),
        ("localhost", "https://localhost.a.example"),
        ("localhost", "https://localhost@a.example"),
        ("localhost", f"{STUDIO}.a.example"),
        ("localhost", "http://["),
    ],
)
def test_others_may_not(host: str, origin: str) -> None:
    assert refusal_reason(host, origin)
