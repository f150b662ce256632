/** An answer of the daemon for a view: read when the view appears, and again when an event says that it has changed. */

import { useEffect, useState } from "preact/hooks";
import { sentence } from "../session.ts";
import { type Change, onChange } from "./live.ts";

export interface Answer<T> {
  /** the last answer; stays while a newer one is read */
  value: T | undefined;
  problem: string;
  reread: () => void;
}

/** `about` names what is asked for; the answer is read again when it changes */
export function useAnswer<T>(
  about: string,
  read: (signal: AbortSignal) => Promise<T>,
  changedBy: (event: Change) => boolean = () => false,
): Answer<T> {
  const [answer, setAnswer] = useState<{ value: T | undefined; problem: string }>({ value: undefined, problem: "" });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    read(left.signal).then(
      (value) => !left.signal.aborted && setAnswer({ value, problem: "" }),
      (error) => !left.signal.aborted && setAnswer((old) => ({ ...old, problem: sentence(error) })),
    );
    return () => left.abort();
  }, [about, turn]);
  useEffect(() => onChange((event) => changedBy(event) && setTurn((old) => old + 1)), [about]);
  return { ...answer, reread: () => setTurn((old) => old + 1) };
}
