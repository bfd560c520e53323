"""Texts by offset, in UTF-16 units, which are not the characters of a `str`."""

from __future__ import annotations

import json
import random
from typing import Any, List

from interlock_client import MessageTexts, utf16_index, utf16_length

TEXT = "a😀 héllo\u2028导航🎵🎵 z"


def event(kind: str, data: Any, session: str = "s") -> Any:
    return {"type": kind, "data": data, "timestamp": "t", "sessionId": session}


def delta(offset: int, text: str, attempt: int = 1, message: str = "m", kind: str = "text") -> Any:
    agent = {"kind": "master", "name": "a", "depth": 0, "path": ["a"]}
    data = {"messageId": message, "runId": "r", "attempt": attempt, "kind": kind, "offset": offset, "text": text}
    return event("delta", {**data, "agent": agent})


def message(content: str, streaming: bool, message: str = "m") -> Any:
    data = {"id": message, "sessionId": "s", "role": "assistant", "content": content, "streaming": streaming, "runId": "r"}
    return event("message", data)


def units(text: str) -> List[str]:
    """As JSON has them. A pair of surrogates may be cut."""
    data = text.encode("utf-16-le")
    codes = [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]
    return [f"\\u{code:04x}" for code in codes]


def test_deltas_that_are_cut_anywhere_and_repeated_make_the_text() -> None:
    whole = units(TEXT)
    for seed in range(200):
        chance = random.Random(seed)
        texts, at, last = MessageTexts(), 0, None
        while at < len(whole):
            start = chance.randint(0, at)
            end = chance.randint(start, len(whole))
            last = texts.take(delta(start, json.loads(f'"{"".join(whole[start:end])}"'))) or last
            at = max(at, end)
        assert last is not None and last.text == TEXT and last.is_streaming
        assert texts.unfinished == [last]
        assert texts.take(message(TEXT, False)) is not None
        assert texts.unfinished == [] and texts.take(delta(0, "late")) is None


def test_what_lies_beyond_the_known_text_waits_for_the_whole() -> None:
    texts = MessageTexts()
    assert texts.take(delta(3, "lost")) is None
    joined = texts.take(message("🎵 so far", True))
    assert joined is not None and joined.text == "🎵 so far"
    assert texts.take(delta(utf16_length("🎵 so far"), "gap")) is not None
    assert texts.take(message("🎵 so", True)) is None
    assert texts.unfinished[0].text == "🎵 so fargap"


def test_another_attempt_begins_anew_and_a_reset_forgets() -> None:
    texts = MessageTexts()
    texts.take(delta(0, "one"))
    again = texts.take(delta(0, "two", attempt=2, message="n"))
    assert again is not None and [each.text for each in texts.unfinished] == ["two"]
    assert texts.take(delta(0, "old", attempt=1, message="o")) is None
    thought = texts.take(delta(0, "hm", attempt=2, message="n", kind="reasoning"))
    assert thought is not None and (thought.text, thought.reasoning) == ("two", "hm")
    texts.take(event("reset", {"sessionId": "other"}))
    assert len(texts.unfinished) == 1
    texts.take(event("reset", {}))
    assert texts.unfinished == []


def test_a_run_that_is_complete_leaves_nothing() -> None:
    texts = MessageTexts()
    texts.take(delta(0, "half"))
    texts.take(event("complete", {"sessionId": "s", "runId": "r"}))
    assert texts.unfinished == []


def test_a_flood_of_messages_is_bounded() -> None:
    texts = MessageTexts()
    for number in range(1_000):
        texts.take(delta(0, "x", message=f"m{number}"))
    assert len(texts.unfinished) == 256


def test_units_and_characters_are_converted() -> None:
    assert utf16_length(TEXT) == len(units(TEXT))
    for at in range(len(TEXT) + 1):
        assert utf16_index(TEXT, utf16_length(TEXT[:at])) == at
    assert [utf16_index("a😀b", unit) for unit in (-1, 0, 1, 2, 3, 4, 99)] == [0, 0, 1, 1, 2, 3, 3]
    assert [utf16_index("abc", unit) for unit in (-1, 2, 99)] == [0, 2, 3]
