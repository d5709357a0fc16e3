/**
 * The transcripts of a session's turns, one after the other.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { makeWavFile } from "../../../media/sound/pcm_writer.ts";
import type { TranscribeEvent } from "../../../models/task.ts";
import { describeError, type ServerEvent } from "../../../wire/realtime_events.ts";
import { type TranscriptSegment, transcriptText } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import type { TaskStream } from "../../session/task_stream.ts";
import { logFailure } from "../task_events.ts";
import { whenRoom } from "./when_room.ts";

/** Turns that the model has at once: with more, a client that is ahead would keep others waiting. */
const MAX_PENDING = 2;

/** A turn whose sound is complete. */
export interface Turn {
  readonly itemId: string;
  readonly samples: Int16Array<ArrayBuffer>;
  readonly sampleRateHz: number;
  readonly language: string | undefined;
}

interface TranscriptsOptions {
  readonly session: Session;
  readonly requestId: string;
  /** Aborted when the client has gone. */
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

  /** Transcribes a turn. Resolves when another may follow, which is before its transcript is there. */
  async add(turn: Turn): Promise<void> {
    if (this.#numPending >= MAX_PENDING) await this.#lastButOne;
    this.#numPending++;
    const before = this.#last;
    const stream = this.#start(turn);
    // Whoever reads it hears of it.
    stream.catch(() => {});
    this.#lastButOne = before;
    const { itemId, samples, sampleRateHz } = turn;
    const heard = { itemId, seconds: samples.length / sampleRateHz };
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

  /** Never rejects. */
  async #report(
    { itemId, seconds }: { readonly itemId: string; readonly seconds: number },
    opened: Promise<TaskStream<TranscribeEvent>>,
  ): Promise<void> {
    const { requestId, signal, send } = this.#options;
    const head = { item_id: itemId, content_index: 0 };
    const segments: TranscriptSegment[] = [];
    try {
      for await (const event of await opened) {
        if (event.type === "error") throw HearthError.fromWire(event.error);
        if (event.type !== "segment") continue;
        const { text } = event.segment;
        const delta = segments.length === 0 ? text.trimStart() : text;
        segments.push(event.segment);
        await send({ type: `${TRANSCRIPTION}.delta`, ...head, delta, logprobs: null });
      }
      await send({
        type: `${TRANSCRIPTION}.completed`,
        ...head,
        transcript: transcriptText(segments),
        logprobs: null,
        usage: { type: "duration", seconds: Number(seconds.toFixed(3)) },
      });
    } catch (thrown) {
      if (signal.aborted) return;
      const error = HearthError.from(thrown);
      logFailure(requestId)(error);
      await send({ type: `${TRANSCRIPTION}.failed`, ...head, error: describeError(error) });
    }
  }
}

const TRANSCRIPTION = "conversation.item.input_audio_transcription";
