/**
 * The answers that are being written in this tab: one in each conversation at most, and stored as they grow.
 *
 * @module
 */
import { streamAnswer } from "./answer_stream.ts";
import { saveTurn } from "./chat_database.ts";
import { chatRequest, type ChatRequestOptions } from "./chat_request.ts";
import { OwnWriting } from "./other_tabs.ts";
import type { Turn } from "./turns.ts";

/** A growing answer is stored so often, so that little of it is lost with the page. */
const SAVE_EVERY_MS = 1000;

interface LiveAnswer {
  turn: Turn;
  savedMs: number;
  readonly controller: AbortController;
}

/** Where the answers are shown and kept. */
interface AnswerKeeper {
  /** An answer has grown, or has begun. */
  show(turn: Turn): void;
  /** An answer is whole; `failure` says why nothing came of it. */
  end(turn: Turn, failure: string | undefined): void;
  /** It could not be stored. */
  fail(error: Error): void;
}

export class AnswerWriter {
  readonly #answers = new Map<string, LiveAnswer>();
  readonly #writing = new OwnWriting();
  readonly #keeper: AnswerKeeper;

  constructor(keeper: AnswerKeeper) {
    this.#keeper = keeper;
    addEventListener("pagehide", () => {
      for (const live of this.#answers.values()) this.#save(live);
    });
  }

  /** Ids of the conversations that are being answered. */
  get conversationIds(): ReadonlySet<string> {
    return new Set(this.#answers.keys());
  }

  /** The answer that a conversation gets, as far as it has come. */
  find(conversationId: string): Turn | undefined {
    return this.#answers.get(conversationId)?.turn;
  }

  /** Ends the answer that a conversation gets; what came of it is kept. */
  stop(conversationId: string): void {
    this.#answers.get(conversationId)?.controller.abort();
  }

  /**
   * Has a model write an answer, or more of one.
   *
   * @param begun the answer, empty or as far as it has come.
   */
  async write(begun: Turn, model: string, options: ChatRequestOptions): Promise<void> {
    const { conversationId } = begun;
    this.stop(conversationId);
    const live = { turn: begun, savedMs: Date.now(), controller: new AbortController() };
    const { signal } = live.controller;
    this.#answers.set(conversationId, live);
    this.#announce();
    this.#keeper.show(begun);
    let failure: string | undefined;
    try {
      const written = await streamAnswer(chatRequest(model, options), {
        begun,
        signal,
        onChange: (message) => {
          live.turn = { ...begun, ...message };
          this.#keeper.show(live.turn);
          if (Date.now() - live.savedMs >= SAVE_EVERY_MS) this.#save(live);
        },
      });
      live.turn = { ...begun, ...written };
      failure = signal.aborted ? undefined : written.error;
    } catch (error) {
      failure = (error as Error).message;
    }
    // Another may have taken its place.
    if (this.#answers.get(conversationId) === live) this.#answers.delete(conversationId);
    this.#announce();
    this.#keeper.end(live.turn, failure);
  }

  #announce(): void {
    this.#writing.set([...this.#answers.values()].map(({ turn }) => turn.parentId!));
  }

  #save(live: LiveAnswer): void {
    live.savedMs = Date.now();
    saveTurn({ ...live.turn, isUnfinished: true }).catch((error) => this.#keeper.fail(error));
  }
}
