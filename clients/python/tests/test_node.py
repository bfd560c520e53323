"""A real node: what the client does, over kills, cuts and lost answers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, List

import pytest

from interlock_client import AsyncClient, Client, ClientError, MessageTexts, seq_of, utf16_length
from interlock_client.types import MessageEvent

from conftest import Stage

#: Every end of a line that some reader knows, and what JSON escapes.
SEPARATORS = "a\nb\rc\r\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l\ufeffm\u00a0n\x00o\x7fp\u200bq😀\t\"\\"


def messages_until_complete(client: Client, session_id: str, position: str) -> List[MessageEvent]:
    found: List[MessageEvent] = []
    with client.open_session(session_id, position=position) as events:
        for event in events:
            if event["type"] == "message":
                found.append(event)
            if event["type"] == "complete":
                return found
    raise AssertionError("the stream ended")


def test_a_session_is_created_talks_and_ends(client: Client, user: str) -> None:
    created = client.create_session(agent_id="general", user_id=user, zone="dri/ver %", activate=True)
    session = created["session"]
    assert created["decision"]["outcome"] == "granted" and session["state"] == "active"
    floor = client.get_floor(session["floorId"])
    assert floor["holder"] is not None and floor["holder"]["id"] == session["id"]
    texts = MessageTexts()
    reply = None
    with client.open_session(session["id"]) as events:
        sent = client.send("hello", session_id=session["id"])
        for event in events:
            reply = texts.take(event) or reply
            if event["type"] == "complete" and event["data"]["runId"] == sent.get("runId"):
                break
        position = events.position
    assert reply is not None and (reply.text, reply.is_streaming) == ("Hello there.", False)
    assert seq_of(position) is not None
    spoken = client.played(session["id"], reply.message_id, utf16_length("Hello"))
    assert spoken.get("playedUpTo") == 5
    assert [each["content"] for each in client.list_messages(session["id"])["messages"]] == ["hello", "Hello there."]
    assert client.rename_session(session["id"], "título 🎵")["session"]["title"] == "título 🎵"
    found = client.list_sessions(user_id=user, page_size=5, include_archived=False)
    assert [each["id"] for each in found["sessions"]] == [session["id"]]
    assert client.pause_session(session["id"])["session"]["state"] == "paused"
    assert client.resume_session(session["id"])["session"]["state"] == "active"
    assert client.archive_session(session["id"])["session"]["state"] == "archived"
    with client.open_session(session["id"], position=position) as rest:
        kinds = [event["type"] for event in rest]
        end = rest.position
    assert kinds[-1] == "bye"
    # Nothing follows the last position: the stream ends at once.
    assert list(client.open_session(session["id"], position=end)) == []


def test_a_refused_floor_says_why_and_a_what_if_says_it_before(client: Client, user: str) -> None:
    call = client.create_session(agent_id="phone", user_id=user, activate=True)["session"]
    assert client.what_if(call["floorId"], "music")["decision"]["outcome"] == "rejected"
    with pytest.raises(ClientError) as caught:
        client.create_session(id="never", agent_id="music", user_id=user, activate=True)
    error = caught.value
    assert (error.code, error.status, error.retryable) == ("rejected", 409, True)
    assert error.decision is not None and error.decision["reason"] == "lower_priority"
    assert str(error) == error.decision["say"] == error.sentence
    with pytest.raises(ClientError) as missing:
        client.get_session("never")
    assert (missing.value.code, missing.value.retryable) == ("session_not_found", False)


def test_one_request_asks_in_all_zones_and_one_stop_ends_its_sessions(client: Client, user: str) -> None:
    for zone in ("attic", "kitchen"):
        client.create_session(agent_id="music", user_id=user, zone=zone)
    created = client.create_session(agent_id="general", user_id=user, zone="*", content="nod")
    zones = created["zones"]
    assert [(each.get("zone"), each["decision"]["outcome"]) for each in zones] == [
        ("attic", "granted"),
        ("kitchen", "granted"),
    ]
    client.stop_session(zones[1]["sessionId"], group=True)
    assert [client.get_session(each["sessionId"])["session"]["state"] for each in zones] == ["archived"] * 2


def test_a_what_if_takes_a_sentence(client: Client, user: str) -> None:
    call = client.create_session(agent_id="phone", user_id=user, activate=True)["session"]
    answer = client.what_if(call["floorId"], content="hello")
    assert answer["decision"]["outcome"] == "rejected"
    assert answer["routed"].get("agent") == "general"


def test_a_command_for_an_old_picture_changes_nothing(client: Client, user: str) -> None:
    created = client.create_session(agent_id="general", user_id=user, activate=True)
    session_id, seen = created["session"]["id"], seq_of(created["position"])
    client.pause_session(session_id)
    commands: List[Callable[..., Any]] = [client.resume_session, client.stop_session, client.delete_session]
    for command in commands:
        with pytest.raises(ClientError) as caught:
            command(session_id, if_seq=seen)
        assert caught.value.code == "stale"
        assert caught.value.session is not None and caught.value.session["state"] == "paused"
    assert client.delete_session(session_id, if_seq=int(caught.value.facts["seq"]))["deleted"]


def test_questions_and_confirmations_are_answered(client: Client, user: str) -> None:
    session_id = client.create_session(agent_id="general", user_id=user, activate=True)["session"]["id"]
    sent = client.send("ask", session_id=session_id)
    replies = []
    with client.open_session(session_id, position=sent.get("position")) as events:
        for event in events:
            if event["type"] == "user_question_request":
                client.answer_question(session_id, event["requestId"], "b")
            if event["type"] == "tool_confirmation_request":
                client.answer_confirmation(session_id, event["requestId"], "approve")
            if event["type"] == "message" and event["data"]["role"] == "assistant":
                replies.append(event["data"]["content"])
            if event["type"] == "complete":
                if len(replies) == 2:
                    break
                client.send("delete", session_id=session_id)
    assert replies == ["You chose b.", "Deleted."]
    with pytest.raises(ClientError) as caught:
        client.answer_question(session_id, "other", {"cancelled": True})
    assert caught.value.code == "interaction_not_found"


def test_a_text_keeps_every_separator_on_its_way(client: Client, user: str) -> None:
    kept = SEPARATORS.replace("\x00", "\ufffd")
    created = client.create_session(agent_id="general", user_id=user, activate=True)
    session_id = created["session"]["id"]
    client.send(f"hello {SEPARATORS}\ud800", session_id=session_id)
    messages = messages_until_complete(client, session_id, created["position"])
    assert messages[0]["data"]["content"] == f"hello {kept}\ufffd"
    exported = client.export_session(session_id, "jsonl")
    imported = client.import_session(exported, user_id=user)["session"]["id"]
    assert client.list_messages(imported)["messages"][0]["content"] == f"hello {kept}\ufffd"


def test_both_clients_have_the_same_methods_and_answers(stage: Stage, client: Client, user: str) -> None:
    names = {name for name in dir(Client) if not name.startswith("_")}
    assert {name for name in dir(AsyncClient) if not name.startswith("_")} - {"aclose"} == names - {"close"}

    async def talk() -> List[str]:
        async with AsyncClient(stage.url) as own:
            sent = await own.send("hello", user_id=user, agent_id="general")
            session_id = sent.get("sessionId", "")
            texts = []
            async with own.open_session(session_id) as events:
                async for event in events:
                    if event["type"] == "message":
                        texts.append(event["data"]["content"])
                    if event["type"] == "complete":
                        break
            await own.stop_session(session_id)
            return texts

    assert asyncio.run(talk()) == ["hello", "Hello there."]


def test_a_session_waits_for_its_time(client: Client, user: str) -> None:
    session = client.create_session(agent_id="general", user_id=user, in_="1d", content="hello")["session"]
    assert session["state"] == "created" and session["schedule"].get("content") == "hello"
    again = client.schedule_session(session["id"], every="0 7 * * *", timezone="Europe/Berlin")["session"]
    assert again["schedule"].get("every") == "0 7 * * *"
    assert client.list_runs(user_id=user)["runs"] == [] and client.list_webhooks()["webhooks"] == []
    with pytest.raises(ClientError) as unknown:
        client.enable_webhook("nobody")
    assert unknown.value.code == "not_found"
    assert client.list_usage(limit=1)["success"]
    client.stop_session(session["id"])


def test_what_operators_read(client: Client, user: str) -> None:
    floor_id = client.create_session(agent_id="general", user_id=user, activate=True)["session"]["floorId"]
    assert client.set_flags(floor_id, {"reverse": True})["flags"] == {"reverse": True}
    assert client.change_flags(floor_id, {"quiet": True})["flags"] == {"quiet": True, "reverse": True}
    assert client.read_floor_log(floor_id, limit=1)["events"][0]["type"] == "floor_updated"
    assert floor_id in [floor["floorId"] for floor in client.list_floors(state="held", limit=1_000)["floors"]]
    assert client.get_health()["status"] == "ok" and client.get_readiness()["missing"] == []
    assert "interlock_" in client.get_metrics() and client.list_nodes()["absentRoles"] == []
    assert client.get_matrix()["agents"] and client.get_open_api()["openapi"] == "3.1.0"
    with pytest.raises(ClientError) as caught:
        client.compare_catalogue("agents: [")
    assert caught.value.code == "bad_request" and caught.value.faults[0]["line"] == 1
    with client.open_floors() as floors:
        assert next(floors)["type"] == "reset"
    assert client.stop_floor(floor_id)["archived"]
    assert client.forget_user(user)["sessions"] == 1


def test_a_connection_carries_its_sessions_and_goes_on_by_its_position(stage: Stage, client: Client, user: str) -> None:
    with client.open_connection(user_id=user) as events:
        first = next(events)
        assert first["type"] == "connected"
        connection_id = first["data"]["connectionId"]
        one = client.create_session(agent_id="general", connection_id=connection_id)["session"]["id"]
        for event in events:
            if event["type"] == "session_created":
                break
        position = events.position
    client.rename_session(one, "while away")
    with client.open_connection(position=position) as events:
        titles = [event["data"].get("title") for event in events_until(events, "session_updated") if event["type"] == "session_updated"]
    assert titles == ["while away"]


def events_until(events: Any, kind: str) -> List[Any]:
    found = []
    for event in events:
        found.append(event)
        if event["type"] == kind:
            break
    return found


def test_lost_answers_of_every_kind_of_write_act_once(stage: Stage, client: Client, user: str) -> None:
    with Client(stage.losing_url) as unlucky:

        def once(write: Any, *args: Any, **more: Any) -> Any:
            stage.do("lose")
            return write(*args, **more)

        created = once(unlucky.create_session, agent_id="general", user_id=user, activate=True)
        session_id = created["session"]["id"]
        once(unlucky.send, "hello", session_id=session_id)
        messages = messages_until_complete(client, session_id, created["position"])
        once(unlucky.played, session_id, messages[-1]["data"]["id"], 3)
        once(unlucky.rename_session, session_id, "once")
        once(unlucky.pause_session, session_id)
        once(unlucky.resume_session, session_id)
        fork = once(unlucky.fork_session, session_id)["session"]["id"]
        once(unlucky.stop_session, fork)
        once(unlucky.change_flags, created["session"]["floorId"], {"quiet": True})
        assert once(unlucky.delete_session, fork)["deleted"]
        assert once(unlucky.get_session, session_id)["session"]["title"] == "once"
        once(unlucky.archive_session, session_id)
    assert [each["content"] for each in client.list_messages(session_id)["messages"]] == ["hello", "Hello there."]
    assert client.list_sessions(user_id=user, include_archived=True)["total"] == 1
    counts: Dict[str, int] = {}
    for event in client.open_session(session_id):
        name = event["data"]["event"] if event["type"] == "session_transition" else event["type"]
        counts[name] = counts.get(name, 0) + 1
    once_each = ["session_created", "activate", "pause", "resume", "turn", "complete", "archive"]
    assert {name: counts.get(name) for name in once_each} == {name: 1 for name in once_each}


def test_ten_thousand_events_come_once_and_in_order_over_cuts_and_kills(stage: Stage, client: Client, user: str) -> None:
    """Live and over cuts for the blocking client; then as history, over kills too, for the asynchronous one."""
    wanted = list(range(10_000))
    created = client.create_session(agent_id="flood", user_id=user, activate=True)
    session_id, begun = created["session"]["id"], created["position"]
    disturbed = []

    def disturb(what: str) -> None:
        for each in what.split():
            stage.do(each)
            disturbed.append(each)

    with Client(stage.cutting_url) as own:
        client.send("begin", session_id=session_id)
        numbers: List[int] = []
        plan = {1: "cut", 1_001: "refuse admit", 7_000: "cut"}
        for event in own.open_session(session_id, position=begun):
            assert event["type"] != "reset"
            if event["type"] == "data" and event["data"]["name"] == "number":
                numbers.append(int(event["data"]["data"]))
                disturb(plan.get(len(numbers), ""))
            if event["type"] == "complete":
                break
        assert numbers == wanted

    async def read() -> List[int]:
        again: List[int] = []
        plan = {1: "cut", 2_000: "kill", 9_999: "refuse admit"}
        loop = asyncio.get_running_loop()
        async with AsyncClient(stage.cutting_url) as own:
            async for event in own.open_session(session_id, position=begun):
                assert event["type"] != "reset"
                if event["type"] == "data" and event["data"]["name"] == "number":
                    again.append(int(event["data"]["data"]))
                    if len(again) in plan:
                        await loop.run_in_executor(None, disturb, plan[len(again)])
                if event["type"] == "complete":
                    break
        return again

    assert asyncio.run(read()) == wanted
    assert len(disturbed) == 4 + 4


def test_a_killed_node_is_found_again_by_streams_and_writes(stage: Stage, user: str) -> None:
    with Client(stage.url, patience=60.0) as own:
        created = own.create_session(agent_id="general", user_id=user, activate=True)
        session_id = created["session"]["id"]
        floor = own.open_floor(created["session"]["floorId"])
        with own.open_session(session_id) as events:
            events_until(events, "session_transition")
            killing = threading.Thread(target=stage.do, args=("kill",))
            killing.start()
            numbers = [own.rename_session(session_id, f"title {n}")["session"]["title"] for n in range(20)]
            killing.join()
            titles: List[str] = []
            for event in events:
                if event["type"] == "session_updated":
                    titles.append(event["data"].get("title", ""))
                if len(titles) == len(numbers):
                    break
            own.archive_session(session_id)
            assert titles == numbers == [f"title {n}" for n in range(20)]
            assert [event["type"] for event in events][-1] == "bye"
        with floor:
            ends = [event for event in events_until_archived(floor)]
        assert [event["type"] for event in ends].count("session_created") == 1


def events_until_archived(events: Any) -> List[Any]:
    found = []
    for event in events:
        found.append(event)
        if event["type"] == "session_transition" and event["data"]["to"] == "archived":
            break
    return found


def test_a_stream_of_a_store_that_is_gone_is_told_to_read_anew(client: Client, user: str) -> None:
    created = client.create_session(agent_id="general", user_id=user)
    session_id = created["session"]["id"]
    with client.open_session(session_id, position="zzzzzz.5.abc") as events:
        first = next(events)
        assert first["type"] == "reset" and first["data"].get("from") == seq_of(created["position"])
        client.rename_session(session_id, "after")
        second = next(events)
    assert second["type"] == "session_updated" and second["data"].get("title") == "after"


def test_a_lease_is_kept_and_its_loss_is_told_once(stage: Stage, client: Client, user: str) -> None:
    session = client.create_session(agent_id="player", user_id=user, activate=True)["session"]
    session_id, until = session["id"], session["leaseUntil"]
    lapses: List[str] = []
    heard = threading.Event()

    def lapsed(notice: str) -> None:
        lapses.append(notice)
        heard.set()
        raise RuntimeError("what the program does is no end of the heartbeats")

    with Client(stage.cutting_url) as own, own.keep_lease(session, on_lapsed=lapsed):
        while client.get_session(session_id)["session"].get("leaseUntil", until) <= until:
            pass
        stage.do("refuse")
        with client.open_session(session_id) as events:
            assert events_until_yield(events)[-1]["data"]["reason"] == "lease_expired"
            stage.do("admit")
            assert heard.wait(60)
            resumed = client.resume_session(session_id)["session"]
            assert resumed["state"] == "active"
            while client.get_session(session_id)["session"].get("leaseUntil", 0) <= resumed["leaseUntil"]:
                pass
        client.stop_session(session_id)
    assert len(lapses) == 1 and "resume" in lapses[0]


def events_until_yield(events: Any) -> List[Any]:
    found = []
    for event in events:
        found.append(event)
        if event["type"] == "session_transition" and event["data"]["event"] == "yield":
            break
    return found
