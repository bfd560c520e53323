"""Streams, against servers that cut, lie, refuse and fall silent."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, List

import pytest

from interlock_client import AsyncClient, Client, ClientError
from interlock_client import _network, _stream_state

from raw_server import CUT, ENDED, STAYS, RawServer, answer, frame, live_frame, problem, stream

Serve = Callable[..., RawServer]
SEPARATORS = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: Any) -> None:
    monkeypatch.setattr(_stream_state, "_RETRY_S", 0.01)
    monkeypatch.setattr(_stream_state, "_MIN_BACKOFF_S", 0.01)
    monkeypatch.setattr(_stream_state, "_MAX_RETRY_S", 0.02)


def read(url: str, **options: Any) -> List[Any]:
    with Client(url) as client, client.open_session("s", **options) as events:
        return list(events)


def titles(events: List[Any]) -> List[str]:
    return [event["data"]["title"] for event in events if event["type"] == "session_updated"]


def positions(server: RawServer) -> List[str]:
    return [heard.line.split(" ")[1].partition("lastEventId=")[2] for heard in server.heard]


def test_a_stream_that_is_cut_at_every_byte_gives_each_event_once(serve: Serve) -> None:
    whole = frame(1, SEPARATORS) + frame(2, "zwei 🎵") + live_frame("unknown", {}) + frame(3)
    cuts = [stream(whole[:at]) for at in range(0, len(whole), 7)]
    server = serve(*cuts, stream(whole + ENDED))
    assert titles(read(server.url)) == [SEPARATORS, "zwei 🎵", "title 3"]
    # Each connection begins after the last event that was whole.
    assert sorted(positions(server)) == positions(server)
    assert set(positions(server)) == {"", "e.1", "e.2"}


def test_both_clients_read_alike(serve: Serve) -> None:
    content = [stream(frame(1) + frame(2)), CUT, stream(frame(2) + frame(3)), answer(b"", 502), stream(frame(4) + ENDED)]

    async def read_async(url: str) -> List[Any]:
        async with AsyncClient(url) as client, client.open_session("s") as events:
            return [event async for event in events]

    wanted = [f"title {number}" for number in (1, 2, 3, 4)]
    server, other = serve(*content), serve(*content)
    assert titles(read(server.url)) == titles(asyncio.run(read_async(other.url))) == wanted
    assert positions(server) == positions(other) == ["", "e.2", "e.2", "e.3", "e.3"]


def test_a_position_of_events_that_are_left_out_counts_and_an_empty_one_erases_it(serve: Serve) -> None:
    told: List[str] = []
    server = serve(stream(frame(1) + b"id: e.7\n\n"), stream(b"id:\n\n"), stream(ENDED))
    read(server.url, on_position=told.append)
    assert told == ["e.1", "e.7"] and positions(server) == ["", "e.7", ""]


def test_a_reset_is_told_and_what_follows_is_new(serve: Serve) -> None:
    reset = live_frame("reset", {"sessionId": "s", "from": 2}, "f.2")
    server = serve(stream(frame(8) + reset + frame(2) + frame(3) + ENDED))
    events = read(server.url, position="e.7")
    assert [event["type"] for event in events] == ["session_updated", "reset", "session_updated", "bye"]
    assert titles(events) == ["title 8", "title 3"]


def test_the_end_is_bye_or_204(serve: Serve) -> None:
    assert read(serve(answer(b"", 204)).url) == []
    assert [event["type"] for event in read(serve(stream(ENDED + frame(1))).url)] == ["bye"]
    again = live_frame("bye", {"reason": "draining", "reconnectInMs": 1})
    server = serve(stream(frame(1) + again + frame(9)), stream(frame(2) + ENDED))
    waits: List[Any] = []
    assert titles(read(server.url, on_status=waits.append)) == ["title 1", "title 2"]
    assert [(wait.wait, wait.bye) for wait in waits if wait.state == "waiting"] == [(0.001, "draining")]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (problem("session_not_found", 404), "session_not_found"),
        (problem("unauthorized", 401), "unauthorized"),
        (answer({}), "unexpected_answer"),
        (answer(b"<h1>", 403, "text/html"), "unexpected_answer"),
        (answer(b"", 302, Location="/other"), "unexpected_answer"),
    ],
)
def test_a_refusal_for_good_is_raised_once(serve: Serve, refusal: bytes, code: str) -> None:
    server = serve(stream(frame(1)), refusal)
    with Client(server.url) as client:
        events = client.open_session("s")
        assert next(events)["type"] == "session_updated"
        with pytest.raises(ClientError) as caught:
            next(events)
        assert caught.value.code == code and events.position == "e.1"
        with pytest.raises(StopIteration):
            next(events)
    assert len(server.heard) == 2


def test_a_token_that_expired_is_fetched_again_once(serve: Serve) -> None:
    refused = problem("unauthorized", 401)
    server = serve(stream(frame(1)), refused, stream(frame(2)), refused, refused)
    tokens = iter("abcdefgh")
    with Client(server.url, headers=lambda: {"authorization": next(tokens)}) as client:
        events = client.open_session("s")
        assert len(titles([next(events), next(events)])) == 2
        with pytest.raises(ClientError):
            next(events)
    assert [heard.headers["authorization"] for heard in server.heard] == list("abcde")


def test_a_connection_that_falls_silent_is_left(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr("interlock_client._blocking_io.SILENCE_S", 0.2)
    server = serve(STAYS, stream(frame(1)) + STAYS, stream(b": ") + STAYS, stream(frame(2) + ENDED))
    assert titles(read(server.url)) == ["title 1", "title 2"]


def test_an_event_that_is_too_long_is_an_error_and_lies_are_skipped(serve: Serve, monkeypatch: Any) -> None:
    lies = [b"data: {\n\n", b"data: []\n\n", b'data: {"type": 5, "data": {}}\n\n', b"data: " + b"[" * 100_000 + b"\n\n"]
    lies += [b'data: {"type": "reset", "data": {"sessionId": "s", "from": "x"}}\n\n']
    lies += [b'data: {"type": "log", "data": {}, "sessionId": [], "seq": 5}\n\n']
    server = serve(stream(b"".join(lies) + frame(1) + ENDED))
    assert titles(read(server.url)) == ["title 1"]
    flood = serve(stream(frame(1) + b"data: " + b"x" * 9_000_000))
    with pytest.raises(ClientError) as caught:
        read(flood.url)
    assert caught.value.code == "unexpected_answer" and len(flood.heard) == 1


def test_a_stream_is_read_on_after_a_break_and_closed_by_its_block(serve: Serve) -> None:
    server = serve(stream(frame(1) + frame(2) + frame(3)) + STAYS)
    with Client(server.url) as client:
        with client.open_session("s") as events:
            for event in events:
                break
            assert titles([next(events)]) == ["title 2"] and events.position == "e.2"
        assert list(events) == [] and events.position == "e.2"
    assert len(server.heard) == 1


def test_the_socket_is_known_to_this_release_of_httpx(serve: Serve, monkeypatch: Any) -> None:
    """Otherwise closing from another thread would wait for the next byte."""
    seen: List[Any] = []
    note = _network.Sockets.note

    def watched(self: Any, name: str, info: Any) -> None:
        note(self, name, info)
        seen.append(self._stream)

    monkeypatch.setattr(_network.Sockets, "note", watched)
    read(serve(stream(ENDED)).url)
    assert seen[-1].get_extra_info("socket") is not None
