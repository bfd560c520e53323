"""When a lease's heartbeats are due, and what their answers say. Pure."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ._errors import ClientError

#: Heartbeats in a lease. With three, one may be lost.
_BEATS_PER_LEASE = 3
#: An interval is shortened by at most this fraction, so that programs that began together spread.
_JITTER = 0.2
#: A fraction of a lease. A heartbeat may take longer than an interval, as the first one of a connection does on a slow
#: network; if it is lost, the next one follows in time, within a lease after the one before.
_PATIENCE = 0.6
#: The shortest interval between heartbeats.
_MIN_BEAT_S = 0.25


class LeasePace:
    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        #: The length as of the last ``note``; an answer is newer than a later ``note`` of the same length.
        self._noted_ms: Optional[float] = None
        self._lease_ms: Optional[float] = None
        self._has_lapsed = False

    @property
    def is_running(self) -> bool:
        """Whether the session has a lease to be renewed."""
        return self._lease_ms is not None

    def note(self, session: Optional[Any]) -> bool:
        """Take the session as it is now: whether heartbeats begin, end or change their interval."""
        lease_ms = None if session is None or session["state"] == "archived" else session.get("leaseMs")
        if lease_ms == self._noted_ms:
            return False
        self._noted_ms = self._lease_ms = lease_ms
        return True

    def stop(self) -> None:
        self._noted_ms = self._lease_ms = None

    def interval_s(self) -> float:
        """Until the next heartbeat."""
        every_s = (self._lease_ms or 0) / 1_000 / _BEATS_PER_LEASE
        return max(_MIN_BEAT_S, every_s * (1 - _JITTER * self._random()))

    def patience_s(self) -> float:
        """How long a heartbeat may take."""
        return (self._lease_ms or 0) / 1_000 * _PATIENCE

    def answered(self, answer: Any) -> Optional[str]:
        """What the session's program has to hear: that it lost its place, once, and which request brings it back."""
        lapsed = answer.get("lapsed") is True
        is_news = lapsed and not self._has_lapsed
        self._has_lapsed = lapsed
        if isinstance(answer.get("leaseMs"), (int, float)):
            self._lease_ms = answer["leaseMs"]
        return str(answer.get("notice", "")) if is_news else None

    def is_over(self, error: BaseException) -> bool:
        """Whether a heartbeat's failure says that the session has ended."""
        return isinstance(error, ClientError) and error.code in ("session_archived", "session_not_found")
