"""What a listener is told, and when it is told to forget."""

from ingot.agent.model.client import ReplyListener


def test_a_request_that_says_nothing_leaves_what_was_heard() -> None:
    heard: list[str | None] = []
    hearing = ReplyListener(heard.append)
    hearing.begin()
    hearing.say("a")
    hearing.begin()
    hearing.take_back()
    hearing.settle("a")
    assert heard == ["a"]


def test_a_request_that_speaks_takes_the_place_of_the_former() -> None:
    heard: list[str | None] = []
    hearing = ReplyListener(heard.append)
    hearing.begin()
    hearing.say("a")
    hearing.begin()
    hearing.say("b")
    hearing.take_back()
    hearing.take_back()
    hearing.settle("c")
    assert heard == ["a", None, "b", None, "c"]
