"""Texts of messages that are being written. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, List, Optional, Tuple

from ._recent_map import RecentMap
from .types import AgentRef, DeltaEventData, MessageEventData, ServerEvent

#: Messages that are written at the same time; beyond it the oldest is dropped.
_MAX_DRAFTS = 256
#: Finished messages that are remembered, so that a late delta does not revive one.
_MAX_FINISHED = 256


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 units, in which ``offset``, ``upTo`` and ``playedUpTo`` count.

    A character beyond U+FFFF, such as an emoji, is one character of a ``str`` and two units.
    """
    return len(text) + sum(char > "\uffff" for char in text) if not text.isascii() else len(text)


def utf16_index(text: str, units: int) -> int:
    """The index in a ``str`` of a place in UTF-16 units: ``text[utf16_index(text, up_to):]`` was not heard yet.

    A place inside a character counts as before it. Places outside of the text are its beginning and its end.
    """
    if units <= 0:
        return 0
    if text.isascii():
        return min(units, len(text))
    for index, char in enumerate(text):
        units -= 2 if char > "\uffff" else 1
        if units < 0:
            return index
        if units == 0:
            return index + 1
    return len(text)


@dataclass(frozen=True)
class MessageText:
    """A message's text, as far as it is known."""

    message_id: str
    session_id: str
    run_id: Optional[str]
    agent: Optional[AgentRef]
    """The agent that writes it; ``None`` for a user's message."""
    text: str
    reasoning: str
    is_streaming: bool
    """Whether more may follow."""


@dataclass
class _Draft:
    shown: MessageText
    #: 0 if unknown: the attempt of a message that was joined midway is not sent.
    attempt: int
    #: UTF-16 units of the text and of the reasoning.
    units: Tuple[int, int]


class MessageTexts:
    """Makes texts of messages that are being written, of deltas, which have offsets, and of message events, which have the
    whole text so far.

    Give it every event of a stream in order; reconnections and repeats do no harm.
    """

    def __init__(self) -> None:
        #: By session and message, because message ids are unique within a session only.
        self._drafts: RecentMap[Tuple[str, str], _Draft] = RecentMap(_MAX_DRAFTS)
        self._finished: RecentMap[Tuple[str, str], bool] = RecentMap(_MAX_FINISHED)

    @property
    def unfinished(self) -> List[MessageText]:
        """The messages that are being written."""
        return [draft.shown for draft in self._drafts.values()]

    def take(self, event: ServerEvent) -> Optional[MessageText]:
        """The message whose text the event changed or completed; ``None`` for any other event."""
        if event["type"] == "delta":
            session_id = event.get("sessionId")
            return None if session_id is None else self._extend(session_id, event["data"])
        if event["type"] == "message":
            return self._replace(event["data"])
        if event["type"] == "complete":
            ended = (event["data"]["sessionId"], event["data"]["runId"])
            self._forget(lambda draft: (draft.shown.session_id, draft.shown.run_id) == ended)
        elif event["type"] == "reset":
            of = event["data"].get("sessionId")
            self._forget(lambda draft: of is None or draft.shown.session_id == of)
        return None

    def _extend(self, session_id: str, delta: DeltaEventData) -> Optional[MessageText]:
        key = (session_id, delta["messageId"])
        run = (session_id, delta["runId"])
        attempt, offset, text = delta["attempt"], delta["offset"], delta["text"]
        if key in self._finished:
            return None
        draft = self._drafts.get(key)
        if draft is None:
            # The beginning of the text is missing. A message event will bring the whole.
            if offset != 0 or any(_run_of(other) == run and other.attempt > attempt for other in self._drafts.values()):
                return None
            shown = MessageText(delta["messageId"], session_id, delta["runId"], delta["agent"], "", "", True)
            draft = _Draft(shown, attempt, (0, 0))
            self._drafts.set(key, draft)
        draft.attempt = attempt
        self._forget(lambda other: _run_of(other) == run and 0 < other.attempt < attempt)
        is_text = delta["kind"] == "text"
        units = draft.units[0 if is_text else 1]
        known = units - offset
        length = utf16_length(text)
        if known < 0 or known >= length:
            return None
        shown, (text_units, reasoning_units) = draft.shown, draft.units
        if is_text:
            draft.shown = replace(shown, text=_joined(shown.text, text, known))
            draft.units = (offset + length, reasoning_units)
        else:
            draft.shown = replace(shown, reasoning=_joined(shown.reasoning, text, known))
            draft.units = (text_units, offset + length)
        return draft.shown

    def _replace(self, message: MessageEventData) -> Optional[MessageText]:
        key = (message["sessionId"], message["id"])
        known = self._drafts.get(key)
        whole = MessageText(
            message["id"],
            message["sessionId"],
            message.get("runId"),
            message.get("agent"),
            message["content"],
            reasoning_of(message.get("parts", [])),
            message["streaming"],
        )
        if not whole.is_streaming:
            self._drafts.delete(key)
            self._finished.set(key, True)
            return whole
        if key in self._finished:
            return None
        if known is None:
            self._drafts.set(key, _Draft(whole, 0, _units_of(whole)))
            return whole
        # Another node may be slightly behind what this reader has; text only grows.
        shown = known.shown
        text = shown.text if shown.text.startswith(whole.text) else whole.text
        reasoning = shown.reasoning if shown.reasoning.startswith(whole.reasoning) else whole.reasoning
        if (text, reasoning) == (shown.text, shown.reasoning):
            return None
        known.shown = replace(shown, text=text, reasoning=reasoning)
        known.units = _units_of(known.shown)
        return known.shown

    def _forget(self, is_gone: Callable[[_Draft], bool]) -> None:
        for key, draft in self._drafts.items():
            if is_gone(draft):
                self._drafts.delete(key)


def reasoning_of(parts: List[Any]) -> str:
    """The reasoning among a message's ``parts``, as one text."""
    return "".join(part["text"] for part in parts if part.get("type") == "reasoning" and isinstance(part.get("text"), str))


def _joined(text: str, more: str, known: int) -> str:
    """``text`` with what follows the first ``known`` units of ``more``. A pair of surrogates may be cut anywhere."""
    if known > 0:
        rest = more.encode("utf-16-le", "surrogatepass")[2 * known :]
        more = rest.decode("utf-16-le", "surrogatepass")
    if text and "\ud800" <= text[-1] <= "\udbff":
        pair = (text[-1] + more).encode("utf-16-le", "surrogatepass")
        return text[:-1] + pair.decode("utf-16-le", "surrogatepass")
    return text + more


def _run_of(draft: _Draft) -> Tuple[str, Optional[str]]:
    return (draft.shown.session_id, draft.shown.run_id)


def _units_of(shown: MessageText) -> Tuple[int, int]:
    return (utf16_length(shown.text), utf16_length(shown.reasoning))
