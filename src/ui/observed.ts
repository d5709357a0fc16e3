/**
 * A value that components follow.
 *
 * @module
 */
import { useEffect, useRef, useState } from "preact/hooks";

/** Tells its listeners of each new value. */
export class Observed<Value> {
  #value: Value;
  readonly #listeners = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set value(next: Value) {
    this.#value = next;
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` after each change. Returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The value as it is now; the calling component is drawn again when it changes. */
export function useObserved<Value>(observed: Observed<Value>): Value {
  const [value, setValue] = useState(observed.value);
  useEffect(() => {
    const follow = () => setValue(observed.value);
    follow();
    return observed.subscribe(follow);
  }, [observed]);
  return value;
}

interface Work {
  readonly isBusy: boolean;
  readonly failure: string | undefined;
  /** Duration of the last one. */
  readonly tookMs: number | undefined;
  /** Stops the running request and starts `act`. */
  readonly start: (act: (signal: AbortSignal) => Promise<void>) => Promise<void>;
  readonly stop: () => void;
}

/** The work of the calling component; it ends when the component unmounts. */
export function useWork(): Work {
  const [state, setState] = useState<Pick<Work, "isBusy" | "failure" | "tookMs">>({
    isBusy: false,
    failure: undefined,
    tookMs: undefined,
  });
  const current = useRef<AbortController | undefined>(undefined);
  const stop = () => current.current?.abort();
  useEffect(() => stop, []);
  return {
    ...state,
    stop,
    start: async (act) => {
      stop();
      const controller = current.current = new AbortController();
      const { signal } = controller;
      setState({ isBusy: true, failure: undefined, tookMs: undefined });
      const startedMs = performance.now();
      let failure: string | undefined;
      try {
        await act(signal);
      } catch (error) {
        if (!signal.aborted) failure = (error as Error).message;
      }
      if (current.current !== controller) return;
      const tookMs = failure === undefined ? performance.now() - startedMs : undefined;
      setState({ isBusy: false, failure, tookMs });
    },
  };
}
