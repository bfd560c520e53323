"""A stream across its connections: its position, and when it comes back. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Literal, Optional

from ._errors import ClientError, parse_json, unexpected_answer
from ._positions import SeenEvents
from ._requests import backoff
from ._sse import FrameParser, TooLong
from .types import EVENT_TYPES

#: The delay before a reconnection until the server sets another.
_RETRY_S = 2.0
#: The longest delay, whatever the server sets and however many attempts failed.
_MAX_RETRY_S = 30.0
#: The shortest delay after a failure, even for ``retry: 0``.
_MIN_BACKOFF_S = 0.1
#: A connection without a byte for this long is dead: three heartbeats.
SILENCE_S = 45.0


@dataclass(frozen=True)
class StreamStatus:
    """What a stream does."""

    state: Literal["connecting", "open", "waiting"]
    wait: Optional[float] = None
    """While ``waiting``: for how long, in seconds."""
    failure: Optional[ClientError] = None
    """While ``waiting``: why the last attempt failed; ``None`` if the connection broke or the server ended it."""
    bye: Optional[str] = None
    """While ``waiting``: the reason with which the server ended the last connection; ``None`` if it ended without one."""


class StreamState:
    def __init__(
        self,
        position: Optional[str],
        can_renew: bool,
        random: Callable[[], float],
        on_position: Optional[Callable[[str], object]],
    ) -> None:
        """:param can_renew: whether another request may have another token"""
        self.position = position
        #: Whether the server has said that nothing follows.
        self.is_over = False
        #: Whether the server has ended this connection.
        self.is_ended = False
        self._can_renew = can_renew
        self._random = random
        self._on_position = on_position
        self._seen = SeenEvents()
        self._parser = FrameParser()
        self._retry_s = _RETRY_S
        #: Connections in a row that delivered nothing.
        self._failed = 0
        #: The delay that the server asked for, for the next reconnection only.
        self._reconnect_s: Optional[float] = None
        self._failure: Optional[ClientError] = None
        self._bye: Optional[str] = None
        #: Whether a new token was fetched since the last event.
        self._is_renewed = False

    def begin(self) -> None:
        """Another connection begins."""
        self._parser = FrameParser()
        self._failed += 1
        self._failure = None
        self._bye = None
        self.is_ended = False

    def check_type(self, status: int, content_type: str) -> None:
        """:raises ClientError: ``unexpected_answer``, if it is no event stream"""
        if not re.match(r"text/event-stream\s*(;|$)", content_type, re.IGNORECASE):
            raise unexpected_answer(status)

    def events(self, content: bytes) -> Iterator[Any]:
        """The new events that these bytes complete. The position of each is the stream's while it is handled.

        :raises ClientError: ``unexpected_answer``, if an event is too long
        """
        try:
            for frame in self._parser.feed(content):
                if frame.retry_ms is not None:
                    self._retry_s = min(frame.retry_ms / 1_000, _MAX_RETRY_S)
                if frame.position is not None:
                    self.position = frame.position or None
                    if self.position is not None and self._on_position is not None:
                        self._on_position(self.position)
                event = None if frame.data is None else parse_event(frame.data)
                if event is None or not self._seen.admit(event, self.position):
                    continue
                self._failed = 0
                self._is_renewed = False
                if event["type"] == "bye":
                    self._handle_bye(event["data"])
                yield event
                if self.is_ended:
                    return
        except TooLong:
            raise unexpected_answer(200) from None

    def fail(self, failure: ClientError) -> None:
        """An attempt failed.

        :raises ClientError: the failure, if no other attempt may succeed
        """
        if not _comes_back(failure) and not self._may_renew(failure):
            raise failure
        self._failure = failure
        self._reconnect_s = None if failure.retry_after_ms is None else failure.retry_after_ms / 1_000

    def wait(self) -> StreamStatus:
        """What the stream waits for, and for how long, before its next connection."""
        return StreamStatus("waiting", self._pause_s(), self._failure, self._bye)

    def _handle_bye(self, bye: Any) -> None:
        self.is_ended = True
        reason, delay_ms = bye.get("reason"), bye.get("reconnectInMs")
        self.is_over = reason == "ended"
        self._bye = reason
        self._reconnect_s = delay_ms / 1_000 if isinstance(delay_ms, (int, float)) else None

    def _may_renew(self, failure: ClientError) -> bool:
        """A token may expire in transit, so it is fetched again once."""
        if failure.status != 401 or self._is_renewed or not self._can_renew:
            return False
        self._is_renewed = True
        return True

    def _pause_s(self) -> float:
        reconnect_s, self._reconnect_s = self._reconnect_s, None
        if reconnect_s is not None:
            return min(max(reconnect_s, 0.0), _MAX_RETRY_S)
        # Clients that one node disconnected together do not return together.
        if self._failed == 0:
            return self._retry_s * (1 + self._random() / 4)
        first_s = max(self._retry_s, _MIN_BACKOFF_S)
        return max(first_s, backoff(self._failed, first_s, _MAX_RETRY_S, self._random))


def parse_event(text: str) -> Any:
    """An event from the text behind ``data:``; ``None`` for a type that this client does not know."""
    event = parse_json(text)
    if not isinstance(event, dict) or not isinstance(event.get("data"), dict):
        return None
    kind = event.get("type")
    return event if isinstance(kind, str) and kind in EVENT_TYPES else None


def _comes_back(failure: ClientError) -> bool:
    """Whether another attempt may succeed. It cannot after a definite refusal."""
    return failure.code == "unreachable" or failure.status == 429 or failure.status >= 500
