# Written from /openapi.json by `npm run build:python`. Change the schemas, not this file.
"""What the server answers and sends, as the JSON has it.

Times are in milliseconds since 1970, except the ``timestamp`` of an event, which is an ISO date. A key that is not
required is absent if it has no value. A newer server may send keys and words that are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired
else:
    try:
        from typing import NotRequired
    except ImportError:  # Python before 3.11
        NotRequired = Optional

ErrorCode = Literal[
    "bad_request",
    "unauthorized",
    "forbidden",
    "session_not_found",
    "not_found",
    "method_not_allowed",
    "not_acceptable",
    "rejected",
    "session_archived",
    "agent_busy",
    "budget_exhausted",
    "illegal_command",
    "idempotency_mismatch",
    "stale",
    "invalid_agent_id",
    "invalid_agent_id_format",
    "agent_not_found",
    "interaction_not_found",
    "interaction_timeout",
    "connection_not_found",
    "too_large",
    "too_many_requests",
    "too_many_bindings",
    "too_many_schedules",
    "busy",
    "unavailable",
    "provider_rate_limited",
    "provider_unreachable",
    "provider_refused",
    "run_lost",
    "internal",
]

SessionState = Literal[
    "created",
    "active",
    "ducked",
    "paused",
    "archived",
]

Activity = Literal[
    "idle",
    "running",
    "waiting",
    "failed",
]

TransitionState = Literal[
    "created",
    "active.idle",
    "active.running",
    "active.waiting",
    "active.failed",
    "ducked.idle",
    "ducked.running",
    "ducked.waiting",
    "ducked.failed",
    "paused",
    "archived",
    "deleted",
]


class Problem(TypedDict):
    success: Literal[False]
    errorCode: ErrorCode
    error: str
    retryable: bool
    traceId: str
    issues: NotRequired[List[ProblemIssuesItem]]
    faults: NotRequired[List[CatalogFault]]
    """the faults of a catalogue, from its top."""
    decision: NotRequired[Decision]
    routed: NotRequired[Routed]
    """of a sentence that named no agent: which agent was to hear it."""
    allowed: NotRequired[List[str]]
    availableAgents: NotRequired[List[AgentInfo]]
    session: NotRequired[Session]
    """with `stale`: the session as it is."""
    replacedBy: NotRequired[str]
    """with `session_archived`: the session in which it goes on."""
    seq: NotRequired[float]
    """with `stale`: of its newest event."""
    commandId: NotRequired[str]
    retryAfterMs: NotRequired[float]
    zones: NotRequired[List[ZoneAnswer]]
    """of a request for all zones: what each floor decided."""
    budget: NotRequired[SpentBudget]
    """with `budget_exhausted`."""


class ProblemIssuesItem(TypedDict):
    path: str
    message: str


class CatalogFault(TypedDict):
    line: float
    column: float
    path: str
    message: str


class Decision(TypedDict):
    outcome: Literal["granted", "rejected", "queued"]
    reason: Literal["floor_free", "already_holder", "preempted", "resumed", "dequeued", "unknown_agent", "agent_disabled", "lower_priority", "equal_priority", "not_interruptible", "stack_full", "queue_full", "queue_timeout", "lease_expired", "restricted", "critical", "replaced", "beneath"]
    rule: NotRequired[int]
    challenger: DecisionChallenger
    holder: NotRequired[DecisionHolder]
    wouldNeed: NotRequired[str]
    level: NotRequired[float]
    """dB below its own volume at which the challenger is heard."""
    effects: NotRequired[List[DecisionEffectsItem]]
    """what happens to other sessions, in this order."""
    say: str
    """a sentence fit to be spoken."""


class DecisionChallenger(TypedDict):
    sessionId: NotRequired[str]
    agentId: str
    priority: float
    explained: List[DecisionChallengerExplainedItem]


class DecisionChallengerExplainedItem(TypedDict):
    step: str
    """`agent`, `override`, `rule:<name>` or `clamp`."""
    adjust: NotRequired[float]
    value: float


class DecisionHolder(TypedDict):
    sessionId: str
    agentId: str
    priority: float
    interruptible: bool


class DecisionEffectsItem(TypedDict):
    sessionId: str
    agentId: str
    becomes: Literal["active", "ducked", "paused", "archived"]
    level: NotRequired[float]


class Routed(TypedDict):
    agent: NotRequired[str]
    """absent: the sentence is ignored."""
    by: Literal["says", "continues", "ask", "agent", "default"]
    row: NotRequired[int]
    """the row of `routing`, from 1; absent with `default`."""
    ignored: NotRequired[Literal[True]]
    alternatives: List[str]
    """agents of later rows whose patterns fit the sentence too."""
    passed: NotRequired[List[RoutedPassedItem]]
    """rows before it that fit, and why they did not decide."""
    groups: NotRequired[Dict[str, str]]
    """the named groups of the pattern that fits."""
    asked: NotRequired[List[RoutedAskedItem]]
    """router agents whose answers cost tokens, which count as those of turns do."""
    took: float
    """in ms."""


class RoutedPassedItem(TypedDict):
    row: int
    why: Literal["not_usable", "late", "failed", "too_much", "unknown"]


class RoutedAskedItem(TypedDict):
    agent: str
    usage: Usage


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cache_creation_input_tokens: NotRequired[int]
    cache_read_input_tokens: NotRequired[int]


class AgentInfo(TypedDict):
    id: str
    name: str
    description: str


class Session(TypedDict):
    id: str
    title: str
    summary: NotRequired[str]
    """one line: what it is about, or the newest reply's beginning."""
    summaryId: NotRequired[str]
    """the message with the newest summary."""
    agentId: str
    mode: NotRequired[str]
    """a mode of the agent; default: its first."""
    userId: NotRequired[str]
    zone: NotRequired[str]
    locale: NotRequired[str]
    """the language in which decisions about it are said."""
    ownerId: NotRequired[str]
    floorId: str
    workspaceId: NotRequired[str]
    origin: NotRequired[Origin]
    schedule: NotRequired[Schedule]
    """of a session that waits for its time."""
    group: NotRequired[Group]
    """of a request for all zones: its sessions, one for each floor."""
    endsWithTurn: NotRequired[Literal[True]]
    """it is archived with its turn, whatever its agent's `after_turn` says: a door made it for one request."""
    series: NotRequired[str]
    """the session of the series that it is an occurrence of."""
    state: SessionState
    activity: Activity
    failure: NotRequired[Failure]
    pausedBy: NotRequired[Literal["preemption", "user", "yield"]]
    level: NotRequired[float]
    """of a ducked session: dB below its own volume, -60 to 0."""
    queuedAt: NotRequired[float]
    leaseMs: NotRequired[float]
    """while its participant must send heartbeats: the longest interval between them, in ms."""
    leaseUntil: NotRequired[float]
    """the earliest time at which it loses its place without a further heartbeat."""
    priority: float
    interruptible: bool
    createdAt: float
    updatedAt: float
    lastActivityAt: float
    archivedAt: NotRequired[float]
    replacedBy: NotRequired[str]
    """the session in which it goes on: a copy that replaces it, or the one to which it moved."""
    played: NotRequired[Played]
    """of the newest turn's reply, if it is spoken."""
    messageCount: int
    tokenUsage: SessionTokenUsage
    agentSessions: Dict[str, str]
    """the provider's own session id, per agent."""


