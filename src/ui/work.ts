/**
 * One request at a time on a page: its progress, result and error, and how to stop it.
 *
 * @module
 */
import { useEffect, useRef, useState } from "preact/hooks";

export interface Work {
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
