/**
 * A thread that many ask, and does one thing after the other.
 *
 * @module
 */
import { HearthError, type WireError } from "../errors.ts";
import type { AskedThread } from "./asked_thread.ts";
import { Semaphore } from "./semaphore.ts";

/** What a thread may answer whatever it is asked. */
export type NoAnswer =
  /** It is the fault of what was asked. */
  | { readonly type: "refused"; readonly error: WireError }
  /** It is the thread's own. */
  | { readonly type: "failed"; readonly reason: string };

/** How to ask. */
export interface QueueOptions {
  /** Takes the question out of the queue; one whose turn has come is answered. */
  readonly signal: AbortSignal;
  /** Memory that goes to the thread and is not copied. */
  readonly transfer?: Transferable[];
}

/** First come, first served; a thread that dies or fails is replaced when the next question comes. */
export class QueuedThread<Question, Answer> {
  readonly #restart: () => Promise<AskedThread<Question, Answer | NoAnswer>>;
  readonly #turn = new Semaphore(1);
  #thread: AskedThread<Question, Answer | NoAnswer> | undefined;

  /** Owns `thread` and those that come after it. */
  constructor(
    thread: AskedThread<Question, Answer | NoAnswer>,
    restart: () => Promise<AskedThread<Question, Answer | NoAnswer>>,
  ) {
    this.#thread = thread;
    this.#restart = restart;
  }

  /** Whether it is asked something, or questions wait. */
  get isBusy(): boolean {
    return this.#turn.numAcquired > 0;
  }

  /**
   * @throws {HearthError} when the thread refuses the question.
   * @throws {Error} when it fails or dies of it.
   * @throws the signal's reason.
   */
  async ask(question: Question, { signal, transfer }: QueueOptions): Promise<Answer> {
    const place = await this.#turn.acquire(signal);
    try {
      const thread = this.#thread ??= await this.#restart();
      return taken(await thread.ask(question, transfer));
    } catch (error) {
      if (!(error instanceof HearthError)) this.close();
      throw error;
    } finally {
      this.#turn.release(place);
    }
  }

  /** Ends the thread; whoever waits for an answer gets an error. */
  close(): void {
    this.#thread?.end();
    this.#thread = undefined;
  }
}

function taken<Answer>(answer: Answer | NoAnswer): Answer {
  const known = answer as NoAnswer;
  if (known.type === "refused") throw HearthError.fromWire(known.error);
  if (known.type === "failed") throw new Error(known.reason);
  return answer as Answer;
}
