/**
 * Values that components can observe.
 *
 * @module
 */
import { useEffect, useRef, useState } from "preact/hooks";

/** A value that informs its listeners of each change. */
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

  /** Calls `listener` after each change. Returns a function that ends this. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The current value. The calling component renders again when it changes. */
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
  /** Duration of the last run. */
  readonly tookMs: number | undefined;
  /** Aborts the running request and starts `act`. */
  readonly start: (act: (signal: AbortSignal) => Promise<void>) => Promise<void>;
  readonly stop: () => void;
}

/** Asynchronous work of the calling component, which is aborted when the component unmounts. */
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
