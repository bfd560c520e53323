# Written from _async_client.py by `npm run build:python`. Change that file, not this one.
"""The client: one method for each route of the API."""

from __future__ import annotations

import random
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Type, Union, cast

from ._blocking_io import Lease, Transport, HeaderSource, own_headers
from ._stream import EventStream
from ._errors import ClientError, failure_of, parse_json, unexpected_answer
from ._inputs import DefinitionSettings, ImageInput
from ._requests import NULL, Exchange, Request, settings_of, to_bytes, url_of
from ._stream_state import StreamStatus
from .types import (
    AgentsAnswer,
    ArchivedAnswer,
    CancelledRun,
    CatalogueDifference,
    ConnectionStreamEvent,
    CreatedSession,
    DefinitionAnswer,
    DefinitionPage,
    DeletedAnswer,
    EnabledWebhook,
    FlagsAnswer,
    FloorLogPage,
    FloorPage,
    FloorsStreamEvent,
    FloorStreamEvent,
    FloorView,
    ForgottenUser,
    Health,
    ImportedSession,
    LoadedSession,
    LogPage,
    MatrixAnswer,
    MessageAnswer,
    MessagePage,
    NodeList,
    QueuePage,
    Readiness,
    ReplayAnswer,
    RunPage,
    Session,
    SessionAnswer,
    SessionPage,
    SessionState,
    SessionStreamEvent,
    TurnAnswer,
    UsagePage,
    WebhookAnswer,
    WebhookList,
    WhatIfAnswer,
    WithdrawnAnswer,
)

OnStatus = Callable[[StreamStatus], object]
OnPosition = Callable[[str], object]


