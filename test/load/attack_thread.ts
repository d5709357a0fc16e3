/**
 * Runs a scenario on its own thread. The requests that are timed meanwhile come from another process: see `prober.ts`.
 *
 * @module
 */
import type { LoadKind } from "./small_requests.ts";
import { smallRequest } from "./small_requests.ts";
import { type ScenarioOptions, SCENARIOS } from "./scenarios.ts";
import { Tally, type TallyData } from "./tally.ts";

/** The scenario to run, and its target. */
export interface Attack extends ScenarioOptions {
  readonly url: string;
  readonly scenario: string;
}

/** Runs a scenario on its own thread. */
export async function attack(how: Attack): Promise<Record<string, Tally>> {
  const worker = new Worker(import.meta.url, { type: "module" });
  try {
    const { promise, resolve, reject } = Promise.withResolvers<Record<string, TallyData>>();
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(how);
    const tallies = await promise;
    return Object.fromEntries(
      Object.entries(tallies).map(([name, data]) => [name, new Tally(data)]),
    );
  } finally {
    worker.terminate();
  }
}

const scope = globalThis as unknown as {
  readonly name: string;
  readonly DedicatedWorkerGlobalScope?: unknown;
  postMessage(message: Record<string, TallyData>): void;
  onmessage: ((event: MessageEvent<Attack>) => void) | null;
};

if (scope.DedicatedWorkerGlobalScope !== undefined) {
  scope.onmessage = async ({ data: { url, kind, scenario, numRequests } }) => {
    const target = { url, small: smallRequest(kind as LoadKind) };
    const tallies = await SCENARIOS[scenario]!.run(target, { kind, numRequests });
    scope.postMessage(Object.fromEntries(
      Object.entries(tallies).map(([name, { seconds, ends, good }]) => [
        name,
        { seconds, ends, good },
      ]),
    ));
  };
}