class Origin(TypedDict):
    by: Literal["fork", "edit", "rollback", "import", "move"]
    sessionId: NotRequired[str]
    """the session whose messages were copied."""
    messageId: NotRequired[str]
    """the last message that was copied; absent if there was none."""


class Schedule(TypedDict):
    at: float
    """the instant at which it asks, ms since 1970; of a series: the next one."""
    every: NotRequired[str]
    """of a series: the cron expression of its times."""
    timezone: NotRequired[str]
    """of a series: the IANA time zone of its times."""
    content: NotRequired[str]
    """the message with which it asks."""


class Group(TypedDict):
    id: str
    sessions: List[GroupSessionsItem]


class GroupSessionsItem(TypedDict):
    sessionId: str
    zone: NotRequired[str]


class Failure(TypedDict):
    errorCode: ErrorCode
    message: str
    runId: str
    retryAt: NotRequired[float]
    """when a provider allows another request, ms since 1970."""
    at: NotRequired[float]
    """when it failed, ms since 1970; absent: with an earlier release."""


class Played(TypedDict):
    messageId: str
    upTo: int
    """how much of its content was spoken, in UTF-16 units."""


class SessionTokenUsage(TypedDict):
    used: int
    breakdown: SessionTokenUsageBreakdown


class SessionTokenUsageBreakdown(TypedDict):
    input: int
    output: int
    cacheRead: int
    cacheCreation: int


class ZoneAnswer(TypedDict):
    zone: NotRequired[str]
    """absent: the user's floor without a zone."""
    floorId: str
    sessionId: NotRequired[str]
    """absent: the floor refused it."""
    decision: NotRequired[Decision]
    errorCode: NotRequired[ErrorCode]
    error: NotRequired[str]


class SpentBudget(TypedDict):
    per: Literal["owner", "agent"]
    agentId: NotRequired[str]
    """of a budget of one agent."""
    runs: NotRequired[float]
    """how many turns may begin in it, if that is used up."""
    tokens: NotRequired[float]
    """how many tokens may be used in it, if they are."""
    withinMs: float
    freeAt: float
    """ms since 1970."""


class SessionCreatedEvent(TypedDict):
    type: Literal["session_created"]
    data: Session
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class SessionTransitionEvent(TypedDict):
    type: Literal["session_transition"]
    data: SessionTransitionEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


SessionTransitionEventData = TypedDict(
    "SessionTransitionEventData",
    {
        "from": "TransitionState",
        "to": "TransitionState",
        "event": "Literal['activate', 'preempt', 'duck', 'resume', 'pause', 'yield', 'turn', 'ask', 'answer', 'done', 'fail', 'abort', 'archive', 'expire', 'delete']",
        # a change that `from` and `to` do not show: that of a paused session.
        "activity": "NotRequired[SessionTransitionEventDataActivity]",
        "reason": "NotRequired[str]",
        "by": "NotRequired[SessionTransitionEventDataBy]",
        # of a session that was moved: the floor where `by` goes on.
        "movedTo": "NotRequired[str]",
        "runId": "NotRequired[str]",
        "level": "NotRequired[float]",
        # of a session that is heard again: where its spoken reply goes on.
        "played": "NotRequired[Played]",
    },
)


SessionTransitionEventDataActivity = TypedDict(
    "SessionTransitionEventDataActivity",
    {
        "from": "Activity",
        "to": "Activity",
    },
)


class SessionTransitionEventDataBy(TypedDict):
    sessionId: str
    agentId: str


class SessionUpdatedEvent(TypedDict):
    type: Literal["session_updated"]
    data: SessionUpdatedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class SessionUpdatedEventData(TypedDict):
    title: NotRequired[str]
    mode: NotRequired[str]
    """a mode of the agent; default: its first."""
    summary: NotRequired[str]
    summaryId: NotRequired[str]
    summaryContinues: NotRequired[Literal[True]]
    summaryFailure: NotRequired[SummaryFailure]
    tokenUsage: NotRequired[SessionTokenUsage]
    agentSessions: NotRequired[Dict[str, str]]
    played: NotRequired[Played]
    schedule: NotRequired[Schedule]
    fired: NotRequired[Fired]


