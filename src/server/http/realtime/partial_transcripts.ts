/**
 * Transcribes a turn while somebody is still speaking. The audio so far is transcribed again and again, and text on
 * which two transcripts in a row agree is sent.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { makeWavFile } from "../../../media/sound_format.ts";
import { type ServerEvent, transcriptionEvent } from "../../../wire/realtime_events.ts";
import { type TranscriptSegment, transcriptText } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import { AgreedText } from "./agreed_text.ts";
import type { HeardSound } from "./heard_sound.ts";

/**
 * New audio between one transcript and the next. It is also the least wall time before the first, so that clients that
 * send faster than real time get no partial transcripts.
 */
const INTERVAL_MS = 1000;
/** Pause after a transcript, as a multiple of the time it took. */
const REST = 2;
/** Once a transcript is this long, the next one begins at a later segment. */
const SETTLED_MS = 10_000;
/** Audio longer than this is not transcribed before the turn ends. */
const MAX_SPAN_MS = 60_000;

interface PartialTranscriptsOptions {
  readonly session: Session;
  readonly requestId: string;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
  readonly send: (event: ServerEvent) => Promise<void>;
}

/** A turn that has begun. */
interface OpenTurn {
  readonly itemId: string;
  /** The audio, which must still hold the turn from its beginning. */
  readonly sound: HeardSound;
  readonly language: string | undefined;
}

/** The state of a turn's text. */
interface Progress {
  readonly itemId: string;
  readonly agreed: AgreedText;
  /** Text of the segments that are settled, and the position at which they end. */
  settledText: string;
  fromMs: number;
  /** Position at which the audio of the last transcript ended. */
  toMs: number;
  /** When another transcript may begin. */
  readyAtMs: number;
}

/** The partial transcripts of a session, one at a time. */
export class PartialTranscripts {
  readonly #options: PartialTranscriptsOptions;
  #progress: Progress | undefined;
  /** Aborts the transcript in progress. */
  #abort: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: PartialTranscriptsOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#abort?.abort(), { once: true });
  }

  /** Transcribes a turn so far, if there is enough new audio and the model has little else to do. Returns at once. */
  hear({ itemId, sound, language }: OpenTurn): void {
    const nowMs = performance.now();
    if (this.#progress?.itemId !== itemId) {
      const { startMs } = sound;
      const readyAtMs = nowMs + INTERVAL_MS;
      const agreed = new AgreedText();
      const start = { settledText: "", fromMs: startMs, toMs: startMs };
      this.#progress = { itemId, agreed, ...start, readyAtMs };
    }
    const progress = this.#progress;
    const { endMs } = sound;
    const hasNews = endMs - progress.toMs >= INTERVAL_MS;
    const isLong = endMs - progress.fromMs > MAX_SPAN_MS;
    const isResting = this.#abort !== undefined || nowMs < progress.readyAtMs;
    if (!hasNews || isLong || isResting || isBusy(this.#options.session)) return;
    progress.toMs = endMs;
    this.#abort = new AbortController();
    const { sampleRateHz } = sound.format;
    const audio = makeWavFile(sound.copyFrom(progress.fromMs), sampleRateHz);
    this.#running = this.#transcribe(progress, { audio, language, signal: this.#abort.signal });
  }

  /** Ends the turn, because its audio is complete or no longer wanted. @returns the text that was sent. */
  async end(): Promise<AgreedText> {
    const { agreed } = this.#progress ?? { agreed: new AgreedText() };
    this.#progress = undefined;
    this.#abort?.abort();
    await this.#running;
    return agreed;
  }

  /** Makes one partial transcript. Never rejects: the turn's final transcript reports errors. */
  async #transcribe(
    progress: Progress,
    { audio, language, signal }: {
      readonly audio: Uint8Array<ArrayBuffer>;
      readonly language: string | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<void> {
    const { session, requestId, send } = this.#options;
    const startedAtMs = performance.now();
    const segments: TranscriptSegment[] = [];
    const task = { requestId, audio, param: "audio", language, temperature: 0 } as const;
    try {
      for await (const event of session.stream({ type: "transcribe", ...task }, { signal })) {
        if (event.type === "error") throw HearthError.fromWire(event.error);
        if (event.type === "segment") segments.push(event.segment);
      }
      const text = transcriptText([{ text: progress.settledText }, ...segments]);
      const delta = progress.agreed.push(text);
      settle(progress, segments);
      if (delta !== "") await send(transcriptionEvent("delta", progress.itemId, { delta }));
    } catch (error) {
      if (!signal.aborted) log.debug("a partial transcript failed", { requestId, error });
    } finally {
      const nowMs = performance.now();
      progress.readyAtMs = nowMs + REST * (nowMs - startedAtMs);
      this.#abort = undefined;
    }
  }
}

/**
 * Whether the model has too much to do for partial transcripts: most of its slots stay free for requests that clients
 * wait for.
 */
function isBusy(session: Session): boolean {
  const { state, numInFlight } = session;
  return state.phase !== "ready" || 4 * numInFlight >= state.info.maxSequences;
}

/** Settles segments whose text is final: they are not transcribed again, which bounds the cost of long turns. */
function settle(progress: Progress, segments: readonly TranscriptSegment[]): void {
  const { fromMs, toMs, agreed } = progress;
  if (toMs - fromMs < SETTLED_MS) return;
  let text = progress.settledText;
  for (const segment of segments.slice(0, -1)) {
    text += segment.text;
    if (!agreed.text.startsWith(text.trimStart())) return;
    progress.settledText = text;
    progress.fromMs = fromMs + 1000 * segment.endSeconds;
  }
}
