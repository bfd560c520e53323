"""A reader's place in logs. Pure."""

from __future__ import annotations

import re
from typing import Optional

from ._recent_map import RecentMap
from .types import ServerEvent

_LOG_POSITION = re.compile(r"[a-z0-9]{1,6}\.([0-9]{1,15})(?:\.[a-z0-9]{1,9})?")
#: Sessions whose ``seq`` is remembered; beyond it a session without a recent event is dropped.
_MAX_SESSIONS = 1_024


def seq_of(position: Optional[str]) -> Optional[int]:
    """The ``seq`` of a position of a session or a floor, for ``if_seq``; ``None`` for any other text."""
    match = _LOG_POSITION.fullmatch(position or "")
    return int(match.group(1)) if match else None


class SeenEvents:
    """How far a reader has come in each log, so that no event is given twice."""

    def __init__(self) -> None:
        #: The last ``seq`` of each session's log. The key of the floor's own log is "".
        self._seqs: RecentMap[str, int] = RecentMap(_MAX_SESSIONS)

    def admit(self, event: ServerEvent, position: Optional[str]) -> bool:
        """Whether the event is new. Records it as seen.

        :param position: the position that came with it
        """
        if event["type"] == "reset":
            self._reset(event["data"].get("sessionId"), event["data"].get("from"))
            return True
        log = event.get("sessionId", "")
        seq = seq_of(position) if event["type"] == "floor_updated" else event.get("seq")
        if not isinstance(seq, int) or not isinstance(log, str):
            return True
        known = self._seqs.get(log)
        if known is not None and seq <= known:
            return False
        # A session that is created again under the same id has a new log.
        if event["type"] == "session_transition" and event["data"].get("to") == "deleted":
            self._seqs.delete(log)
        else:
            self._seqs.set(log, seq)
        return True

    def _reset(self, session_id: Optional[str], start: Optional[int]) -> None:
        """The server goes on from another event, so the recorded numbers are void."""
        if session_id is None:
            self._seqs.clear()
        elif not isinstance(start, int):
            self._seqs.delete(session_id)
        else:
            self._seqs.set(session_id, start)
