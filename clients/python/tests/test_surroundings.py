"""What surrounds a client: threads, tasks that are cancelled, several event loops, forked processes."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import Any, Callable, List

import pytest

from interlock_client import AsyncClient, Client, EventStream

from conftest import Stage
from raw_server import CUT, ENDED, STAYS, RawServer, answer, frame, stream

Serve = Callable[..., RawServer]
HEALTH = answer({"status": "ok", "connections": 0, "version": "1"})


@pytest.mark.parametrize("first", [STAYS, stream(b": here\n") + STAYS, stream(frame(1)) + STAYS, CUT])
def test_a_stream_is_closed_from_another_thread_whatever_it_waits_for(serve: Serve, first: bytes) -> None:
    server = serve(first)
    client = Client(server.url)
    events: EventStream[Any] = client.open_session("s")
    got: List[Any] = []
    reading = threading.Thread(target=lambda: got.extend(events))
    reading.start()
    assert server.answered.acquire(timeout=60)
    events.close()
    reading.join(60)
    assert not reading.is_alive() and len(got) <= 1
    assert first == CUT or server.left.acquire(timeout=60)
    client.close()


def test_closing_a_client_ends_its_streams_in_all_threads(serve: Serve) -> None:
    server = serve(stream(b": here\n") + STAYS)
    client = Client(server.url)
    threads = [threading.Thread(target=lambda: list(client.open_session("s"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert server.answered.acquire(timeout=60)
    client.close()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_many_threads_share_a_client(client: Client, user: str) -> None:
    ids: List[str] = []

    def work(number: int) -> None:
        session_id = client.create_session(agent_id="general", user_id=f"{user} {number}")["session"]["id"]
        client.rename_session(session_id, f"{number}")
        assert client.get_session(session_id)["session"]["title"] == f"{number}"
        ids.append(session_id)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(ids)) == 24


def test_a_cancelled_task_leaves_nothing_behind(serve: Serve, stage: Stage) -> None:
    server = serve(STAYS)

    async def cancel_all() -> None:
        async with AsyncClient(server.url) as client:

            async def follow() -> None:
                async for _ in client.open_session("s"):
                    pass

            for wait_for in (client.get_health, follow):
                tasks = [asyncio.ensure_future(wait_for()) for _ in range(150)]
                for _ in tasks:
                    await asyncio.get_running_loop().run_in_executor(None, server.answered.acquire)
                for task in tasks:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(each, asyncio.CancelledError) for each in done)
                for _ in tasks:
                    await asyncio.get_running_loop().run_in_executor(None, server.left.acquire)
        async with AsyncClient(stage.url) as own:
            assert (await own.get_health())["status"] == "ok"

    asyncio.run(cancel_all())


# Newer releases of httpcore leave a socket to the garbage collector when they are cancelled while it connects.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cancelled_write_that_is_sent_again_with_its_key_acts_once(stage: Stage, client: Client, user: str) -> None:
    key = user.replace(" ", "-")

    async def create() -> Any:
        async with AsyncClient(stage.url) as own:
            for turns in range(60):
                task = asyncio.ensure_future(own.create_session(user_id=user, idempotency_key=key))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return await own.create_session(user_id=user, idempotency_key=key)

    created = asyncio.run(create())
    sessions = client.list_sessions(user_id=user)["sessions"]
    assert [each["id"] for each in sessions] == [created["session"]["id"]]


def test_an_asynchronous_stream_is_closed_by_another_task(serve: Serve) -> None:
    server = serve(stream(frame(1)) + STAYS)

    async def close() -> List[Any]:
        async with AsyncClient(server.url) as client:
            events = client.open_session("s")

            async def follow() -> List[Any]:
                return [event async for event in events]

            reading = asyncio.ensure_future(follow())
            await asyncio.get_running_loop().run_in_executor(None, server.answered.acquire)
            await events.aclose()
            return await reading

    assert len(asyncio.run(close())) <= 1


def test_one_client_serves_several_event_loops(serve: Serve) -> None:
    server = serve(HEALTH)
    client = AsyncClient(server.url)

    async def ask() -> Any:
        return await client.get_health()

    assert asyncio.run(ask())["status"] == asyncio.run(ask())["status"] == "ok"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_connections_and_keys_of_its_own(stage: Stage, client: Client, user: str) -> None:
    session = client.create_session(agent_id="player", user_id=user, activate=True)["session"]
    statuses: List[Any] = []
    with client.keep_lease(session), client.open_session(session["id"], on_status=statuses.append) as events:
        next(events)
        child = os.fork()
        if child == 0:
            # Only what leaves the process tells: its exit code.
            try:
                assert client.rename_session(session["id"], "by the child")["session"]["title"] == "by the child"
                events.close()
                client.close()
                os._exit(0)
            except BaseException:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        for event in events:
            if event["type"] == "session_updated":
                assert event["data"].get("title") == "by the child"
                break
        assert client.stop_session(session["id"])["session"]["state"] == "archived"
        assert [event["type"] for event in events][-1] == "bye"
    # What the child closed was its own.
    assert [status.state for status in statuses] == ["connecting", "open"]


def test_a_header_function_may_be_asynchronous(serve: Serve) -> None:
    server = serve(CUT, HEALTH, stream(ENDED))

    async def token() -> Any:
        await asyncio.sleep(0)
        return {"Authorization": "Bearer t"}

    async def ask() -> None:
        async with AsyncClient(server.url, headers=token) as client:
            await client.get_health()
            async for _ in client.open_session("s"):
                pass

    asyncio.run(ask())
    assert {heard.headers["authorization"] for heard in server.heard} == {"Bearer t"}


def test_a_stream_that_is_dropped_closes_its_connection(serve: Serve) -> None:
    server = serve(stream(frame(1)) + STAYS)
    with Client(server.url) as client:
        for _ in client.open_session("s"):
            break
        gc.collect()
        assert server.left.acquire(timeout=60)
