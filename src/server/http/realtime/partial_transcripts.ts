/**
 * Buffers a session's audio, and transcribes a turn while somebody is still speaking. The audio so far is transcribed
 * again and again. Text on which two transcripts in a row agree is final, and is sent: LocalAgreement-2.
 *
 * @see Macháček, Dabre and Bojar, "Turning Whisper into Real-Time Transcription System", 2023
 * @module
 */
import { log } from "../../../base/log.ts";
import { makeWavFile } from "../../../media/sound_format.ts";
import { makeTranscriptionEvent, type ServerEvent } from "../../../wire/realtime.ts";
import { joinTranscript, type TranscriptSegment } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import { requireSuccess } from "../../session/task_stream.ts";
import { AgreedText } from "./live_transcripts.ts";
import { LiveDecoder, type LiveFormat } from "../../../media/audio/stored_sound.ts";

/**
 * Minimum length of new audio between two transcripts, and minimum time between a turn's beginning and its first
 * transcript. Because of that time, clients that send audio faster than real time get no partial transcripts.
 */
const INTERVAL_MS = 1000;
/** Pause after a transcript, as a multiple of the time it took. */
const REST = 2;
/** If a transcript covered at least this much audio, segments whose text is final are not transcribed again. */
const SETTLED_MS = 10_000;
/** If more audio than this is not settled, there are no further partial transcripts of the turn. */
const MAX_SPAN_MS = 60_000;

interface PartialTranscriptsOptions {
  readonly session: Session;
  readonly requestId: string;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
  readonly send: (event: ServerEvent) => Promise<void>;
}

interface OpenTurn {
  readonly itemId: string;
  /** The buffered audio, which must begin at or before the turn. */
  readonly audio: InputAudioBuffer;
  readonly language: string | undefined;
}

/** The state of a turn's text. */
interface Progress {
  readonly itemId: string;
  readonly agreed: AgreedText;
  /** Text of the settled segments, which are not transcribed again. */
  settledText: string;
  /** Position at which the settled segments end. */
  fromMs: number;
  /** Position at which the audio of the last transcript ended. */
  toMs: number;
  /** Time at which the next transcript may start. */
  readyAtMs: number;
}

/** The partial transcripts of a session, one at a time. */
export class PartialTranscripts {
  readonly #options: PartialTranscriptsOptions;
  #progress: Progress | undefined;
  #abort: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: PartialTranscriptsOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#abort?.abort(), { once: true });
  }

  /** Starts to transcribe a turn so far, if there is enough new audio and the model has little else to do. */
  update({ itemId, audio, language }: OpenTurn): void {
    const nowMs = performance.now();
    if (this.#progress?.itemId !== itemId) {
      const { startMs } = audio;
      const readyAtMs = nowMs + INTERVAL_MS;
      const agreed = new AgreedText();
      const start = { settledText: "", fromMs: startMs, toMs: startMs };
      this.#progress = { itemId, agreed, ...start, readyAtMs };
    }
    const progress = this.#progress;
    const { endMs } = audio;
    const hasNewAudio = endMs - progress.toMs >= INTERVAL_MS;
    const isLong = endMs - progress.fromMs > MAX_SPAN_MS;
    const isResting = this.#abort !== undefined || nowMs < progress.readyAtMs;
    if (!hasNewAudio || isLong || isResting || isBusy(this.#options.session)) return;
    progress.toMs = endMs;
    this.#abort = new AbortController();
    const file = makeWavFile(audio.copyFrom(progress.fromMs), audio.format.sampleRateHz);
    this.#running = this.#transcribe(progress, {
      audio: file,
      language,
      signal: this.#abort.signal,
    });
  }

  /** Ends the turn, because its audio is complete or no longer wanted. @returns the text that has been sent. */
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
      const events = session.stream({ type: "transcribe", ...task }, { signal });
      for await (const event of requireSuccess(events)) {
        if (event.type === "segment") segments.push(event.segment);
      }
      const text = joinTranscript([{ text: progress.settledText }, ...segments]);
      const delta = progress.agreed.push(text);
      settle(progress, segments);
      if (delta !== "") await send(makeTranscriptionEvent("delta", progress.itemId, { delta }));
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
 * Whether the model has too much to do for partial transcripts. They start only while less than a quarter of the
 * model's capacity is in use. The rest is for requests that clients wait for.
 */
