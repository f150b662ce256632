/** Secrets that a team stores by name. */

/** A named secret of a team. Its value is sealed, and no method returns it in the clear to a caller. */
export interface Secret {
  id: string;
  teamId: string;
  /** unique within its team */
  name: string;
  value: string;
  /** counts its values, from 1 */
  version: number;
  metadata: Record<string, string>;
  createdAt: number;
  updatedAt: number;
}
