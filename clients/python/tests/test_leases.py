"""Heartbeats in the background, by a thread and by a task."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, List, cast

import pytest

from interlock_client import AsyncClient, Client
from interlock_client import _async_io, _blocking_io
from interlock_client._lease_pace import LeasePace
from interlock_client.types import Session

from raw_server import CUT, RawServer, answer, problem

Serve = Callable[..., RawServer]
#: So long that each heartbeat has time for its answer on any machine.
LEASE_MS = 300_000
SESSION = cast(Session, {"id": "s", "state": "active", "leaseMs": LEASE_MS})
KEPT = answer({"success": True, "leaseMs": LEASE_MS})
LAPSED = answer({"success": True, "leaseMs": LEASE_MS, "lapsed": True, "notice": "resume it"})
ENDED = problem("session_archived", 409)
#: The server says twice that the lease ran out, the second time after it was kept again.
TOLD = (KEPT, LAPSED, LAPSED, KEPT, LAPSED, ENDED)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: Any) -> None:
    """The next heartbeat follows at once."""

    async def yield_only(_: object, seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(_async_io.AsyncClosing, "wait", yield_only)
    monkeypatch.setattr(_blocking_io.Closing, "wait", lambda _, seconds: None)


def leases_of_threads() -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lease of")]


def wait_until_ended(server: RawServer, answers: int) -> None:
    for _ in range(answers):
        assert server.answered.acquire(timeout=60)
    for thread in leases_of_threads():
        thread.join(60)
    assert leases_of_threads() == []


def test_a_thread_beats_until_the_session_has_ended(serve: Serve) -> None:
    server, notices = serve(*TOLD), cast(List[str], [])
    with Client(server.url) as client:
        lease = client.keep_lease(SESSION, on_lapsed=notices.append)
        wait_until_ended(server, len(TOLD))
        lease.stop()
    assert notices == ["resume it", "resume it"] and len(server.heard) == len(TOLD)


def test_a_task_beats_until_the_session_has_ended(serve: Serve) -> None:
    server, notices = serve(*TOLD), cast(List[str], [])

    async def beat() -> int:
        async with AsyncClient(server.url) as client:
            async with client.keep_lease(SESSION, on_lapsed=notices.append):
                (task,) = asyncio.all_tasks() - {cast(Any, asyncio.current_task())}
                await task
            return len(asyncio.all_tasks())

    assert asyncio.run(beat()) == 1
    assert notices == ["resume it", "resume it"] and len(server.heard) == len(TOLD)


def test_a_lease_that_is_stopped_by_what_it_calls_sends_no_more(serve: Serve) -> None:
    server = serve(LAPSED)

    async def beat() -> None:
        async with AsyncClient(server.url) as client:
            lease = client.keep_lease(SESSION, on_lapsed=lambda _: lease.stop())
            (task,) = asyncio.all_tasks() - {cast(Any, asyncio.current_task())}
            await task

    asyncio.run(beat())
    made = threading.Event()

    def stop(_: str) -> None:
        # The first heartbeat may be answered before the lease has its name.
        assert made.wait(60)
        of_thread.stop()

    with Client(server.url) as client:
        of_thread = client.keep_lease(SESSION, on_lapsed=stop)
        made.set()
        wait_until_ended(server, 2)
    assert len(server.heard) == 2


@pytest.mark.parametrize("lost", [CUT, answer(b"no JSON"), problem("forbidden", 403), problem("busy", 503, True)])
def test_a_heartbeat_that_is_lost_is_followed_by_the_next(serve: Serve, lost: bytes) -> None:
    server = serve(lost, lost, KEPT, ENDED)
    with Client(server.url) as client:
        client.keep_lease(SESSION)
        wait_until_ended(server, 4)
    assert len(server.heard) == 4


def test_a_session_without_a_lease_gets_no_heartbeat(serve: Serve) -> None:
    server = serve(KEPT)
    with Client(server.url) as client:
        for session in ({"id": "s", "state": "active"}, {"id": "s", "state": "archived", "leaseMs": 3_000}):
            client.keep_lease(cast(Session, session))
            assert leases_of_threads() == []
    assert server.heard == []


def test_three_heartbeats_fit_into_a_lease_and_its_length_may_change() -> None:
    pace = LeasePace(lambda: 0.0)
    assert pace.note({"state": "active", "leaseMs": 3_000}) and pace.interval_s() == 1.0
    assert not pace.note({"state": "ducked", "leaseMs": 3_000})
    # A slow heartbeat is not given up for the next; after one that is lost, the next comes within the lease.
    assert pace.interval_s() < pace.patience_s() < 3.0 - pace.interval_s()
    pace.answered({"leaseMs": 6_000})
    # A note of the former length is older than the answer.
    assert not pace.note({"state": "active", "leaseMs": 3_000}) and pace.interval_s() == 2.0
    assert pace.note(None) and not pace.is_running
    assert LeasePace(lambda: 1.0).note({"state": "active", "leaseMs": 3_000})