function isBusy(session: Session): boolean {
  const { state, numInFlight } = session;
  return state.phase !== "ready" || 4 * numInFlight >= state.info.maxSequences;
}

/** Settles the segments whose text is final. They are not transcribed again, which limits the cost of long turns. */
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

/** A session's buffered audio, in one format. Positions are in milliseconds since the session's first audio. */
export class InputAudioBuffer {
  readonly format: LiveFormat;
  readonly #decoder: LiveDecoder;
  readonly #offsetMs: number;
  #chunks: Int16Array<ArrayBuffer>[] = [];
  /** Index of the first buffered sample. */
  #start = 0;
  /** Index after the last buffered sample. */
  #end = 0;

  /** @param options.startMs position at which the audio in this format begins. */
  constructor(format: LiveFormat, { startMs }: { readonly startMs: number }) {
    this.format = format;
    this.#decoder = new LiveDecoder(format);
    this.#offsetMs = startMs;
  }

  /** Position at which the buffered audio begins. */
  get startMs(): number {
    return this.#offsetMs + this.#start / this.#samplesPerMs;
  }

  /** Position at which the buffered audio ends. */
  get endMs(): number {
    return this.#offsetMs + this.#end / this.#samplesPerMs;
  }

  get durationMs(): number {
    return (this.#end - this.#start) / this.#samplesPerMs;
  }

  /** Bytes of the buffered samples. */
  get numBytes(): number {
    return (this.#end - this.#start) * Int16Array.BYTES_PER_ELEMENT;
  }

  /** Decodes bytes into samples, without adding them to the buffer. */
  decode(bytes: Uint8Array): Int16Array<ArrayBuffer> {
    return this.#decoder.push(bytes);
  }

  push(samples: Int16Array<ArrayBuffer>): void {
    this.#chunks.push(samples);
    this.#end += samples.length;
  }

  /** Copies the audio from a position to the end. */
  copyFrom(ms: number): Int16Array<ArrayBuffer> {
    const from = this.#indexAt(ms) - this.#start;
    const samples = new Int16Array(this.#end - this.#start - from);
    let at = -from;
    for (const chunk of this.#chunks) {
      if (at + chunk.length > 0) samples.set(chunk.subarray(Math.max(0, -at)), Math.max(0, at));
      at += chunk.length;
    }
    return samples;
  }

  /** Removes and returns the audio up to a position. */
  takeTo(ms: number): Int16Array<ArrayBuffer> {
    const taken = new Int16Array(this.#indexAt(ms) - this.#start);
    for (let at = 0; at < taken.length;) {
      const chunk = this.#chunks[0]!;
      const part = chunk.subarray(0, taken.length - at);
      taken.set(part, at);
      at += part.length;
      this.#drop(part.length);
    }
    return taken;
  }

  /** Drops the audio before a position. */
  dropTo(ms: number): void {
    for (let left = this.#indexAt(ms) - this.#start; left > 0;) {
      const length = Math.min(left, this.#chunks[0]!.length);
      left -= length;
      this.#drop(length);
    }
  }

  /** Drops samples from the first chunk. */
  #drop(length: number): void {
    const chunk = this.#chunks.shift()!;
    if (length < chunk.length) this.#chunks.unshift(chunk.subarray(length));
    this.#start += length;
  }

  #indexAt(ms: number): number {
    const index = Math.round((ms - this.#offsetMs) * this.#samplesPerMs);
    return Math.max(this.#start, Math.min(this.#end, index));
  }

  get #samplesPerMs(): number {
    return this.format.sampleRateHz / 1000;
  }
}
