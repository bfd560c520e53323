"""Failures, and which of them may pass. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional

from .types import AgentInfo, CatalogFault, Decision, Session

#: Codes whose request is to be sent again with the same key.
_REPEATED = frozenset(
    ["unreachable", "busy", "unavailable", "too_many_requests", "provider_rate_limited", "provider_unreachable", "run_lost"]
)
#: Answers of a proxy whose server is away: the request may have taken effect.
_AWAY = (502, 503, 504)


class ClientError(Exception):
    """A failed request.

    ``code`` is one of the server's codes (:data:`interlock_client.types.ErrorCode`), or one of two for the transport:
    ``unreachable``, no answer arrived, so that the request may have taken effect; ``unexpected_answer``, the answer is
    not one of this server's. ``str(error)`` is a sentence; of ``rejected`` it is fit to be spoken.
    """

    code: str
    status: int
    """The HTTP status; 0 if no answer arrived."""
    retryable: bool
    """Whether a repeat can succeed. ``unreachable``, ``busy``, ``unavailable`` and ``too_many_requests`` must be repeated
    with the same key."""
    retry_after_ms: Optional[int]
    """The delay that the server asks for, in ms; ``None`` if it asks for none."""
    facts: Dict[str, Any]
    """The other fields of the answer. ``commandId`` is the key with which a write can be repeated without a second
    effect."""

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        status: int = 0,
        retryable: bool = False,
        retry_after_ms: Optional[int] = None,
        facts: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.status = status
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.facts = dict(facts or {})

    def __reduce__(self) -> Any:
        # An error crosses the border of a process with all it knows.
        return (_rebuilt, (self.code, self.sentence, self.status, self.retryable, self.retry_after_ms, self.facts))

    @property
    def decision(self) -> Optional[Decision]:
        """Why the floor was refused (``rejected``)."""
        return self.facts.get("decision")

    @property
    def issues(self) -> List[Dict[str, str]]:
        """What is wrong with the request: ``path`` and ``message`` of each fault."""
        issues: List[Dict[str, str]] = self.facts.get("issues", [])
        return issues

    @property
    def faults(self) -> List[CatalogFault]:
        """What is wrong with a catalogue."""
        faults: List[CatalogFault] = self.facts.get("faults", [])
        return faults

    @property
    def available_agents(self) -> List[AgentInfo]:
        """The agents there are, where one was not found."""
        agents: List[AgentInfo] = self.facts.get("availableAgents", [])
        return agents

    @property
    def session(self) -> Optional[Session]:
        """With ``stale``: the session as it is."""
        return self.facts.get("session")

    @property
    def idempotency_key(self) -> Optional[str]:
        """The key of the write. The same method with the same arguments and this key has one effect."""
        return self.facts.get("commandId")

    @property
    def wants_repeat(self) -> bool:
        """Whether the outcome is unknown or put off, so that the request should be sent again with the same key."""
        return self.code in _REPEATED


def _rebuilt(
    code: str, sentence: str, status: int, retryable: bool, retry_after_ms: Optional[int], facts: Dict[str, Any]
) -> ClientError:
    return ClientError(
        code, sentence, status=status, retryable=retryable, retry_after_ms=retry_after_ms, facts=facts
    )


def unreachable(origin: str) -> ClientError:
    """The error for a connection that failed or took too long."""
    return ClientError("unreachable", f"{origin} does not answer.", retryable=True)


def unexpected_answer(status: int) -> ClientError:
    """The error for an answer that is not one of this server's."""
    return ClientError(
        "unexpected_answer", f"An answer came back that is not this server's (status {status}).", status=status
    )


def failure_of(status: int, retry_after: Optional[str], content: bytes) -> ClientError:
    """The error for an answer that says that the request failed."""
    wait_ms = _read_retry_after(retry_after)
    problem = parse_json(content)
    if isinstance(problem, dict):
        code, sentence = problem.get("errorCode"), problem.get("error")
        if isinstance(code, str) and isinstance(sentence, str):
            facts = {k: v for k, v in problem.items() if k not in ("success", "errorCode", "error", "retryable")}
            return ClientError(
                code,
                sentence,
                status=status,
                retryable=problem.get("retryable") is True,
                retry_after_ms=wait_ms,
                facts=facts,
            )
    if status in _AWAY:
        sentence = "The outcome is not known yet. Repeat the request with the same key."
        return ClientError("unavailable", sentence, status=status, retryable=True, retry_after_ms=wait_ms)
    return unexpected_answer(status)


def parse_json(content: "bytes | str") -> Any:
    """The value of a JSON text; ``None`` if it is none, or is nested too deeply to be read."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _read_retry_after(header: Optional[str]) -> Optional[int]:
    """Seconds only: a date would be compared with a clock that may be wrong."""
    return int(header) * 1_000 if header is not None and re.fullmatch(r"[0-9]{1,6}", header) else None
