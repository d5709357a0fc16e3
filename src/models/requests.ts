/**
 * Requests that are worked on a few at a time, each until it is answered, refused or cancelled.
 *
 * @module
 */
import { Places } from "./places.ts";
import { type Work, WorkUnderWay } from "./work_under_way.ts";

/** See the module. */
export class Requests {
  readonly #places: Places;
  readonly #underWay = new WorkUnderWay();

  /** @param size most at a time. */
  constructor(size: number) {
    this.#places = new Places(size);
  }

  /** How many are worked on, and how many wait. */
  get counts(): { running: number; waiting: number } {
    return { running: this.#places.numTaken, waiting: this.#places.numWaiting };
  }

  /** Takes up a request. @returns cancels it. */
  start(work: Omit<Work, "what">): () => void {
    return this.#underWay.start({
      ...work,
      what: "request",
      answer: async (signal) => {
        const place = await this.#places.take(signal);
        try {
          await work.answer(signal);
        } finally {
          this.#places.giveBack(place);
        }
      },
    });
  }

  /** Ends every request unheard and waits until nothing is under way. */
  async close(): Promise<void> {
    this.#underWay.cancel();
    await this.#underWay.settle();
  }
}
