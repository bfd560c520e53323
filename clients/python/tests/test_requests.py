"""Requests and their repeats, against servers that answer late, wrongly, hugely or never."""

from __future__ import annotations

import pickle
import threading
from typing import Any, Callable, Dict, List

import pytest

from interlock_client import Client, ClientError
from interlock_client import _async_client, _client, _requests

from raw_server import CUT, STAYS, RawServer, answer, problem

Serve = Callable[..., RawServer]
HEALTH = answer({"status": "ok", "connections": 0, "version": "1"})
SENT = answer({"success": True, "messageId": "m"})


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: Any) -> None:
    monkeypatch.setattr(_requests, "_FIRST_WAIT_S", 0.001)


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as caught:
        act()
    return caught.value.code


@pytest.mark.parametrize(
    "lost",
    [
        CUT,
        problem("busy", 503, True),
        problem("unavailable", 503, True),
        problem("too_many_requests", 429, True, retry_after=0),
        answer(b"<h1>Bad Gateway</h1>", 502, "text/html"),
        SENT[:-5],
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    ],
)
def test_a_write_is_repeated_with_its_key_and_its_content(serve: Serve, lost: bytes) -> None:
    server = serve(lost, lost, SENT)
    with Client(server.url) as client:
        assert client.send("hello 🎵")["messageId"] == "m"
        client.send("hello 🎵")
    first, second, third, other = server.heard
    assert first.headers["idempotency-key"] == third.headers["idempotency-key"] != other.headers["idempotency-key"]
    assert first.line == second.line == third.line == "POST /message HTTP/1.1"
    assert first.body == second.body == third.body


def test_the_fifth_failure_is_raised_with_the_key_to_repeat(serve: Serve) -> None:
    server = serve(*[CUT] * 5, SENT)
    with Client(server.url) as client:
        with pytest.raises(ClientError) as caught:
            client.send("hello")
        error = caught.value
        assert (error.code, error.status, error.retryable) == ("unreachable", 0, True)
        client.send("hello", idempotency_key=error.idempotency_key)
    assert len({heard.headers["idempotency-key"] for heard in server.heard}) == 1 and len(server.heard) == 6
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, str(copy), copy.facts) == (error.code, str(error), error.facts)


def test_the_waits_between_attempts_grow_and_are_spread() -> None:
    waits = [_requests.backoff(failed, 0.2, 5.0, lambda: 1.0) for failed in (1, 2, 3, 9, 10_000)]
    assert waits == [0.2, 0.4, 0.8, 5.0, 5.0]
    assert _requests.backoff(1, 0.2, 5.0, lambda: 0.0) == 0.1


def test_patience_goes_on_beyond_five_attempts_for_writes_alone(serve: Serve) -> None:
    server = serve(*[problem("busy", 503, True)] * 8, SENT)
    with Client(server.url, patience=60) as client:
        client.send("hello")
    assert len(server.heard) == 9
    reading = serve(*[problem("busy", 503, True)] * 8, HEALTH)
    with Client(reading.url, patience=60) as client:
        assert code_of(client.get_health) == "busy"
    assert len(reading.heard) == 5


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (problem("rejected", 409, True), "rejected"),
        (problem("busy", 503, True, retry_after=11), "busy"),
        (answer(b"[]"), "unexpected_answer"),
        (answer(b"no JSON"), "unexpected_answer"),
        (answer(b"[" * 200_000), "unexpected_answer"),
        (answer(b'{"n": ' + b"9" * 10_000 + b"}"), "unexpected_answer"),
        (answer({}, 500), "unexpected_answer"),
        (answer({"errorCode": 5, "error": "x"}, 400), "unexpected_answer"),
        (answer(b"", 302, Location="http://127.0.0.1:1/"), "unexpected_answer"),
    ],
)
def test_what_would_fail_again_is_sent_once(serve: Serve, refusal: bytes, code: str) -> None:
    server = serve(refusal)
    with Client(server.url) as client:
        assert code_of(lambda: client.send("hello")) == code
    assert len(server.heard) == 1


