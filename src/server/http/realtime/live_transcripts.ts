/**
 * Transcribes a session's turns, sends the transcripts in order, and tracks which part of a turn's text is final. If the
 * model's queue is full, the tasks of live sessions wait, while all other requests are refused.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { makeWavFile } from "../../../media/sound_format.ts";
import type { TranscribeEvent } from "../../../models/task.ts";
import { describeError, makeTranscriptionEvent, type ServerEvent } from "../../../wire/realtime.ts";
import { joinTranscript, type TranscriptSegment } from "../../../wire/transcription_response.ts";
import type { Session } from "../../session/session.ts";
import { requireSuccess, type TaskStream } from "../../session/task_stream.ts";
import { logFailure } from "../sse.ts";
import { sleep } from "../../../base/timing.ts";

/**
 * Maximum number of a session's turns that the model works on at once. With more, a client that sends audio faster than
 * real time would keep others waiting.
 */
const MAX_PENDING = 2;

/** A turn whose audio is complete. */
export interface Turn {
  readonly itemId: string;
  readonly samples: Int16Array<ArrayBuffer>;
  readonly sampleRateHz: number;
  readonly language: string | undefined;
  /** The text of the turn that has already been sent. */
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

  /** Whether the transcript of a turn is still to be completed. */
  get isPending(): boolean {
    return this.#numPending > 0;
  }

  /**
   * Transcribes a turn. Resolves when another turn may be added. The transcript may not be complete then.
   */
  async add(turn: Turn): Promise<void> {
    if (this.#numPending >= MAX_PENDING) await this.#lastButOne;
    this.#numPending++;
    const before = this.#last;
    const stream = this.#start(turn);
    // `#report` handles the error after the transcripts of earlier turns.
    stream.catch(() => {});
    this.#lastButOne = before;
    const { itemId, agreed, samples, sampleRateHz } = turn;
    const heard = { itemId, agreed, seconds: samples.length / sampleRateHz };
    this.#last = before.then(() => this.#report(heard, stream)).finally(() => this.#numPending--);
    await stream.catch(() => {});
  }

  /** Waits until all transcripts have been sent. */
  async settle(): Promise<void> {
    await this.#last;
  }

  async #start(turn: Turn): Promise<TaskStream<TranscribeEvent>> {
    const { session, requestId, signal } = this.#options;
    return await retryWhileFull(() =>
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
      if (delta !== "") await send(makeTranscriptionEvent("delta", itemId, { delta }));
    };
    try {
      for await (const event of requireSuccess(await opened)) {
        if (event.type !== "segment") continue;
        segments.push(event.segment);
        const text = joinTranscript(segments);
        // If the transcript differs from the text that was sent, its rest can only be found when it is complete.
        if (text.startsWith(agreed.text)) await sendRest(text);
      }
      await sendRest(joinTranscript(segments));
      await send(makeTranscriptionEvent("completed", itemId, {
        transcript: agreed.text,
        usage: { type: "duration", seconds: Number(seconds.toFixed(3)) },
      }));
    } catch (thrown) {
      if (signal.aborted) return;
      const error = HearthError.from(thrown);
      logFailure(requestId, error);
      await send(makeTranscriptionEvent("failed", itemId, { error: describeError(error) }));
    }
  }
}

const RETRY_MS = 100;
const MAX_WAIT_MS = 60_000;

/**
 * Retries `ask` while the model's queue is full, for up to a minute.
 *
 * @throws {HearthError} what `ask` throws; `overloaded` only after the minute.
 * @throws the signal's reason.
 */
export async function retryWhileFull<T>(
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

const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** The text of one turn, as far as it is final. Final text is never taken back. */
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
   * @returns the text that has become final. It ends with a word, because punctuation after the last word may change
   * when the speaker goes on.
   */
  push(hypothesis: string): string {
    const [before, now] = [this.#hypothesis, hypothesis].map((text) =>
      splitWords(dropBeginning(this.#text, text))
    );
    this.#hypothesis = hypothesis;
    let numAgreed = 0;
    while (numAgreed < now!.length && isSame(now![numAgreed], before![numAgreed])) numAgreed++;
    while (numAgreed > 0 && !now![numAgreed - 1]!.isWordLike) numAgreed--;
    return this.#add(joinWords(now!.slice(0, numAgreed)));
  }

  /** Takes the final transcript. @returns the rest of it, after the text that was final before. */
  end(transcript: string): string {
    return this.#add(dropBeginning(this.#text, transcript));
  }

  #add(text: string): string {
    this.#text += text;
    return text;
  }
}

/**
 * Returns the rest of a text after `beginning`. If the text begins differently, as many of its words are skipped as come
 * nearest to `beginning` by edit distance.
 */
function dropBeginning(beginning: string, text: string): string {
  if (text.startsWith(beginning)) return text.slice(beginning.length);
  const words = splitWords(text);
  const ends = [...words.keys()].filter((at) => words[at]!.isWordLike);
  const numWords = findNearestLength(listWords(splitWords(beginning)), listWords(words));
  const end = numWords === 0 ? 0 : ends[numWords - 1]! + 1;
  return joinWords(words.slice(end));
}

/** Finds how many words from the start of `words` come nearest to `beginning` by edit distance. */
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
