"""What may leave the machine."""

import pytest

from ingot.agent.privacy.redaction import share_line, share_path, share_text, share_value

MAIL = "jo@mail.example.com"


@pytest.mark.parametrize(
    ("share", "told"),
    [("raw", ("k", MAIL)), ("redacted", ("k", "[email]")), ("none", ("k", "<string 19 chars>"))],
)
def test_values(share: str, told: tuple[str, str]) -> None:
    assert share_value("k", MAIL, share) == told


def test_a_name_makes_a_secret_of_a_text() -> None:
    assert "hunter2" not in share_text("password", "hunter2 hunter2", "redacted")
    assert share_text("title", "hunter2 hunter2", "redacted") == "hunter2 hunter2"


@pytest.mark.parametrize("share", ["redacted", "none"])
def test_names_with_secrets(share: str) -> None:
    assert share_line(f"{MAIL} equals b", share) == "[email] equals b"
    assert "cannot be addressed" in share_path(f"['{MAIL}']", share)
    assert share_path("a.b[*]", share) == "a.b[*]"
    assert share_path(f"['{MAIL}']", "raw") == f"['{MAIL}']"