def test_an_answer_that_has_no_end_is_given_up(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(_requests, "_MAX_ANSWER", 100_000)
    server = serve(answer(b"x" * 100_001))
    with Client(server.url) as client:
        assert code_of(client.get_health) == "unexpected_answer"
    assert len(server.heard) == 1


def test_an_answer_that_never_comes_is_repeated_after_the_time_of_one_attempt(serve: Serve) -> None:
    server = serve(STAYS, HEALTH[:-3] + STAYS, HEALTH)
    with Client(server.url, timeout=0.2) as client:
        assert client.get_health()["status"] == "ok"
    assert len(server.heard) == 3


def test_a_function_gives_the_headers_of_each_attempt(serve: Serve) -> None:
    server = serve(CUT, HEALTH)
    tokens = iter(["one", "two"])
    with Client(server.url, headers=lambda: {"Authorization": f"Bearer {next(tokens)}"}) as client:
        client.get_health()
        assert [heard.headers["authorization"] for heard in server.heard] == ["Bearer one", "Bearer two"]
        with pytest.raises(StopIteration):
            client.get_health()

    def away() -> Dict[str, str]:
        raise ClientError("unreachable", "The issuer does not answer.")

    with Client(server.url, headers=away) as client:
        assert code_of(client.get_health) == "unreachable"
    assert len(server.heard) == 2


def test_ids_and_words_of_any_kind_stay_what_they_are(serve: Serve) -> None:
    server = serve(answer({}))
    with Client(server.url + "/prefix/") as client:
        client.get_session("a/b?c#d%2F é\n\ud800")
        client.list_sessions(q="a&b=c +\u2028", include_archived=True, page=0)
        client.get_matrix(flag=["a", "b"])
        client.move_session("s", None)
        client.delete_session("s", if_seq=0)
        client.delete_session("s")
    lines = [heard.line.split(" ")[1] for heard in server.heard]
    assert lines[0] == "/prefix/session/a%2Fb%3Fc%23d%252F%20%C3%A9%0A%3F"
    assert lines[1] == "/prefix/session/list?page=0&q=a%26b%3Dc%20%2B%E2%80%A8&includeArchived=true"
    assert lines[2] == "/prefix/catalogue/matrix?flag=a&flag=b"
    assert [heard.body for heard in server.heard[3:]] == [b'{"zone": null}', b'{"ifSeq": 0}', b""]


def test_what_cannot_be_sent_is_refused_before() -> None:
    with Client("http://127.0.0.1:9") as client:
        for bad in ("", ".", ".."):
            assert code_of(lambda: client.get_session(bad)) == "bad_request"
            assert code_of(lambda: client.open_session(bad)) == "bad_request"
        for key in ("é", "a b", "x" * 129, "a\nb"):
            with pytest.raises(ValueError):
                client.send("hello", idempotency_key=key)
        with pytest.raises(ValueError):
            client.answer_question("s", "q", {"selected": float("nan")})
    for address in ("127.0.0.1:3000", "ftp://a", "http://a?b", "http://a#b", "http://", ""):
        with pytest.raises(ValueError):
            Client(address)
    for timeout, patience in ((0.0, 0.0), (float("nan"), 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError):
            Client("http://127.0.0.1:9", timeout=timeout, patience=patience)


def test_a_closed_client_sends_nothing(serve: Serve) -> None:
    server = serve(HEALTH)
    client = Client(server.url)
    client.get_health()
    client.close()
    client.close()
    with pytest.raises(RuntimeError):
        client.get_health()
    with pytest.raises(RuntimeError):
        next(client.open_session("s"))
    assert len(server.heard) == 1


def test_closing_ends_a_wait_between_attempts_in_another_thread(serve: Serve) -> None:
    server = serve(problem("busy", 503, True, retry_after=9))
    client = Client(server.url)
    caught: List[BaseException] = []

    def ask() -> None:
        try:
            client.get_health()
        except (ClientError, RuntimeError) as error:
            caught.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert server.answered.acquire(timeout=60)
    client.close()
    asking.join(60)
    assert len(caught) == 1


def test_every_method_is_described() -> None:
    for kind in (_client.Client, _async_client.AsyncClient):
        for name, value in vars(kind).items():
            if not name.startswith("_"):
                assert value.__doc__, name
