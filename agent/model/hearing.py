"""What a listener is told of a reply while it comes, and that it starts again."""

from collections.abc import Callable

Hear = Callable[[str | None], None]


class Hearing:
    """Hands texts to a listener; None = forget what you heard, the reply starts again.

    What was heard since the last None and what is said next belong to one reply.
    """

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._heard: list[str] = []
        self._former = False

    def begin(self) -> None:
        """A request begins: what it says takes the place of what was heard."""
        self._former = True

    def say(self, text: str) -> None:
        """More of the reply."""
        if self._former:
            self._former = False
            self._forget()
        self._heard.append(text)
        self._hear(text)

    def take_back(self) -> None:
        """What this request said is no reply."""
        if not self._former:
            self._forget()

    def settle(self, text: str) -> None:
        """The reply is this text, whatever of it was heard."""
        if "".join(self._heard) != text:
            self._forget()
            self._heard.append(text)
            self._hear(text)

    def _forget(self) -> None:
        if self._heard:
            self._heard.clear()
            self._hear(None)
