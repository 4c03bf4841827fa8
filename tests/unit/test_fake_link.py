"""The scripted link: answers in order, faults on demand."""

from __future__ import annotations

import pytest

from local.errors import LinkLost
from local.links.base import Answer, Command
from local.links.fake import FakeLink, FakeStream

TRUE = Command(("true",))
YES = Answer(0, b"yes", b"")


def test_answers_come_in_order_and_commands_are_kept() -> None:
    link = FakeLink([YES, LinkLost("gone"), lambda command, stdin: Answer(0, stdin, str(command).encode())])
    assert link.run(TRUE) == YES
    with pytest.raises(LinkLost, match="gone"):
        link.run(TRUE)
    assert link.run(Command(("a b",)), stdin=b"in") == Answer(0, b"in", b"'a b'")
    assert [command.words for command in link.ran] == [("true",), ("true",), ("a b",)]


def test_what_is_not_scripted_is_a_fault_of_the_test() -> None:
    with pytest.raises(AssertionError, match="nothing is scripted for true"):
        FakeLink().run(TRUE)


def test_drops_and_silence() -> None:
    link = FakeLink([YES, YES])
    link.drop(2)
    for _ in range(2):
        with pytest.raises(LinkLost, match="broke"):
            link.run(TRUE)
    link.silent = True
    with pytest.raises(LinkLost, match="no answer within 7 s"):
        link.run(TRUE, deadline=7)
    with pytest.raises(LinkLost):
        link.reconnect()
    link.silent = False
    link.reconnect()
    assert link.reconnects == 2
    assert link.run(TRUE) == YES


def test_the_limit_holds() -> None:
    with pytest.raises(LinkLost, match="more than 2 bytes"):
        FakeLink([YES]).run(TRUE, limit=2)


def test_streams() -> None:
    link = FakeLink()
    link.streams.append(FakeStream([b"one", LinkLost("cut"), b"two"], Answer(3, b"", b"why")))
    with link.stream(TRUE) as stream:
        assert stream.read(1) == b"one"
        with pytest.raises(LinkLost, match="cut"):
            stream.read(1)
        assert stream.read(1) == b"two"
        assert stream.read(1) == b""
        assert stream.ending() == Answer(3, b"", b"why")