class SummaryFailure(TypedDict):
    errorCode: NotRequired[ErrorCode]
    """absent if there was nothing to summarise."""
    message: str
    retryAt: NotRequired[float]
    """when it is tried again, ms since 1970; absent: not again."""


class Fired(TypedDict):
    at: float
    """the time that has come, ms since 1970."""
    lateMs: float
    """how much later the floor learnt of it, in ms."""
    sessionId: NotRequired[str]
    """of a series: the session that asks."""


class ArbitrationEvent(TypedDict):
    type: Literal["arbitration"]
    data: Decision
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class RoutedEvent(TypedDict):
    type: Literal["routed"]
    data: Routed
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class AgentSwitchedEvent(TypedDict):
    type: Literal["agent_switched"]
    data: AgentSwitchedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class AgentSwitchedEventData(TypedDict):
    previousAgentId: str
    currentAgentId: str
    agentName: str


class MessageEvent(TypedDict):
    type: Literal["message"]
    data: MessageEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class MessageEventData(TypedDict):
    id: str
    sessionId: str
    role: Literal["user", "assistant", "system", "tool"]
    content: str
    images: NotRequired[List[ImageRef]]
    parts: NotRequired[List[Dict[str, Any]]]
    status: Literal["queued", "running", "success", "error", "interrupted"]
    agent: NotRequired[AgentRef]
    runId: NotRequired[str]
    output: NotRequired[str]
    finishReason: NotRequired[Literal["length", "content_filter", "empty", "incomplete"]]
    nativeFinishReason: NotRequired[str]
    errorCode: NotRequired[ErrorCode]
    errorMessage: NotRequired[str]
    usage: NotRequired[Usage]
    summary: NotRequired[MessageEventDataSummary]
    """of a summary: the last message that it covers."""
    playedUpTo: NotRequired[int]
    """of a spoken reply: how much of it was spoken, in UTF-16 units."""
    createdAt: float
    startedAt: NotRequired[float]
    finishedAt: NotRequired[float]
    streaming: bool


class ImageRef(TypedDict):
    hash: str
    mimeType: str
    bytes: int


class AgentRef(TypedDict):
    kind: Literal["master", "sub"]
    name: str
    depth: int
    path: List[str]
    calls: NotRequired[List[str]]


class MessageEventDataSummary(TypedDict):
    """of a summary: the last message that it covers."""
    upTo: str


class ToolCallEvent(TypedDict):
    type: Literal["tool_call"]
    data: ToolCallEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ToolCallEventData(TypedDict):
    toolCallId: str
    function: ToolCallEventDataFunction
    agent: AgentRef


class ToolCallEventDataFunction(TypedDict):
    name: str
    arguments: str


class ToolResultEvent(TypedDict):
    type: Literal["tool_result"]
    data: ToolResultEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ToolResultEventData(TypedDict):
    toolCallId: str
    toolName: str
    content: str
    status: Literal["success", "error"]
    agent: AgentRef


class ToolConfirmationRequestEvent(TypedDict):
    type: Literal["tool_confirmation_request"]
    data: ToolConfirmationRequestEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ToolConfirmationRequestEventData(TypedDict):
    toolCall: ToolCall
    isSensitive: bool
    availableOptions: List[ToolConfirmationRequestEventDataAvailableOptionsItem]
    expiresAt: NotRequired[float]
    """when it runs out, ms since 1970."""
    audibleMs: NotRequired[float]
    """instead of expiresAt: how long it waits while it is heard, in ms."""


class ToolCall(TypedDict):
    toolCallId: str
    function: ToolCallEventDataFunction


class ToolConfirmationRequestEventDataAvailableOptionsItem(TypedDict):
    value: str
    label: str


class UserQuestionRequestEvent(TypedDict):
    type: Literal["user_question_request"]
    data: UserQuestionRequestEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class UserQuestionRequestEventData(TypedDict):
    question: str
    options: List[str]
    multiSelect: NotRequired[bool]
    expiresAt: NotRequired[float]
    """when it runs out, ms since 1970."""
    audibleMs: NotRequired[float]
    """instead of expiresAt: how long it waits while it is heard, in ms."""


class InteractionResolvedEvent(TypedDict):
    type: Literal["interaction_resolved"]
    data: InteractionResolvedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class InteractionResolvedEventData(TypedDict):
    by: Literal["client", "timeout", "abort", "agent"]


