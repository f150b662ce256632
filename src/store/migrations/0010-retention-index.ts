/** Finds what refers to a session or a sandbox, so that deleting one does not read all snapshots. */

export function retentionIndex(): string[] {
  return [
    `create index snapshots_of_session on snapshots (session_id)`,
    // The other index by sandbox leaves deleted ones out.
    `create index all_snapshots_of_sandbox on snapshots (sandbox_id)`,
  ];
}
