/**
 * A session that reports the times of loading and of each answer, for `run --verbose`.
 *
 * @module
 */
import type { EventOf, Task, TaskEvent } from "../../models/task.ts";
import { waitForDone } from "../../server/session/task_stream.ts";
import type { Session } from "../../server/session/session.ts";
import { writeMessage } from "../print.ts";

/** The part of a session that `run` needs. */
export interface RunSession {
  requireReady: Session["requireReady"];
  stream<T extends Task>(
    task: T,
    options?: { readonly signal?: AbortSignal },
  ): AsyncIterable<EventOf<T>>;
  answer<T extends Task>(task: T): Promise<Extract<EventOf<T>, { type: "done" }>>;
}

export class TimedSession implements RunSession {
  readonly #session: Session;

  /** @param loadMs how long loading the model took. */
  constructor(session: Session, loadMs: number) {
    this.#session = session;
    const { id, dtype, backend, adapter } = session.requireReady();
    tell(`loaded ${id} (${dtype}) on ${backend}, ${adapter}, in ${formatSeconds(loadMs)}`);
  }

  requireReady(): ReturnType<Session["requireReady"]> {
    return this.#session.requireReady();
  }

  async *stream<T extends Task>(
    task: T,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<EventOf<T>> {
    const startMs = performance.now();
    let firstMs: number | undefined;
    let numChunks = 0;
    let audioSeconds = 0;
    for await (const event of this.#session.stream(task, options)) {
      const { type } = event;
      const isResult = !["admitted", "start", "scheduled", "prompt", "done"].includes(type);
      if (isResult) {
        firstMs ??= performance.now();
        numChunks++;
      }
      if (type === "start" && "durationSeconds" in event) audioSeconds = event.durationSeconds;
      const nowMs = performance.now();
      try {
        yield event;
      } finally {
        // Written after the answer's last line, if both go to a terminal.
        if (type === "done") {
          tell(
            describe(event, {
              tookMs: nowMs - startMs,
              waitedMs: (firstMs ?? nowMs) - startMs,
              isStreamed: numChunks > 1,
            }) + describeSound(audioSeconds, nowMs - startMs),
          );
        }
      }
    }
  }

  answer<T extends Task>(task: T): Promise<Extract<EventOf<T>, { type: "done" }>> {
    return waitForDone(this.stream(task));
  }
}

function describe(
  event: TaskEvent & { readonly type: "done" },
  { tookMs, waitedMs, isStreamed }: {
    readonly tookMs: number;
    readonly waitedMs: number;
    readonly isStreamed: boolean;
  },
): string {
  if ("audioSeconds" in event) {
    return `spoke ${event.audioSeconds.toFixed(2)} s in ${
      formatSeconds(tookMs)
    }, first audio after ` +
      `${formatSeconds(waitedMs)}${describeSound(event.audioSeconds, tookMs)}`;
  }
  if (!("usage" in event)) return `answered in ${formatSeconds(tookMs)}`;
  const { promptTokens, cachedTokens, completionTokens } = event.usage;
  const cached = cachedTokens > 0 ? ` (${cachedTokens} cached)` : "";
  const first = `first after ${formatSeconds(waitedMs)}`;
  // The time until the first token is spent on the prompt. For an answer that arrives all at once, no rate is known.
  const rate = (completionTokens - 1) / ((tookMs - waitedMs) / 1000);
  const tokensPerSecond = isStreamed && completionTokens > 1 && Number.isFinite(rate)
    ? `, ${rate.toFixed(1)} tokens/s`
    : "";
  return `prompt of ${promptTokens} tokens${cached}, ${completionTokens} tokens in ` +
    `${formatSeconds(tookMs)}, ${first}${tokensPerSecond}`;
}

/** Describes the speed relative to the audio's duration; empty without audio. */
function describeSound(soundSeconds: number, tookMs: number): string {
  if (soundSeconds === 0) return "";
  return `, ${(1000 * soundSeconds / tookMs).toFixed(1)} times as fast as the ` +
    `${soundSeconds.toFixed(2)} s of audio`;
}

function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

function tell(line: string): void {
  writeMessage(Deno.stderr, `${line}\n`);
}
