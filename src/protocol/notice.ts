/** What the receiver of a webhook may be told of, and the event that it is about. */
export const NOTICE_TYPES = {
  "turn.ended": "complete",
  "turn.failed": "error",
  "question.waiting": "user_question_request",
  "confirmation.waiting": "tool_confirmation_request",
  "session.transition": "session_transition",
  decision: "arbitration",
  "lease.lapsed": "session_transition or arbitration, with the reason lease_expired",
} as const;
export type NoticeType = keyof typeof NOTICE_TYPES;
