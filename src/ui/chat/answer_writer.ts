/**
 * The answers that are being written in this tab: at most one per conversation, and stored as they grow.
 *
 * @module
 */
import { streamAnswer } from "./answer_stream.ts";
import { saveTurn } from "./chat_database.ts";
import { chatRequest, type ChatRequestOptions } from "./chat_request.ts";
import { OwnWriting } from "./other_tabs.ts";
import type { Turn } from "./turns.ts";

/** How often a growing answer is stored, so that little is lost if the page closes. */
const SAVE_EVERY_MS = 1000;

interface LiveAnswer {
  turn: Turn;
  savedMs: number;
  readonly controller: AbortController;
}

/** Shows and stores the answers. */
interface AnswerKeeper {
  /** Called when an answer begins or grows. */
  show(turn: Turn): void;
  /** Called when an answer is complete; `failure` says why there is none. */
  end(turn: Turn, failure: string | undefined): void;
  /** Called when an answer could not be stored. */
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

  /** The answer that is being written in a conversation, as far as it has come. */
  find(conversationId: string): Turn | undefined {
    return this.#answers.get(conversationId)?.turn;
  }

  /** Stops the answer in a conversation; its text so far is kept. */
  stop(conversationId: string): void {
    this.#answers.get(conversationId)?.controller.abort();
  }

  /**
   * Lets a model write an answer, or continue one.
   *
   * @param begun the answer so far, perhaps empty.
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
    // Another answer may have replaced this one.
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
