/**
 * Keeps the metrics of the last minutes while the page is visible.
 *
 * @module
 */
import { useEffect, useState } from "preact/hooks";
import { type Moment, parseMetrics } from "./metrics.ts";
import { call } from "./server.ts";

const INTERVAL_MS = 1000;
/** Time range of the plots. */
export const KEPT_SECONDS = 300;

/** The metrics so far, and the last error. */
export interface History {
  readonly moments: readonly Moment[];
  readonly failure: string | undefined;
}

export function useMetricsHistory(): History {
  const [moments, setMoments] = useState<readonly Moment[]>([]);
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: number | undefined;
    const scrape = async () => {
      try {
        if (!document.hidden) {
          const text = await (await call("metrics", { signal })).text();
          const seconds = Date.now() / 1000;
          setMoments((before) => [
            ...before.filter((each) => each.seconds > seconds - KEPT_SECONDS),
            { seconds, scrape: parseMetrics(text) },
          ]);
          setFailure(undefined);
        }
      } catch (error) {
        if (!signal.aborted) setFailure((error as Error).message);
      }
      if (!signal.aborted) timer = setTimeout(scrape, INTERVAL_MS);
    };
    scrape();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, []);
  return { moments, failure };
}
