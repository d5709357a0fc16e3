/**
 * Transcribes a turn while somebody is still speaking. The audio so far is transcribed again and again, and text on
 * which two transcripts in a row agree is sent: LocalAgreement-2.
 *
 * @see Macháček, Dabre and Bojar, "Turning Whisper into Real-Time Transcription System", 2023
 * @module
 */
import { log } from "../../../base/log.ts";
import { makeWavFile } from "../../../media/sound_format.ts";
import { type ServerEvent, transcriptionEvent } from "../../../wire/realtime_events.ts";
import { type TranscriptSegment, transcriptText } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import { successes } from "../../session/task_stream.ts";
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
      const events = session.stream({ type: "transcribe", ...task }, { signal });
      for await (const event of successes(events)) {
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

const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** The text of one turn. Final text is never taken back. */
export class AgreedText {
  #text = "";
  #hypothesis = "";

  /** All text that is final so far. */
  get text(): string {
    return this.#text;
  }

  /**
   * Takes the next hypothesis.
   *
   * @param hypothesis the whole text of the turn so far.
   * @returns the text that has become final. It ends with a word, because a full stop after it may disappear once the
   * speaker goes on.
   */
  push(hypothesis: string): string {
    const [before, now] = [this.#hypothesis, hypothesis].map((text) =>
      splitWords(textAfter(this.#text, text))
    );
    this.#hypothesis = hypothesis;
    let numAgreed = 0;
    while (numAgreed < now!.length && isSame(now![numAgreed], before![numAgreed])) numAgreed++;
    while (numAgreed > 0 && !now![numAgreed - 1]!.isWordLike) numAgreed--;
    return this.#add(joinWords(now!.slice(0, numAgreed)));
  }

  /** Takes the final transcript. @returns the text that follows what was final before. */
  end(transcript: string): string {
    return this.#add(textAfter(this.#text, transcript));
  }

  #add(text: string): string {
    this.#text += text;
    return text;
  }
}

/**
 * Returns the rest of a text after `beginning`. If the text begins differently, the words at its start that are nearest
 * to `beginning` by edit distance are skipped instead.
 */
function textAfter(beginning: string, text: string): string {
  if (text.startsWith(beginning)) return text.slice(beginning.length);
  const words = splitWords(text);
  const ends = [...words.keys()].filter((at) => words[at]!.isWordLike);
  const numWords = findNearestLength(listWords(splitWords(beginning)), listWords(words));
  const end = numWords === 0 ? 0 : ends[numWords - 1]! + 1;
  return joinWords(words.slice(end));
}

/** How many words at the start of `words` are nearest to `beginning`, by edit distance. */
function findNearestLength(beginning: readonly string[], words: readonly string[]): number {
  let row = [0, ...words.map((_, at) => at + 1)];
  for (const [index, word] of beginning.entries()) {
    const next = [index + 1];
    for (const [at, other] of words.entries()) {
      const replaced = row[at]! + Number(word !== other);
      next.push(Math.min(replaced, row[at + 1]! + 1, next[at]! + 1));
    }
    row = next;
  }
  const least = Math.min(...row);
  const distance = (length: number) => Math.abs(length - beginning.length);
  const nearest = [...row.keys()].filter((length) => row[length] === least);
  return nearest.reduce((best, length) => distance(length) < distance(best) ? length : best);
}

function splitWords(text: string): Intl.SegmentData[] {
  return [...segmenter.segment(text)];
}

function joinWords(words: readonly Intl.SegmentData[]): string {
  return words.map(({ segment }) => segment).join("");
}

function listWords(words: readonly Intl.SegmentData[]): string[] {
  return words.filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment.toLowerCase());
}

function isSame(a: Intl.SegmentData | undefined, b: Intl.SegmentData | undefined): boolean {
  return a?.segment === b?.segment;
}
