/**
 * Transcribes a session's turns, one after the other. Requests of sessions that are already open wait where new ones
 * would be refused.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { makeWavFile } from "../../../media/sound_format.ts";
import type { TranscribeEvent } from "../../../models/task.ts";
import {
  describeError,
  type ServerEvent,
  transcriptionEvent,
} from "../../../wire/realtime_events.ts";
import { type TranscriptSegment, transcriptText } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import { successes, type TaskStream } from "../../session/task_stream.ts";
import { logFailure } from "../sse.ts";
import type { AgreedText } from "./partial_transcripts.ts";
import { sleep } from "../../../base/wait.ts";

/** Most turns that the model is given at once. With more, a client that is far ahead would keep others waiting. */
const MAX_PENDING = 2;

/** A turn whose audio is complete. */
export interface Turn {
  readonly itemId: string;
  readonly samples: Int16Array<ArrayBuffer>;
  readonly sampleRateHz: number;
  readonly language: string | undefined;
  /** The text that has already been sent. */
  readonly agreed: AgreedText;
}

interface TranscriptsOptions {
  readonly session: Session;
  readonly requestId: string;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
  readonly send: (event: ServerEvent) => Promise<void>;
}

/** Sends a session's transcripts in the order of its turns. */
export class LiveTranscripts {
  readonly #options: TranscriptsOptions;
  #numPending = 0;
  #last: Promise<void> = Promise.resolve();
  #lastButOne: Promise<void> = Promise.resolve();

  constructor(options: TranscriptsOptions) {
    this.#options = options;
  }

  /** Whether a transcript is still to be sent. */
  get isPending(): boolean {
    return this.#numPending > 0;
  }

  /**
   * Transcribes a turn. Resolves when another turn may be added, which may be before this one's transcript is complete.
   */
  async add(turn: Turn): Promise<void> {
    if (this.#numPending >= MAX_PENDING) await this.#lastButOne;
    this.#numPending++;
    const before = this.#last;
    const stream = this.#start(turn);
    // `#report` handles the error when its turn comes.
    stream.catch(() => {});
    this.#lastButOne = before;
    const { itemId, agreed, samples, sampleRateHz } = turn;
    const heard = { itemId, agreed, seconds: samples.length / sampleRateHz };
    this.#last = before.then(() => this.#report(heard, stream)).finally(() => this.#numPending--);
    await stream.catch(() => {});
  }

  /** Resolves when all transcripts have been sent. */
  async settle(): Promise<void> {
    await this.#last;
  }

  async #start(turn: Turn): Promise<TaskStream<TranscribeEvent>> {
    const { session, requestId, signal } = this.#options;
    return await whenRoom(() =>
      session.stream({
        type: "transcribe",
        requestId,
        audio: makeWavFile(turn.samples, turn.sampleRateHz),
        param: "audio",
        language: turn.language,
        temperature: 0,
      }, { signal }), signal);
  }

  /** Sends a turn's transcript, or its error. Never rejects. */
  async #report(
    { itemId, agreed, seconds }: Pick<Turn, "itemId" | "agreed"> & { readonly seconds: number },
    opened: Promise<TaskStream<TranscribeEvent>>,
  ): Promise<void> {
    const { requestId, signal, send } = this.#options;
    const segments: TranscriptSegment[] = [];
    const sendRest = async (text: string) => {
      const delta = agreed.end(text);
      if (delta !== "") await send(transcriptionEvent("delta", itemId, { delta }));
    };
    try {
      for await (const event of successes(await opened)) {
        if (event.type !== "segment") continue;
        segments.push(event.segment);
        const text = transcriptText(segments);
        // If the text begins differently so far, the rest is worked out from the whole text at the end.
        if (text.startsWith(agreed.text)) await sendRest(text);
      }
      await sendRest(transcriptText(segments));
      await send(transcriptionEvent("completed", itemId, {
        transcript: agreed.text,
        usage: { type: "duration", seconds: Number(seconds.toFixed(3)) },
      }));
    } catch (thrown) {
      if (signal.aborted) return;
      const error = HearthError.from(thrown);
      logFailure(requestId, error);
      await send(transcriptionEvent("failed", itemId, { error: describeError(error) }));
    }
  }
}

const RETRY_MS = 100;
const MAX_WAIT_MS = 60_000;

/**
 * Retries while the queue is full, for up to a minute.
 *
 * @throws {HearthError} what `ask` throws; `overloaded` after that time.
 * @throws the signal's reason.
 */
export async function whenRoom<T>(
  ask: () => T | Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const untilMs = performance.now() + MAX_WAIT_MS;
  for (;;) {
    signal.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      const isFull = error instanceof HearthError && error.kind === "overloaded";
      if (!isFull || performance.now() > untilMs) throw error;
    }
    await sleep(RETRY_MS);
  }
}