class UsageEvent(TypedDict):
    type: Literal["usage"]
    data: UsageEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class UsageEventData(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cache_creation_input_tokens: NotRequired[int]
    cache_read_input_tokens: NotRequired[int]
    agent: NotRequired[AgentRef]


class ErrorEvent(TypedDict):
    type: Literal["error"]
    data: ErrorEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ErrorEventData(TypedDict):
    errorCode: ErrorCode
    message: str
    availableAgents: NotRequired[List[AgentInfo]]
    runId: NotRequired[str]
    retryAfterMs: NotRequired[float]


class CompleteEvent(TypedDict):
    type: Literal["complete"]
    data: CompleteEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class CompleteEventData(TypedDict):
    sessionId: str
    runId: str
    usage: Usage
    tokenCount: int
    cancelled: NotRequired[Literal[True]]
    withdrawn: NotRequired[Literal[True]]
    """the turn was taken back before it began, and its message is deleted."""


class DataEvent(TypedDict):
    type: Literal["data"]
    data: DataEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class DataEventData(TypedDict):
    name: str
    data: Any
    agent: AgentRef


class DeltaEvent(TypedDict):
    type: Literal["delta"]
    data: DeltaEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class DeltaEventData(TypedDict):
    messageId: str
    runId: str
    attempt: int
    kind: Literal["text", "reasoning"]
    offset: int
    text: str
    agent: AgentRef
    after: NotRequired[str]
    """in the first piece of a message: the newest tool call of its agent before it."""


class LogEvent(TypedDict):
    type: Literal["log"]
    data: LogEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LogEventData(TypedDict):
    messageId: str
    runId: str
    lines: List[LogLine]


class LogLine(TypedDict):
    id: str
    stream: Literal["stdout", "stderr"]
    text: str
    timestamp: float


class RollbackResultEvent(TypedDict):
    type: Literal["rollback_result"]
    data: RollbackResultEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class RollbackResultEventData(TypedDict):
    success: bool
    sessionId: NotRequired[str]
    """the copy that replaces the session; of a failure: the session."""
    error: NotRequired[str]


class ResetEvent(TypedDict):
    type: Literal["reset"]
    data: ResetEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


ResetEventData = TypedDict(
    "ResetEventData",
    {
        "sessionId": "NotRequired[str]",
        "from": "NotRequired[int]",
    },
)


class ByeEvent(TypedDict):
    type: Literal["bye"]
    data: ByeEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ByeEventData(TypedDict):
    reason: Literal["ended", "draining", "overloaded", "token_expired"]
    reconnectInMs: NotRequired[int]


class FloorUpdatedEvent(TypedDict):
    type: Literal["floor_updated"]
    data: FloorUpdatedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class FloorUpdatedEventData(TypedDict):
    flags: Dict[str, bool]
    reserved: NotRequired[Reservation]
    restrictedBy: NotRequired[List[str]]
    """the restrictions that the flags and the time switch on; present if the catalogue has any."""
    catalogue: NotRequired[FloorUpdatedEventDataCatalogue]
    """by which catalogue the floor decides from now on, and by which it did, as hashes."""


class Reservation(TypedDict):
    sessionId: str
    until: float
    """ms since 1970."""


class FloorUpdatedEventDataCatalogue(TypedDict):
    """by which catalogue the floor decides from now on, and by which it did, as hashes."""
    hash: str
    former: str


class FloorEvent(TypedDict):
    type: Literal["floor"]
    data: FloorSummary
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class FloorSummary(TypedDict):
    floorId: str
    state: Literal["held", "waiting", "idle"]
    holder: NotRequired[SessionTransitionEventDataBy]
    reserved: NotRequired[Reservation]
    ducked: NotRequired[int]
    """how many are heard beneath the holder; absent for none."""
    paused: int
    """how many are paused on it."""
    queued: int
    """how many wait in its queue."""
    flags: Dict[str, bool]
    position: str
    """a position from which the floor's stream can be opened."""


class ConnectedEvent(TypedDict):
    type: Literal["connected"]
    data: ConnectedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ConnectedEventData(TypedDict):
    connectionId: str


class AgentListEvent(TypedDict):
    type: Literal["agent_list"]
    data: AgentListEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class AgentListEventData(TypedDict):
    agents: List[AgentInfo]
    currentAgentId: str


class CreatedSession(TypedDict):
    success: Literal[True]
    session: Session
    decision: NotRequired[Decision]
    position: NotRequired[str]
    notice: NotRequired[str]
    """what the request may not have meant, or what its effect waits for."""
    zones: NotRequired[List[ZoneAnswer]]
    """with the zone `*`: what each floor decided; `session` is the first that exists."""


class LoadedSession(TypedDict):
    success: Literal[True]
    session: LoadedSessionSession
    position: str


class LoadedSessionSession(TypedDict):
    id: str
    title: str
    summary: NotRequired[str]
    """one line: what it is about, or the newest reply's beginning."""
    summaryId: NotRequired[str]
    """the message with the newest summary."""
    agentId: str
    mode: NotRequired[str]
    """a mode of the agent; default: its first."""
    userId: NotRequired[str]
    zone: NotRequired[str]
    locale: NotRequired[str]
    """the language in which decisions about it are said."""
    ownerId: NotRequired[str]
    floorId: str
    workspaceId: NotRequired[str]
    origin: NotRequired[Origin]
    schedule: NotRequired[Schedule]
    group: NotRequired[Group]
    endsWithTurn: NotRequired[Literal[True]]
    """it is archived with its turn, whatever its agent's `after_turn` says: a door made it for one request."""
    series: NotRequired[str]
    """the session of the series that it is an occurrence of."""
    state: SessionState
    activity: Activity
    failure: NotRequired[Failure]
    pausedBy: NotRequired[Literal["preemption", "user", "yield"]]
    level: NotRequired[float]
    """of a ducked session: dB below its own volume, -60 to 0."""
    queuedAt: NotRequired[float]
    leaseMs: NotRequired[float]
    """while its participant must send heartbeats: the longest interval between them, in ms."""
    leaseUntil: NotRequired[float]
    """the earliest time at which it loses its place without a further heartbeat."""
    priority: float
    interruptible: bool
    createdAt: float
    updatedAt: float
    lastActivityAt: float
    archivedAt: NotRequired[float]
    replacedBy: NotRequired[str]
    """the session in which it goes on: a copy that replaces it, or the one to which it moved."""
    played: NotRequired[Played]
    messageCount: int
    tokenUsage: SessionTokenUsage
    agentSessions: Dict[str, str]
    """the provider's own session id, per agent."""
    messages: List[Message]
    hasMore: bool


class Message(TypedDict):
    id: str
    sessionId: str
    role: Literal["user", "assistant", "system", "tool"]
    content: str
    images: NotRequired[List[ImageRef]]
    parts: NotRequired[List[Dict[str, Any]]]
    status: Literal["queued", "running", "success", "error", "interrupted"]
    agent: NotRequired[AgentRef]
    runId: NotRequired[str]
    output: NotRequired[str]
    finishReason: NotRequired[Literal["length", "content_filter", "empty", "incomplete"]]
    nativeFinishReason: NotRequired[str]
    errorCode: NotRequired[ErrorCode]
    errorMessage: NotRequired[str]
    usage: NotRequired[Usage]
    summary: NotRequired[MessageEventDataSummary]
    """of a summary: the last message that it covers."""
    playedUpTo: NotRequired[int]
    """of a spoken reply: how much of it was spoken, in UTF-16 units."""
    createdAt: float
    startedAt: NotRequired[float]
    finishedAt: NotRequired[float]


class SessionPage(TypedDict):
    success: Literal[True]
    page: float
    pageSize: float
    total: float
    hasMore: bool
    sessions: List[Session]


class SessionAnswer(TypedDict):
    success: Literal[True]
    session: Session
    decision: NotRequired[Decision]
    position: NotRequired[str]


class DeletedAnswer(TypedDict):
    success: Literal[True]
    deleted: bool


class MessagePage(TypedDict):
    success: Literal[True]
    messages: List[Message]
    hasMore: bool
    position: str


class QueuePage(TypedDict):
    success: Literal[True]
    messages: List[Message]
    hasMore: bool


class WithdrawnAnswer(TypedDict):
    success: Literal[True]
    deleted: Literal[True]


class LogPage(TypedDict):
    success: Literal[True]
    logs: List[LogLine]
    hasMore: bool


class ForgottenUser(TypedDict):
    success: Literal[True]
    sessions: int
    remains: List[str]


class FloorView(TypedDict):
    success: Literal[True]
    floorId: str
    holder: Optional[Session]
    ducked: NotRequired[List[Session]]
    """sessions heard alongside the holder, highest priority first; present if the catalogue uses ducking."""
    paused: List[Session]
    queued: List[Session]
    reserved: NotRequired[Reservation]
    restrictedBy: NotRequired[List[str]]
    """the restrictions that the flags and the time switch on; present if the catalogue has any."""
    flags: Dict[str, bool]
    decisions: List[Decision]
    position: str


class FloorPage(TypedDict):
    success: Literal[True]
    floors: List[FloorSummary]
    hasMore: bool


class FloorLogPage(TypedDict):
    success: Literal[True]
    events: List[LoggedEvent]
    """newest first."""
    hasMore: bool
    position: str


class LoggedSessionCreatedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["session_created"]
    data: Session
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedSessionTransitionEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["session_transition"]
    data: SessionTransitionEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedSessionUpdatedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["session_updated"]
    data: SessionUpdatedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedArbitrationEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["arbitration"]
    data: Decision
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedRoutedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["routed"]
    data: Routed
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedAgentSwitchedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["agent_switched"]
    data: AgentSwitchedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedMessageEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["message"]
    data: MessageEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedToolCallEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["tool_call"]
    data: ToolCallEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedToolResultEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["tool_result"]
    data: ToolResultEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedToolConfirmationRequestEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["tool_confirmation_request"]
    data: ToolConfirmationRequestEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedUserQuestionRequestEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["user_question_request"]
    data: UserQuestionRequestEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedInteractionResolvedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["interaction_resolved"]
    data: InteractionResolvedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedUsageEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["usage"]
    data: UsageEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedErrorEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["error"]
    data: ErrorEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedCompleteEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["complete"]
    data: CompleteEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedDataEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["data"]
    data: DataEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class LoggedFloorUpdatedEvent(TypedDict):
    position: str
    """its place in the floor's log."""
    type: Literal["floor_updated"]
    data: FloorUpdatedEventData
    timestamp: str
    """when it happened."""
    sessionId: NotRequired[str]
    seq: NotRequired[int]
    """its number in the session's log; absent for events that are not logged."""
    requestId: NotRequired[str]
    """the interaction that the event belongs to."""


class ArchivedAnswer(TypedDict):
    success: Literal[True]
    archived: List[str]


class FlagsAnswer(TypedDict):
    success: Literal[True]
    flags: Dict[str, bool]


class WhatIfAnswer(TypedDict):
    success: Literal[True]
    decision: NotRequired[Decision]
    routed: NotRequired[Routed]
    refused: NotRequired[WhatIfAnswerRefused]
    """the failure that the request would get, if not by a decision."""
    sessionId: NotRequired[str]
    """the session that the sentence goes on in."""


class WhatIfAnswerRefused(TypedDict):
    """the failure that the request would get, if not by a decision."""
    errorCode: ErrorCode
    error: str
    retryable: bool
    issues: NotRequired[List[ProblemIssuesItem]]
    faults: NotRequired[List[CatalogFault]]
    """the faults of a catalogue, from its top."""
    decision: NotRequired[Decision]
    routed: NotRequired[Routed]
    allowed: NotRequired[List[str]]
    availableAgents: NotRequired[List[AgentInfo]]
    session: NotRequired[Session]
    replacedBy: NotRequired[str]
    """with `session_archived`: the session in which it goes on."""
    seq: NotRequired[float]
    """with `stale`: of its newest event."""
    commandId: NotRequired[str]
    retryAfterMs: NotRequired[float]
    zones: NotRequired[List[ZoneAnswer]]
    """of a request for all zones: what each floor decided."""
    budget: NotRequired[SpentBudget]


ReplayAnswer = TypedDict(
    "ReplayAnswer",
    {
        # of the catalogue in the body.
        "hash": "str",
        # the first event that was played; absent if there is none.
        "from": "NotRequired[float]",
        # ms since 1970.
        "to": "NotRequired[float]",
        # how many requests the log has.
        "requests": "int",
        # how often another catalogue came into force.
        "reloads": "int",
        # sessions that did not take part, because the log does not name their agents.
        "unknown": "int",
        # older events of the time were left out.
        "hasMore": "bool",
        # how many differences there are; the first 1,000 are listed.
        "differing": "int",
        "differences": "List[ReplayAnswerDifferencesItem]",
        "agents": "List[ReplayAnswerAgentsItem]",
        "success": "Literal[True]",
        # what shows the floor over time in the log, the oldest first.
        "before": "List[LoggedEvent]",
        # the same with the other catalogue.
        "after": "List[LoggedEvent]",
    },
)


class ReplayAnswerDifferencesItem(TypedDict):
    at: float
    """ms since 1970."""
    agentId: str
    sessionId: str
    before: str
    """what the log says: a decision, or what became of the session."""
    after: str


class ReplayAnswerAgentsItem(TypedDict):
    agentId: str
    before: AgentTally
    after: AgentTally


class AgentTally(TypedDict):
    requests: int
    """requests for the floor that were decided."""
    granted: int
    rejected: int
    queued: int
    refusedBy: Dict[str, int]
    """how often each reason refused a request, or ended a wait."""
    waitedMs: float
    """in the queue, before the first sound."""
    frontMs: float
    """audible in front."""
    beneathMs: float
    """audible beneath another session."""
    silentMs: float
    """silent after the first sound of a session, until its end."""
    longestSilenceMs: float
    """the longest silence without a break."""


class RunPage(TypedDict):
    success: Literal[True]
    runs: List[ListedRun]
    next: NotRequired[str]


class ListedRun(TypedDict):
    id: str
    sessionId: str
    floorId: str
    agentId: str
    userId: NotRequired[str]
    zone: NotRequired[str]
    ownerId: NotRequired[str]
    workspaceId: NotRequired[str]
    title: str
    """of its session."""
    sessionState: SessionState
    purpose: NotRequired[Literal["summary"]]
    """absent: a turn of the user."""
    state: Literal["waits_for_floor", "waits_for_turn", "waits_for_worker", "driven", "held", "waits_for_person", "failed"]
    at: float
    """when its turn was accepted, or when it failed."""
    attempt: NotRequired[int]
    """claimed so far; 0: no worker has claimed it."""
    worker: NotRequired[str]
    """the name of the node that drives or holds it."""
    claimedAt: NotRequired[float]
    """when that node claimed it."""
    again: NotRequired[ListedRunAgain]
    """how the try before ended: `lost` with its worker, `given_back`, `paused`, or an error code; and when the next one may begin."""
    asks: NotRequired[List[ListedRunAsksItem]]
    """what its agent waits for."""
    failure: NotRequired[Failure]
    """why it failed."""
    isFollowed: NotRequired[Literal[True]]
    """a later turn of its session has begun since it failed."""


class ListedRunAgain(TypedDict):
    """how the try before ended: `lost` with its worker, `given_back`, `paused`, or an error code; and when the next one may begin."""
    after: str
    nextAt: NotRequired[float]


class ListedRunAsksItem(TypedDict):
    requestId: str
    kind: Literal["confirmation", "question"]
    tool: NotRequired[str]
    isStill: NotRequired[Literal[True]]
    """its time stands still, because it counts only while the session is heard, which is silent."""


class CancelledRun(TypedDict):
    success: Literal[True]
    sessionId: str


class AgentsAnswer(TypedDict):
    success: Literal[True]
    agents: List[AgentsAnswerAgentsItem]
    defaultAgentId: str
    routing: NotRequired[Literal[True]]
    """a sentence goes to the agent that the catalogue's `routing` names."""


class AgentsAnswerAgentsItem(TypedDict):
    id: str
    name: str
    description: str
    priority: float
    interruptible: bool
    capabilities: List[str]
    modes: NotRequired[List[str]]
    """choices among its tools; its sessions begin in the first."""
    available: bool
    workspaceId: NotRequired[str]
    """the agent is defined in the database, for this workspace."""
    external: NotRequired[Literal[True]]
    """the agent is external: its sessions take no turns, and its participant follows their state."""
    leaseMs: NotRequired[float]
    """the longest interval between heartbeats of its sessions, in ms."""
    idleYields: NotRequired[Literal[True]]
    """with nothing running, its session gives the floor up as soon as another waits for it."""


class DefinitionPage(TypedDict):
    success: Literal[True]
    definitions: List[StoredDefinition]
    hasMore: bool


class StoredDefinition(TypedDict):
    name: str
    workspaceId: str
    basedOn: str
    """an agent of the file: the definition uses its model, and at most its tools."""
    label: NotRequired[str]
    description: NotRequired[str]
    instructions: NotRequired[str]
    tools: NotRequired[List[str]]
    """keys of tools that the agent of the file has; default: all of them."""
    maxSteps: NotRequired[int]
    subAgents: NotRequired[List[str]]
    maxDepth: NotRequired[int]
    priority: NotRequired[int]
    interruptible: NotRequired[bool]
    enabled: bool
    id: str
    """the agent's id: its name with the workspace's tag."""
    fault: NotRequired[str]
    """why the definition is not an agent now: the catalogue's file has changed."""


class DefinitionAnswer(TypedDict):
    success: Literal[True]
    definition: StoredDefinition


class MatrixAnswer(TypedDict):
    agents: List[MatrixAnswerAgentsItem]
    """the enabled agents, in the order of the file."""
    rows: List[List[MatrixCell]]
    """a row for each holder, with a cell for each challenger."""
    success: Literal[True]
    hash: str
    """of the catalogue's file in use."""


class MatrixAnswerAgentsItem(TypedDict):
    id: str
    priority: float


class MatrixCell(TypedDict):
    holder: str
    challenger: str
    effect: Literal["pauses", "ducks", "replaces", "beneath", "waits", "follows", "refused", "restricted"]
    level: NotRequired[float]
    """the level of the session that is heard beneath the other, in dB."""
    rule: int
    """the row of the table in docs/use/arbitration.md that applied."""
    reason: Literal["floor_free", "already_holder", "preempted", "resumed", "dequeued", "unknown_agent", "agent_disabled", "lower_priority", "equal_priority", "not_interruptible", "stack_full", "queue_full", "queue_timeout", "lease_expired", "restricted", "critical", "replaced", "beneath"]


class CatalogueDifference(TypedDict):
    added: List[MatrixAnswerAgentsItem]
    """enabled agents that only the other catalogue has."""
    removed: List[MatrixAnswerAgentsItem]
    """enabled agents that the other catalogue lacks."""
    priorities: List[CatalogueDifferencePrioritiesItem]
    cells: List[CatalogueDifferenceCellsItem]
    """the cells that change, of agents that both catalogues have."""
    success: Literal[True]
    hash: str
    """of the catalogue's file in use."""
    newHash: str
    """of the catalogue in the body."""
    changed: List[str]
    """agents whose entries differ."""
    parts: List[str]
    """other top-level keys that differ."""


class CatalogueDifferencePrioritiesItem(TypedDict):
    id: str
    before: float
    after: float


class CatalogueDifferenceCellsItem(TypedDict):
    holder: str
    challenger: str
    before: MatrixCell
    after: MatrixCell


class WebhookList(TypedDict):
    success: Literal[True]
    webhooks: List[Webhook]


class Webhook(TypedDict):
    name: str
    isKnown: bool
    """false: this node's file has none of this name, and what waits is dropped after a day."""
    url: NotRequired[str]
    """without its query."""
    types: NotRequired[List[Literal["turn.ended", "turn.failed", "question.waiting", "confirmation.waiting", "session.transition", "decision", "lease.lapsed"]]]
    agents: NotRequired[List[str]]
    """absent: all."""
    users: NotRequired[List[str]]
    """absent: all."""
    disabledMs: NotRequired[float]
    """for how long nothing has been sent, because the receiver answered 410; absent: it is sent."""
    pending: int
    """notices that wait for the receiver."""
    waitedMs: float
    """for how long the oldest of them has waited."""
    failures: int
    """how often one of them was not accepted, at most; 0: the receiver accepts."""
    reason: NotRequired[str]
    """why it was not, the last time."""


class WebhookAnswer(TypedDict):
    isAccepted: bool
    status: NotRequired[int]
    """of the receiver's answer; absent if none came."""
    reason: NotRequired[str]
    """why it was not accepted."""
    durationMs: float
    success: Literal[True]


class EnabledWebhook(TypedDict):
    success: Literal[True]
    wasDisabled: bool


class UsagePage(TypedDict):
    success: Literal[True]
    usage: List[UsageRow]
    next: NotRequired[str]
    """`after` of the next page; absent on the last one."""


class UsageRow(TypedDict):
    day: str
    """UTC."""
    ownerId: NotRequired[str]
    """absent: sessions without an owner and without a user."""
    agentId: str
    runs: float
    """turns that began."""
    input: float
    """tokens that models received."""
    output: float
    """tokens that models wrote."""
    tokens: float
    """all tokens, as providers count them."""


class Health(TypedDict):
    status: Literal["ok"]
    connections: float
    version: str


class Readiness(TypedDict):
    status: Literal["ok", "not_ready"]
    missing: List[str]
    catalog: ReadinessCatalog


class ReadinessCatalog(TypedDict):
    hash: str
    loadedAt: float
    faults: NotRequired[List[CatalogFault]]
    """the faults, for operators."""
    faultCount: NotRequired[float]
    """the faults of the current file; the previous catalogue stays in use."""


class NodeList(TypedDict):
    nodes: List[HeardReport]
    absentRoles: List[Literal["gateway", "orchestrator", "worker"]]
    """roles that no node has which answers: what they do waits, or is unavailable."""


class HeardReport(TypedDict):
    node: str
    """its id, created anew whenever it starts."""
    name: NotRequired[str]
    """its name, by default its machine and process; absent: an older node."""
    roles: List[Literal["gateway", "orchestrator", "worker"]]
    version: str
    startedAt: float
    """ms since 1970."""
    missing: List[str]
    """why it is not ready; empty if it is."""
    partitions: int
    """partitions of the floors that it owns."""
    connections: int
    """open event streams."""
    floors: int
    """floors whose actors are in memory."""
    commands: int
    """commands answered since it started."""
    commits: int
    """commits since it started."""
    commandsWaiting: int
    """commands that its floors have not answered yet."""
    asksWaiting: int
    """commands that this node sent and no floor has answered yet."""
    runs: HeardReportRuns
    """driven, held for paused sessions, or waiting for a person."""
    lastFailure: NotRequired[HeardReportLastFailure]
    """of the runs that it drove; absent: none failed."""
    slowReaders: int
    """streams cut since it started because their reader was too slow."""
    isSelf: NotRequired[Literal[True]]
    """the node that answers."""
    silentMs: NotRequired[int]
    """how long ago it answered last; absent for a node that answered now."""


class HeardReportRuns(TypedDict):
    """driven, held for paused sessions, or waiting for a person."""
    driven: int
    held: int
    waiting: int


class HeardReportLastFailure(TypedDict):
    """of the runs that it drove; absent: none failed."""
    at: float
    """ms since 1970."""
    agentId: str
    errorCode: ErrorCode
    reason: str


class MessageAnswer(TypedDict):
    success: Literal[True]
    sessionId: NotRequired[str]
    messageId: NotRequired[str]
    runId: NotRequired[str]
    decision: NotRequired[Decision]
    interrupted: NotRequired[MessageAnswerInterrupted]
    position: NotRequired[str]
    notice: NotRequired[str]
    """what the request may not have meant, or what its effect waits for."""
    outcome: NotRequired[MessageAnswerOutcome]
    routed: NotRequired[Routed]
    state: NotRequired[SessionState]
    """in reply to `heartbeat`: the session's state."""
    level: NotRequired[float]
    """in reply to `heartbeat`: a ducked session's level."""
    leaseMs: NotRequired[float]
    """in reply to `heartbeat`: as in the session."""
    lapsed: NotRequired[bool]
    """in reply to `heartbeat`: the lease ran out, so only a request brings the session back."""
    playedUpTo: NotRequired[int]
    """in reply to `played`: the position that counts; other than `upTo`: `upTo` changed nothing."""
    leaseUntil: NotRequired[float]
    """in reply to `heartbeat`: as in the session; absent for a session without a place to lose."""


class MessageAnswerInterrupted(TypedDict):
    runId: str
    messageId: str


class MessageAnswerOutcome(TypedDict):
    errorCode: NotRequired[ErrorCode]
    message: NotRequired[str]
    availableAgents: NotRequired[List[AgentInfo]]
    previousAgentId: NotRequired[str]
    currentAgentId: NotRequired[str]
    agentName: NotRequired[str]


class TurnAnswer(TypedDict):
    success: Literal[True]
    sessionId: NotRequired[str]
    messageId: NotRequired[str]
    runId: NotRequired[str]
    decision: NotRequired[Decision]
    interrupted: NotRequired[MessageAnswerInterrupted]
    position: NotRequired[str]
    notice: NotRequired[str]
    """what the request may not have meant, or what its effect waits for."""


class ImportedSession(TypedDict):
    success: Literal[True]
    session: Session
    position: NotRequired[str]


SessionStreamEvent = Union[
    SessionCreatedEvent,
    SessionTransitionEvent,
    SessionUpdatedEvent,
    ArbitrationEvent,
    RoutedEvent,
    AgentSwitchedEvent,
    MessageEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolConfirmationRequestEvent,
    UserQuestionRequestEvent,
    InteractionResolvedEvent,
    UsageEvent,
    ErrorEvent,
    CompleteEvent,
    DataEvent,
    DeltaEvent,
    LogEvent,
    RollbackResultEvent,
    ResetEvent,
    ByeEvent,
]
"""an event of one session's stream."""


FloorStreamEvent = Union[
    SessionCreatedEvent,
    SessionTransitionEvent,
    ArbitrationEvent,
    RoutedEvent,
    AgentSwitchedEvent,
    FloorUpdatedEvent,
    ResetEvent,
    ByeEvent,
]
"""an event of one floor's stream."""


FloorsStreamEvent = Union[
    ResetEvent,
    FloorEvent,
    ByeEvent,
]
"""an event of the stream of all floors."""


ConnectionStreamEvent = Union[
    ConnectedEvent,
    AgentListEvent,
    SessionCreatedEvent,
    SessionTransitionEvent,
    SessionUpdatedEvent,
    ArbitrationEvent,
    RoutedEvent,
    AgentSwitchedEvent,
    MessageEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolConfirmationRequestEvent,
    UserQuestionRequestEvent,
    InteractionResolvedEvent,
    UsageEvent,
    ErrorEvent,
    CompleteEvent,
    DataEvent,
    DeltaEvent,
    LogEvent,
    RollbackResultEvent,
    ResetEvent,
    ByeEvent,
]
"""an event of a connection's stream."""


LoggedEvent = Union[
    LoggedSessionCreatedEvent,
    LoggedSessionTransitionEvent,
    LoggedSessionUpdatedEvent,
    LoggedArbitrationEvent,
    LoggedRoutedEvent,
    LoggedAgentSwitchedEvent,
    LoggedMessageEvent,
    LoggedToolCallEvent,
    LoggedToolResultEvent,
    LoggedToolConfirmationRequestEvent,
    LoggedUserQuestionRequestEvent,
    LoggedInteractionResolvedEvent,
    LoggedUsageEvent,
    LoggedErrorEvent,
    LoggedCompleteEvent,
    LoggedDataEvent,
    LoggedFloorUpdatedEvent,
]
"""an event as streams have it, with its position in the floor's log."""


ServerEvent = Union[
    SessionCreatedEvent,
    SessionTransitionEvent,
    SessionUpdatedEvent,
    ArbitrationEvent,
    RoutedEvent,
    AgentSwitchedEvent,
    MessageEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolConfirmationRequestEvent,
    UserQuestionRequestEvent,
    InteractionResolvedEvent,
    UsageEvent,
    ErrorEvent,
    CompleteEvent,
    DataEvent,
    DeltaEvent,
    LogEvent,
    RollbackResultEvent,
    ResetEvent,
    ByeEvent,
    FloorUpdatedEvent,
    FloorEvent,
    ConnectedEvent,
    AgentListEvent,
]
"""an event of any stream."""


EVENT_TYPES = frozenset(
    [
        "session_created",
        "session_transition",
        "session_updated",
        "arbitration",
        "routed",
        "agent_switched",
        "message",
        "tool_call",
        "tool_result",
        "tool_confirmation_request",
        "user_question_request",
        "interaction_resolved",
        "usage",
        "error",
        "complete",
        "data",
        "delta",
        "log",
        "rollback_result",
        "reset",
        "bye",
        "floor_updated",
        "floor",
        "connected",
        "agent_list",
    ]
)
"""the types of events that this client knows."""
