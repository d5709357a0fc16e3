/**
 * A value that components follow.
 *
 * @module
 */
import { useEffect, useState } from "preact/hooks";

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
