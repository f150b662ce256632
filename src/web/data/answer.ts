/** An answer of the daemon for a view: read when the view appears, and again when an event says that it has changed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../session.ts";
import { type Change, onChange } from "./live.ts";
import { oneAtATime } from "./one-at-a-time.ts";

export interface Answer<T> {
  /** the last answer; stays while a newer one is read */
  value: T | undefined;
  problem: string;
  reread: () => void;
}

/**
 * `about` names what is asked for; when it changes, the read before is given up. The answer is read again after an event
 * that changes it, and when `turn` changes, such as with the time.
 */
export function useAnswer<T>(
  about: string,
  read: (signal: AbortSignal) => Promise<T>,
  changedBy: (event: Change) => boolean = () => false,
  turn = 0,
): Answer<T> {
  const [answer, setAnswer] = useState<{ value: T | undefined; problem: string }>({ value: undefined, problem: "" });
  const latest = useRef(read);
  latest.current = read;
  const ask = useRef(() => {});
  useEffect(() => {
    const left = new AbortController();
    const work = oneAtATime(() =>
      latest.current(left.signal).then(
        (value) => void (!left.signal.aborted && setAnswer({ value, problem: "" })),
        (error) => void (!left.signal.aborted && setAnswer((old) => ({ ...old, problem: sentence(error) }))),
      ),
    );
    ask.current = work.ask;
    const stop = onChange((event) => changedBy(event) && work.ask());
    return () => {
      stop();
      work.stop();
      left.abort();
    };
  }, [about]);
  useEffect(() => ask.current(), [about, turn]);
  return { ...answer, reread: () => ask.current() };
}
