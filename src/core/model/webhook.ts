/** Webhooks of a project: where events are sent to, and what became of each. */

export interface Webhook {
  id: string;
  teamId: string;
  projectId: string;
  url: string;
  /** wanted types such as `session.running`, or their first words such as `session`; all if it is empty */
  types: string[];
  /** sealed; signs what is sent */
  secret: string;
  enabled: boolean;
  /** why it was disabled, if the daemon did it */
  disabledReason?: string;
  /** of the last event that was looked at */
  cursor: string;
  /** since when every attempt has failed, in ms since 1970 */
  failingSince?: number;
  createdAt: number;
  updatedAt: number;
}

/** An event on its way to a webhook, or a record of it. */
export interface WebhookDelivery {
  /** the same for each attempt, so that a receiver can tell repeats */
  id: string;
  webhookId: string;
  type: string;
  /** JSON as it is sent */
  body: string;
  state: "waiting" | "delivered" | "failed";
  attempts: number;
  createdAt: number;
  /** when the last attempt ended, and when the next one is due */
  attemptedAt?: number;
  dueAt?: number;
  /** HTTP status of the last answer */
  status?: number;
  /** why the last attempt failed */
  reason?: string;
}