class Client:
    """A client for the HTTP API of Interlock, and a context manager whose end closes it.

    A method raises :class:`ClientError` for a failure. Each write has an idempotency key, and is repeated with it while its
    outcome is unknown or the server asks for it: up to five attempts, with growing delays that are spread at random. So it
    takes effect once. ``idempotency_key`` replaces the key that the client makes (1 to 128 visible ASCII characters); the
    same request with the same key has one effect for a day, and the same answer.

    ``if_seq``, of the methods that change one session, is the ``seq`` of the newest event of the session that was seen, or
    :func:`seq_of` the ``position`` of an answer: if the session has changed since, nothing happens, and ``stale`` is raised.

    What the API counts in UTF-16 units, :func:`utf16_length` counts in a ``str``.

    :param base_url: the server's address, such as ``http://127.0.0.1:3000``. A path in it comes before every route
    :param headers: headers of every request and stream, or a function that returns them. The function is called for each
        request and each connection, so that it can renew a token. Its error ends the request or the stream, but a
        ``ClientError`` with the code ``unreachable`` counts as a failed attempt
    :param timeout: seconds for one attempt; default 15. Copies, exports and imports have 10 minutes
    :param patience: seconds for which a write is repeated beyond five attempts; default 0
    :param httpx_options: options of the ``httpx`` client below, such as ``verify``, ``cert``, ``proxies``, ``trust_env``
    :raises ValueError: if an option is not valid
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Optional[HeaderSource] = None,
        timeout: float = 15.0,
        patience: float = 0.0,
        httpx_options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._settings = settings_of(base_url, timeout, patience, random.random)
        self._headers = headers
        self._transport = Transport(httpx_options or {})
        #: The streams by their ids. Its references are listed at once, whatever other threads open meanwhile.
        self._streams: "weakref.WeakValueDictionary[int, EventStream[Any]]" = weakref.WeakValueDictionary()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the streams that are open. Later requests raise ``RuntimeError``."""
        for reference in self._streams.valuerefs():
            stream = reference()
            if stream is not None:
                stream.close()
        self._transport.close()

    # Sessions

    def create_session(
        self,
        *,
        id: Optional[str] = None,
        agent_id: Optional[str] = None,
        mode: Optional[str] = None,
        user_id: Optional[str] = None,
        zone: Optional[str] = None,
        workspace_id: Optional[str] = None,
        title: Optional[str] = None,
        locale: Optional[str] = None,
        connection_id: Optional[str] = None,
        activate: Optional[bool] = None,
        at: Optional[str] = None,
        in_: Optional[str] = None,
        every: Optional[str] = None,
        timezone: Optional[str] = None,
        content: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> CreatedSession:
        """Create a session, and with ``activate`` request the floor; or with ``at``, ``in_`` or ``every`` at its time, as in
        ``schedule_session``.

        Names of users, zones and workspaces have 1 to 128 characters, without control characters.

        :param id: 1 to 64 letters, digits, ``_`` and ``-``; default: the server makes one
        :param agent_id: default: the catalogue's default agent
        :param mode: a mode of the agent; default: its first
        :param user_id: whose floor the session competes for; default: the session has a floor of its own
        :param zone: which of the user's floors; default: the one without a zone. ``*``: a session on each that is open
            asks there, and is told ``content``; the answer's ``zones`` say what each decided
        :param workspace_id: the workspace whose agents it may have, besides those of the catalogue's file
        :param title: 1 to 256 characters; default: made from the first message
        :param locale: the language of spoken sentences, such as ``en`` or ``zh-CN``; default: the server's
        :param connection_id: the connection to bind the session to, from a ``connected`` event
        :param activate: default: false
        :raises ClientError: ``rejected`` if the floor is refused: ``error.decision`` says why, and there is no session.
            ``agent_not_found``; ``idempotency_mismatch`` if the id is another session's
        """
        body = {
            "id": id,
            "agentId": agent_id,
            "mode": mode,
            "userId": user_id,
            "zone": zone,
            "workspaceId": workspace_id,
            "title": title,
            "locale": locale,
            "connectionId": connection_id,
            "activate": activate,
            "at": at,
            "in": in_,
            "every": every,
            "timezone": timezone,
            "content": content,
        }
        return cast(CreatedSession, self._post(["session", "create"], body, idempotency_key))

    def load_session(
        self, session_id: str, *, connection_id: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> LoadedSession:
        """The session with its newest messages: 500, or as many as reach 1 MiB.

        :param connection_id: the connection to bind it to; default: none
        """
        body = {"sessionId": session_id, "connectionId": connection_id}
        return cast(LoadedSession, self._post(["session", "load"], body, idempotency_key))

    def list_sessions(
        self,
        *,
        page: Optional[int] = None,
        page_size: Optional[int] = None,
        q: Optional[str] = None,
        state: Optional[SessionState] = None,
        agent_id: Optional[str] = None,
        user_id: Optional[str] = None,
        workspace_id: Optional[str] = None,
        include_archived: Optional[bool] = None,
    ) -> SessionPage:
        """A page of the caller's sessions, those with the newest activity first.

        :param page: from 0; default 0
        :param page_size: 1 to 200; default 20
        :param q: words of titles, summaries and messages, or an id; at most 1,024 characters
        :param include_archived: default: false, unless ``state`` is ``archived``
        """
        query = {
            "page": page,
            "pageSize": page_size,
            "q": q,
            "state": state,
            "agentId": agent_id,
            "userId": user_id,
            "workspaceId": workspace_id,
            "includeArchived": include_archived,
        }
        return cast(SessionPage, self._get(["session", "list"], query))

    def get_session(self, session_id: str) -> SessionAnswer:
        """The session as it is."""
        return cast(SessionAnswer, self._get(["session", session_id]))

    def change_session(
        self,
        session_id: str,
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        **settings: Any,
    ) -> SessionAnswer:
        """Change what is given of a session's settings: its ``title``, of 1 to 256 characters, or the ``mode`` of its agent,
        for the turns to come.

        :raises ClientError: ``bad_request`` if the agent lacks the mode, or for a setting that the server does not know
        """
        body = {**settings, "ifSeq": if_seq}
        path = ["session", session_id]
        return cast(SessionAnswer, self._write("PATCH", path, body, idempotency_key))

    def rename_session(
        self, session_id: str, title: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """:param title: 1 to 256 characters"""
        return self.change_session(session_id, title=title, if_seq=if_seq, idempotency_key=idempotency_key)

    def delete_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> DeletedAnswer:
        """Delete a session with its messages. ``deleted`` is false if there was none."""
        path = ["session", session_id]
        return cast(DeletedAnswer, self._write("DELETE", path, {"ifSeq": if_seq}, idempotency_key))

    # The floor

    def activate_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Request the floor. The decision is in the answer if it is granted or queued.

        :raises ClientError: ``rejected``; ``error.decision`` says why
        """
        return self._command(session_id, "activate", {}, if_seq, idempotency_key)

    def pause_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Release the floor until ``resume_session``, or until its next message."""
        return self._command(session_id, "pause", {}, if_seq, idempotency_key)

    def resume_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Request the floor for a paused session.

        :raises ClientError: ``rejected``; the session then stays paused
        """
        return self._command(session_id, "resume", {}, if_seq, idempotency_key)

    def archive_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """End the session. It remains readable, and accepts no more messages.

        :raises ClientError: ``session_archived`` if it has ended before
        """
        return self._command(session_id, "archive", {}, if_seq, idempotency_key)

    def stop_session(
        self,
        session_id: str,
        *,
        group: Optional[bool] = None,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> SessionAnswer:
        """End the session's run and archive it. Archiving it again is no error.

        :param group: the other sessions of its request for all zones too
        """
        return self._command(session_id, "stop", {"group": group}, if_seq, idempotency_key)

    def move_session(
        self,
        session_id: str,
        zone: Optional[str],
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> SessionAnswer:
        """Move a session to another floor of its user, which it requests. It goes on in the session of the answer, with its
        messages and unfinished turns, and the former one is archived.

        :param zone: ``None``: the user's floor without a zone
        :raises ClientError: ``rejected`` if that floor is refused: nothing changes. ``agent_busy`` if its turn has acted
        """
        body = {"zone": NULL if zone is None else zone, "ifSeq": if_seq}
        path = ["session", session_id, "move"]
        return cast(SessionAnswer, self._write("POST", path, body, idempotency_key, is_long=True))

    def schedule_session(
        self,
        session_id: str,
        *,
        at: Optional[str] = None,
        in_: Optional[str] = None,
        every: Optional[str] = None,
        timezone: Optional[str] = None,
        content: Optional[str] = None,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> SessionAnswer:
        """Choose when a session that has never had the floor asks for it: ``at``, ``in_`` or ``every``.

        :param at: an RFC 3339 instant, or a local date and time with ``timezone``, such as ``2026-12-01T07:00``
        :param in_: after this time: a whole number and s, m, h or d, such as ``10m``; at most 366 days
        :param every: again and again: five fields of cron, on the clocks of ``timezone``. Needs a user
        :param timezone: an IANA time zone, such as ``Europe/Berlin``
        :param content: the message with which it asks, at most 4,096 UTF-16 units; default: it keeps the one it has
        :raises ClientError: ``illegal_command`` if it has asked; ``too_many_schedules`` if 64 of its floor wait
        """
        body = {"at": at, "in": in_, "every": every, "timezone": timezone, "content": content}
        return self._command(session_id, "schedule", body, if_seq, idempotency_key)

    def switch_mode(
        self, session_id: str, mode: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Choose the mode of the session's agent, from the next turn on.

        :raises ClientError: ``bad_request`` if the agent lacks it
        """
        return self.change_session(session_id, mode=mode, if_seq=if_seq, idempotency_key=idempotency_key)

    def summarize_session(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Request a summary, which arrives as a message.

        :raises ClientError: ``illegal_command`` if the agent writes none
        """
        return self._command(session_id, "summarize", {}, if_seq, idempotency_key)

    # Messages

    def send(
        self,
        content: str,
        *,
        session_id: Optional[str] = None,
        id: Optional[str] = None,
        images: Optional[Sequence[ImageInput]] = None,
        connection_id: Optional[str] = None,
        agent_id: Optional[str] = None,
        user_id: Optional[str] = None,
        zone: Optional[str] = None,
        workspace_id: Optional[str] = None,
        locale: Optional[str] = None,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> MessageAnswer:
        """Send a message of the user: a turn of the session's agent. The answer comes when the message is stored; what the
        agent says comes on the session's stream.

        :param content: at most 262,144 UTF-16 units
        :param session_id: default: the session that was bound last to ``connection_id``; without either the message makes a
            session, for which ``agent_id``, ``user_id``, ``zone``, ``workspace_id`` and ``locale`` are as in
            ``create_session``
        :param id: the message's id, 1 to 64 letters, digits, ``_`` and ``-``; default: the server makes one
        :raises ClientError: ``rejected`` if the floor is refused, ``agent_busy`` if another turn runs: then the message is
            not kept
        """
        body = {
            "type": "chat",
            "sessionId": session_id,
            "id": id,
            "content": content,
            "images": list(images) if images is not None else None,
            "connectionId": connection_id,
            "agentId": agent_id,
            "userId": user_id,
            "zone": zone,
            "workspaceId": workspace_id,
            "locale": locale,
            "ifSeq": if_seq,
        }
        return self._message(body, idempotency_key)

    def abort(
        self, session_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> MessageAnswer:
        """End the session's run and what it asks. The text so far is kept. Without a run it does nothing."""
        return self._message({"type": "abort", "sessionId": session_id, "ifSeq": if_seq}, idempotency_key)

    def answer_question(
        self,
        session_id: str,
        request_id: str,
        response: Union[str, Mapping[str, Any]],
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> MessageAnswer:
        """Answer a question of the agent.

        :param request_id: that of the event ``user_question_request``
        :param response: a text; or ``{"selected": …, "customInput": …}``, or ``{"cancelled": True}``
        :raises ClientError: ``interaction_not_found`` if nothing waits for this answer
        """
        body = {
            "type": "user_question_response",
            "sessionId": session_id,
            "requestId": request_id,
            "response": response,
            "ifSeq": if_seq,
        }
        return self._message(body, idempotency_key)

    def answer_confirmation(
        self,
        session_id: str,
        request_id: str,
        response: Union[str, Mapping[str, Any]],
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> MessageAnswer:
        """Allow or forbid what a tool is about to do.

        :param request_id: that of the event ``tool_confirmation_request``
        :param response: ``approve``, ``approve_always``, ``reject``, another value of the event's ``availableOptions``, or
            ``{"type": "reject_with_reply", "reason": …}``
        :raises ClientError: ``interaction_not_found`` if nothing waits for this answer
        """
        body = {
            "type": "tool_confirmation_response",
            "sessionId": session_id,
            "requestId": request_id,
            "response": response,
            "ifSeq": if_seq,
        }
        return self._message(body, idempotency_key)

    def switch_agent(
        self, session_id: str, agent_id: str, *, if_seq: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> MessageAnswer:
        """Give the session another agent. A failure is no error: ``outcome`` of the answer has its ``errorCode``."""
        body = {"type": "switch_agent", "sessionId": session_id, "agentId": agent_id, "ifSeq": if_seq}
        return self._message(body, idempotency_key)

    def played(
        self, session_id: str, message_id: str, up_to: int, *, idempotency_key: Optional[str] = None
    ) -> MessageAnswer:
        """Tell how much of a reply was spoken. A later position replaces an earlier one. The answer comes when it is stored,
        up to a second later, and its ``playedUpTo`` is the position that counts.

        :param up_to: in UTF-16 units of the reply's ``content``: ``utf16_length(content[:spoken])``
        """
        body = {"type": "played", "sessionId": session_id, "messageId": message_id, "upTo": up_to}
        return self._message(body, idempotency_key)

    def heartbeat(self, session_id: str, *, within: Optional[float] = None) -> MessageAnswer:
        """Renew the session's lease. The answer has its ``state``, its ``level``, and ``lapsed`` if the lease ran out.
        ``keep_lease`` sends heartbeats by itself.

        :param within: seconds for all attempts together; default: as for other requests
        """
        body = {"type": "heartbeat", "sessionId": session_id}
        request = Request("POST", ["message"], body=body, within_s=within)
        return cast(MessageAnswer, self._json(request))

    def list_messages(
        self,
        session_id: str,
        *,
        after: Optional[str] = None,
        before: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> MessagePage:
        """A page of a session's messages, oldest first: those after or before a message's id, by default the newest.

        :param limit: 1 to 500; default 100. A page ends earlier at 1 MiB
        """
        query = {"after": after, "before": before, "limit": limit}
        return cast(MessagePage, self._get(["session", session_id, "messages"], query))

    def list_queue(self, session_id: str, *, after: Optional[str] = None) -> QueuePage:
        """The turns that wait, in the order in which they will run.

        :param after: a message's id
        """
        return cast(QueuePage, self._get(["session", session_id, "queue"], {"after": after}))

    def withdraw_message(
        self,
        session_id: str,
        message_id: str,
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> WithdrawnAnswer:
        """Withdraw a turn that waits.

        :raises ClientError: ``illegal_command`` if it has begun
        """
        path = ["session", session_id, "messages", message_id]
        return cast(WithdrawnAnswer, self._write("DELETE", path, {"ifSeq": if_seq}, idempotency_key))

    def resend_message(
        self,
        session_id: str,
        message_id: str,
        *,
        if_seq: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> TurnAnswer:
        """Send a message of the user again, as a new turn."""
        path = ["session", session_id, "messages", message_id, "resend"]
        return cast(TurnAnswer, self._post(path, {"ifSeq": if_seq}, idempotency_key))

    def edit_message(
        self,
        session_id: str,
        message_id: str,
        content: str,
        *,
        images: Optional[Sequence[ImageInput]] = None,
        replace: Optional[bool] = None,
        connection_id: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> TurnAnswer:
        """Send a message of the user with other words, in a copy of the session that ends before it.

        :param images: default: those of the message
        :param replace: archive the session in favour of the copy; default: false
        :raises ClientError: ``rejected`` if the floor is refused: there is no copy
        """
        body = {
            "content": content,
            "images": list(images) if images is not None else None,
            "replace": replace,
            "connectionId": connection_id,
        }
        path = ["session", session_id, "messages", message_id, "edit"]
        return cast(TurnAnswer, self._write("POST", path, body, idempotency_key, is_long=True))

    def list_logs(
        self, session_id: str, message_id: str, *, after: Optional[str] = None, limit: Optional[int] = None
    ) -> LogPage:
        """What an agent's program printed for a message.

        :param limit: 1 to 1,000; default 200
        """
        query = {"after": after, "limit": limit}
        return cast(LogPage, self._get(["session", session_id, "messages", message_id, "logs"], query))

    # Copies

    def fork_session(
        self,
        session_id: str,
        *,
        message_id: Optional[str] = None,
        agent_id: Optional[str] = None,
        connection_id: Optional[str] = None,
        activate: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
    ) -> SessionAnswer:
        """Copy a session, beside it.

        :param message_id: the last message to copy; default: all of them
        :param agent_id: default: the session's
        :param activate: request the floor for the copy; default: false
        """
        body = {
            "messageId": message_id,
            "agentId": agent_id,
            "connectionId": connection_id,
            "activate": activate,
        }
        path = ["session", session_id, "fork"]
        return cast(SessionAnswer, self._write("POST", path, body, idempotency_key, is_long=True))

    def roll_back_session(
        self, session_id: str, *, turns: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> SessionAnswer:
        """Take back the last turns: a copy without them replaces the session, which is archived.

        :param turns: 1 to 1,000; default 1
        :raises ClientError: ``illegal_command`` if the session has fewer turns
        """
        path = ["session", session_id, "rollback"]
        return cast(SessionAnswer, self._write("POST", path, {"turns": turns}, idempotency_key, is_long=True))

    def export_session(self, session_id: str, format: Literal["md", "jsonl"] = "md") -> bytes:
        """The session as a file in UTF-8: Markdown, or lines of JSON for ``import_session``."""
        path = ["session", session_id, "export"]
        return self._bytes(Request("GET", path, query={"format": format}, is_long=True, is_file=True))

    def import_session(
        self,
        lines: Union[str, bytes],
        *,
        agent_id: Optional[str] = None,
        user_id: Optional[str] = None,
        zone: Optional[str] = None,
        workspace_id: Optional[str] = None,
        connection_id: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> ImportedSession:
        """A session with the messages of an exported one.

        :raises ClientError: ``bad_request``, which names the line that is wrong
        """
        query = {
            "agentId": agent_id,
            "userId": user_id,
            "zone": zone,
            "workspaceId": workspace_id,
            "connectionId": connection_id,
        }
        request = Request(
            "POST",
            ["session", "import"],
            query=query,
            content=("application/x-ndjson", to_bytes(lines)),
            idempotency_key=idempotency_key,
            is_long=True,
        )
        return cast(ImportedSession, self._json(request))

    # Floors

    def list_floors(
        self,
        *,
        state: Optional[Literal["held", "waiting", "idle"]] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> FloorPage:
        """The floors that have been used and that the caller may see, by id.

        :param after: the id of the last floor of the previous page
        :param limit: 1 to 1,000; default 100
        """
        return cast(FloorPage, self._get(["floors"], {"state": state, "after": after, "limit": limit}))

    def get_floor(self, floor_id: str) -> FloorView:
        """The floor as it is.

        :param floor_id: the ``floorId`` of a session
        """
        return cast(FloorView, self._get(["floor", floor_id]))

    def read_floor_log(
        self, floor_id: str, *, before: Optional[str] = None, limit: Optional[int] = None
    ) -> FloorLogPage:
        """A floor's events, newest first.

        :param before: a position: only events before it
        :param limit: 1 to 2,000; default 500. A page ends earlier at 4 MiB
        """
        return cast(FloorLogPage, self._get(["floor", floor_id, "log"], {"before": before, "limit": limit}))

    def stop_floor(self, floor_id: str, *, idempotency_key: Optional[str] = None) -> ArchivedAnswer:
        """Archive the holder. The session that it interrupted goes on."""
        return cast(ArchivedAnswer, self._post(["floor", floor_id, "stop"], {}, idempotency_key))

    def stop_all(self, floor_id: str, *, idempotency_key: Optional[str] = None) -> ArchivedAnswer:
        """Archive the holder, the sessions that it interrupted, and those that wait."""
        return cast(ArchivedAnswer, self._post(["floor", floor_id, "stop-all"], {}, idempotency_key))

    def set_flags(
        self, floor_id: str, flags: Mapping[str, bool], *, idempotency_key: Optional[str] = None
    ) -> FlagsAnswer:
        """Replace the floor's whole set of flags; at most 32."""
        return cast(FlagsAnswer, self._write("PUT", ["floor", floor_id, "flags"], flags, idempotency_key))

    def change_flags(
        self, floor_id: str, flags: Mapping[str, bool], *, idempotency_key: Optional[str] = None
    ) -> FlagsAnswer:
        """Change only these flags of the floor."""
        return cast(FlagsAnswer, self._write("PATCH", ["floor", floor_id, "flags"], flags, idempotency_key))

    def what_if(
        self,
        floor_id: str,
        agent_id: Optional[str] = None,
        *,
        content: Optional[str] = None,
        workspace_id: Optional[str] = None,
    ) -> WhatIfAnswer:
        """What the arbiter would decide if a session of this agent requested the floor now. Changes nothing.

        :param content: in place of an agent: a sentence, for the agent that the catalogue's ``routing`` names
        """
        body = {"agentId": agent_id, "content": content, "workspaceId": workspace_id}
        return cast(WhatIfAnswer, self._post(["floor", floor_id, "what-if"], body, None))

    def replay_floor(
        self,
        floor_id: str,
        yaml: Union[str, bytes],
        *,
        last_ms: Optional[int] = None,
        refused_last_ms: Optional[int] = None,
    ) -> ReplayAnswer:
        """What would have happened on the floor with another catalogue. Nothing is written. It may take a minute.

        :param yaml: the text of the catalogue, at most 1 MiB
        :param last_ms: how old the oldest event may be, in ms; default: a day, at most 31
        :param refused_last_ms: how long a session is heard that was refused and is not now, in ms; default 30,000
        :raises ClientError: ``bad_request`` with ``error.faults`` if the catalogue has faults; ``busy``
        """
        request = Request(
            "POST",
            ["floor", floor_id, "replay"],
            query={"lastMs": last_ms, "refusedLastMs": refused_last_ms},
            content=("application/yaml", to_bytes(yaml)),
            is_long=True,
        )
        return cast(ReplayAnswer, self._json(request))

    # The catalogue

    def list_agents(self, *, workspace_id: Optional[str] = None) -> AgentsAnswer:
        """The enabled agents, of the catalogue's file and of a workspace."""
        return cast(AgentsAnswer, self._get(["agents"], {"workspaceId": workspace_id}))

    def create_definition(
        self,
        name: str,
        workspace_id: str,
        settings: DefinitionSettings,
        *,
        idempotency_key: Optional[str] = None,
    ) -> DefinitionAnswer:
        """Define an agent for a workspace. The methods for definitions are for operators.

        :param name: how sessions of the workspace name it
        :param settings: ``basedOn`` is required
        """
        body = {**cast(Mapping[str, Any], settings), "name": name, "workspaceId": workspace_id}
        return cast(DefinitionAnswer, self._post(["agents", "definitions"], body, idempotency_key))

    def list_definitions(
        self, *, workspace_id: Optional[str] = None, after: Optional[str] = None, limit: Optional[int] = None
    ) -> DefinitionPage:
        """A page of definitions, by id.

        :param workspace_id: default: all workspaces
        :param limit: 1 to 200; default 50
        """
        query = {"workspaceId": workspace_id, "after": after, "limit": limit}
        return cast(DefinitionPage, self._get(["agents", "definitions"], query))

    def get_definition(self, definition_id: str) -> DefinitionAnswer:
        """A definition, with its ``fault`` if it is no agent now."""
        return cast(DefinitionAnswer, self._get(["agents", "definitions", definition_id]))

    def change_definition(
        self, definition_id: str, settings: DefinitionSettings, *, idempotency_key: Optional[str] = None
    ) -> DefinitionAnswer:
        """Change settings: those that are left out stay, ``None`` resets one to that of the catalogue's agent."""
        body = {name: NULL if value is None else value for name, value in settings.items()}
        path = ["agents", "definitions", definition_id]
        return cast(DefinitionAnswer, self._write("PATCH", path, body, idempotency_key))

    def delete_definition(
        self, definition_id: str, *, idempotency_key: Optional[str] = None
    ) -> DeletedAnswer:
        """``deleted`` is false if there was none."""
        path = ["agents", "definitions", definition_id]
        return cast(DeletedAnswer, self._write("DELETE", path, {}, idempotency_key))

    def get_matrix(
        self, *, at: Optional[str] = None, user_id: Optional[str] = None, flag: Optional[Sequence[str]] = None
    ) -> MatrixAnswer:
        """Who does what to whom in the catalogue's file, for operators.

        :param at: ``HH:MM``, in the time zone of the first rule with hours; default: the agents' own priorities
        :param flag: the flags that are set
        """
        return cast(MatrixAnswer, self._get(["catalogue", "matrix"], _matrix_query(at, user_id, flag)))

    def compare_catalogue(
        self,
        yaml: Union[str, bytes],
        *,
        at: Optional[str] = None,
        user_id: Optional[str] = None,
        flag: Optional[Sequence[str]] = None,
    ) -> CatalogueDifference:
        """What another catalogue would change, for operators. Nothing is written.

        :raises ClientError: ``bad_request`` with ``error.faults`` if the catalogue has faults
        """
        request = Request(
            "POST",
            ["catalogue", "diff"],
            query=_matrix_query(at, user_id, flag),
            content=("application/yaml", to_bytes(yaml)),
        )
        return cast(CatalogueDifference, self._json(request))

    # Users and nodes

    def forget_user(self, user_id: str, *, idempotency_key: Optional[str] = None) -> ForgottenUser:
        """Delete a user's sessions and all else about it, for operators. ``remains``: what still has data of it."""
        return cast(ForgottenUser, self._write("DELETE", ["user", user_id], {}, idempotency_key, is_long=True))

    def export_user(self, user_id: str) -> bytes:
        """A user's sessions and decisions as lines of JSON, for operators and for the user."""
        return self._bytes(Request("GET", ["user", user_id, "export"], is_long=True, is_file=True))

    def get_health(self) -> Health:
        """Whether the node runs. It answers also when it is not ready."""
        return cast(Health, self._get(["health"]))

    def get_readiness(self) -> Readiness:
        """Whether the node is ready. One that is not answers too, with the reasons."""
        return cast(Readiness, self._json(Request("GET", ["ready"], accepts=503)))

    def get_metrics(self) -> str:
        """Metrics as Prometheus text."""
        return (self._bytes(Request("GET", ["metrics"]))).decode("utf-8", "replace")

    def list_nodes(self) -> NodeList:
        """What every node does, for operators."""
        return cast(NodeList, self._get(["nodes"]))

    def get_open_api(self) -> Dict[str, Any]:
        """The API as an OpenAPI document."""
        return cast(Dict[str, Any], self._get(["openapi.json"]))

    def list_usage(
        self,
        *,
        owner_id: Optional[str] = None,
        agent_id: Optional[str] = None,
        first_day: Optional[str] = None,
        last_day: Optional[str] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> UsagePage:
        """What turns used by day, owner and agent: of all owners for operators, else of the caller.

        :param owner_id: for operators; default: all owners
        :param first_day: of UTC, such as ``2026-11-28``
        :param last_day: the same
        :param after: ``next`` of the previous page
        :param limit: 1 to 1,000; default 100
        """
        query = {
            "ownerId": owner_id,
            "agentId": agent_id,
            "from": first_day,
            "to": last_day,
            "after": after,
            "limit": limit,
        }
        return cast(UsagePage, self._get(["usage"], query))

    def list_runs(
        self,
        *,
        state: Optional[str] = None,
        agent_id: Optional[str] = None,
        user_id: Optional[str] = None,
        min_age_ms: Optional[int] = None,
        max_age_ms: Optional[int] = None,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> RunPage:
        """A page of the runs that have not ended, or that failed: of all sessions for operators, else of the caller's.

        :param state: default: all but ``failed``
        :param min_age_ms: only runs at least so old, in ms
        :param max_age_ms: only runs at most so old, in ms
        :param after: ``next`` of the previous page
        :param limit: 1 to 500; default 100
        """
        query = {
            "state": state,
            "agentId": agent_id,
            "userId": user_id,
            "minAgeMs": min_age_ms,
            "maxAgeMs": max_age_ms,
            "after": after,
            "limit": limit,
        }
        return cast(RunPage, self._get(["runs"], query))

    def cancel_run(self, run_id: str, *, idempotency_key: Optional[str] = None) -> CancelledRun:
        """End a run that has not ended.

        :raises ClientError: ``not_found`` if it has, or is unknown
        """
        return cast(CancelledRun, self._post(["runs", run_id, "cancel"], {}, idempotency_key))

    def list_webhooks(self) -> WebhookList:
        """The webhooks of the node's file, and what waits for their receivers, for operators."""
        return cast(WebhookList, self._get(["webhooks"]))

    def test_webhook(self, name: str, *, idempotency_key: Optional[str] = None) -> WebhookAnswer:
        """Send a test to a webhook's receiver, once and at once, for operators."""
        path = ["webhooks", name, "test"]
        return cast(WebhookAnswer, self._write("POST", path, {}, idempotency_key, is_long=True))

    def enable_webhook(self, name: str, *, idempotency_key: Optional[str] = None) -> EnabledWebhook:
        """Send to a webhook's receiver again that answered 410, what waits first. For operators."""
        path = ["webhooks", name, "enable"]
        return cast(EnabledWebhook, self._write("POST", path, {}, idempotency_key))

    # Streams

    def open_session(
        self,
        session_id: str,
        *,
        position: Optional[str] = None,
        on_status: Optional[OnStatus] = None,
        on_position: Optional[OnPosition] = None,
    ) -> EventStream[SessionStreamEvent]:
        """The events of one session. Ends when the session is archived or deleted.

        :param position: where to go on, from a stream or an answer; default: from the first event
        :param on_status: called when the stream connects, is open, or waits
        :param on_position: called with each position, before its event is given
        """
        path = ["session", session_id, "events"]
        return self._open(path, {}, {}, position, on_status, on_position)

    def open_floor(
        self,
        floor_id: str,
        *,
        position: Optional[str] = None,
        on_status: Optional[OnStatus] = None,
        on_position: Optional[OnPosition] = None,
    ) -> EventStream[FloorStreamEvent]:
        """The decisions of a floor, and the transitions of all its sessions. Parameters: as of ``open_session``.

        ``on_position`` is also called with the position after events that this stream does not carry, such as messages.
        """
        path = ["floor", floor_id, "events"]
        return self._open(path, {}, {}, position, on_status, on_position)

    def open_floors(self, *, on_status: Optional[OnStatus] = None) -> EventStream[FloorsStreamEvent]:
        """All floors that the caller may see: a ``reset``, then a ``floor`` for each one in use, then one for each change.
        After any ``reset`` the reader forgets the floors that it knew. It has no position."""
        return self._open(["floors", "events"], {}, {}, None, on_status, None)

    def open_connection(
        self,
        *,
        session_ids: Optional[Sequence[str]] = None,
        user_id: Optional[str] = None,
        zone: Optional[str] = None,
        position: Optional[str] = None,
        on_status: Optional[OnStatus] = None,
        on_position: Optional[OnPosition] = None,
    ) -> EventStream[ConnectionStreamEvent]:
        """A connection: the events of all sessions that are bound to it.

        :param session_ids: sessions to bind when the stream opens, at most 64; default: none
        :param user_id: a default for sessions that are created through this connection
        :param zone: the same; needs a ``user_id``
        """
        query = {"userId": user_id, "zone": zone}
        first = {"sessionId": list(session_ids) if session_ids is not None else None}
        return self._open(["events"], query, first, position, on_status, on_position)

    # Leases

    def keep_lease(
        self, session: Session, *, on_lapsed: Optional[Callable[[str], object]] = None
    ) -> Lease:
        """Renew the session's lease in the background, about three times in its length, until the lease is stopped or the
        session is archived. Does nothing for a session without a lease.

        For the program that makes the session's sound: an observer must not keep another program's session alive. Call
        ``note`` of the lease with the session whenever an answer has it.

        :param on_lapsed: called once when the session has lost its place, because no heartbeat came in time, with a sentence
            that says which request brings it back. The heartbeats go on, so that it keeps its place from that request on
        """
        return Lease(self, session, on_lapsed)

    # Requests

    def _get(self, path: Sequence[str], query: Optional[Mapping[str, Any]] = None) -> Any:
        return self._json(Request("GET", path, query=query or {}))

    def _post(self, path: Sequence[str], body: Mapping[str, Any], key: Optional[str]) -> Any:
        return self._write("POST", path, body, key)

    def _write(
        self, method: str, path: Sequence[str], body: Mapping[str, Any], key: Optional[str], *, is_long: bool = False
    ) -> Any:
        return self._json(Request(method, path, body=body, idempotency_key=key, is_long=is_long))

    def _command(
        self, session_id: str, name: str, body: Mapping[str, Any], if_seq: Optional[int], key: Optional[str]
    ) -> SessionAnswer:
        answer = self._post(["session", session_id, name], {**body, "ifSeq": if_seq}, key)
        return cast(SessionAnswer, answer)

    def _message(self, body: Mapping[str, Any], key: Optional[str]) -> MessageAnswer:
        return cast(MessageAnswer, self._post(["message"], body, key))

    def _json(self, request: Request) -> Any:
        body = parse_json(self._bytes(request))
        if not isinstance(body, dict):
            raise unexpected_answer(200)
        return body

    def _bytes(self, request: Request) -> bytes:
        """Send a request, and repeat it with its key while its failure may pass."""
        exchange = Exchange(self._settings, request, time.monotonic())
        while True:
            try:
                attempt = exchange.attempt(own_headers(self._headers), time.monotonic())
                answer = self._transport.exchange(attempt, self._settings.origin)
                if exchange.is_success(answer.status):
                    return answer.content
                raise failure_of(answer.status, answer.retry_after, answer.content)
            except ClientError as failure:
                wait_s = exchange.wait_after(failure, time.monotonic())
            self._transport.sleep(wait_s)

    def _open(
        self,
        path: List[str],
        query: Mapping[str, Any],
        first_query: Mapping[str, Any],
        position: Optional[str],
        on_status: Optional[OnStatus],
        on_position: Optional[OnPosition],
    ) -> EventStream[Any]:
        def url_at(at: Optional[str]) -> str:
            return url_of(self._settings, path, {**query, **(first_query if at is None else {"lastEventId": at})})

        url_at(position)
        stream: EventStream[Any] = EventStream(
            self._transport, self._settings, self._headers, url_at, position, on_status, on_position
        )
        self._streams[id(stream)] = stream
        return stream


def _matrix_query(at: Optional[str], user_id: Optional[str], flag: Optional[Sequence[str]]) -> Dict[str, Any]:
    return {"at": at, "userId": user_id, "flag": list(flag) if flag is not None else None}
