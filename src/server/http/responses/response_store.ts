/**
 * Responses that later requests may continue from: kept in memory, bounded by count and bytes, the oldest evicted
 * first.
 *
 * @module
 */
import type { InputItem } from "../../../wire/responses_request.ts";
import type { OutputItem, ResponseObject } from "../../../wire/responses_response.ts";
import { HearthError } from "../../../base/errors.ts";

/** Capacity of the store. */
interface ResponseStoreLimits {
  readonly maxResponses: number;
  readonly maxBytes: number;
}

/** An item with an id, by which later requests may refer to it. */
export type StoredItem = InputItem & { readonly id: string };

/** A response and its input. */
interface StoredResponse {
  readonly response: ResponseObject;
  /** Input of its own request, without that of the responses before it. */
  readonly input: readonly StoredItem[];
  /** Label of the API key that it was asked for with: no other key finds it. Absent where no key is required. */
  readonly owner?: string | undefined;
}

/** Who asks for what is stored, and by which field of a request. */
interface StoredQuery {
  readonly owner?: string | undefined;
  readonly param?: string;
}

interface Entry extends StoredResponse {
  readonly numBytes: number;
}

export class ResponseStore {
  readonly #limits: ResponseStoreLimits;
  /** The oldest first. */
  readonly #entries = new Map<string, Entry>();
  #numBytes = 0;

  constructor(limits: ResponseStoreLimits) {
    this.#limits = limits;
  }

  /** Responses that are kept now. */
  get size(): number {
    return this.#entries.size;
  }

  /** Their bytes as JSON. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** Keeps a response; one that is larger than the whole capacity is not kept. */
  add(stored: StoredResponse): void {
    const numBytes = JSON.stringify(stored).length;
    const { maxBytes, maxResponses } = this.#limits;
    if (numBytes > maxBytes || maxResponses === 0) return;
    this.#entries.set(stored.response.id, { ...stored, numBytes });
    this.#numBytes += numBytes;
    for (const id of this.#entries.keys()) {
      if (this.#numBytes <= maxBytes && this.#entries.size <= maxResponses) return;
      this.delete(id);
    }
  }

  /** @throws {HearthError} `not_found` when it was never kept, was evicted, or is another key's. */
  get(id: string, { owner, param }: StoredQuery = {}): StoredResponse {
    const found = this.#entries.get(id);
    if (found !== undefined && found.owner === owner) return found;
    const { maxBytes, maxResponses } = this.#limits;
    throw new HearthError(
      "not_found",
      `There is no stored response ${
        JSON.stringify(id.slice(0, 100))
      }: it never was, was deleted, ` +
        `or left to make room. This server keeps the last ${maxResponses} responses, up to ` +
        `${Math.floor(maxBytes / 2 ** 20)} MiB, in memory.`,
      { param },
    );
  }

  /** @returns whether it existed. */
  delete(id: string): boolean {
    const entry = this.#entries.get(id);
    if (entry === undefined) return false;
    this.#numBytes -= entry.numBytes;
    return this.#entries.delete(id);
  }

  /**
   * The whole conversation up to and with this response.
   *
   * @throws {HearthError} `not_found` when one of the responses in it is gone.
   */
  history(id: string, query: StoredQuery): StoredItem[] {
    const turns: StoredItem[][] = [];
    for (let next: string | null = id; next !== null;) {
      const { response, input }: StoredResponse = this.get(next, query);
      turns.unshift([...input, ...response.output.map(toItem)]);
      next = response.previous_response_id;
    }
    return turns.flat();
  }

  /** An item of any response that is kept for this owner. @throws {HearthError} `not_found`. */
  findItem(id: string, query: StoredQuery & { readonly param: string }): StoredItem {
    const { owner, param } = query;
    for (const { response, input, owner: keptFor } of this.#entries.values()) {
      if (keptFor !== owner) continue;
      const item = input.find((each) => each.id === id) ??
        response.output.filter((each) => each.id === id).map(toItem)[0];
      if (item !== undefined) return item;
    }
    throw new HearthError(
      "not_found",
      `${param}: no stored response has an item ${JSON.stringify(id.slice(0, 100))}.`,
      { param },
    );
  }
}

function toItem(item: OutputItem): StoredItem {
  if (item.type !== "message") return item as StoredItem;
  const content = item.content.map(({ text }) => ({ type: "output_text" as const, text }));
  return { type: "message", id: item.id, role: "assistant", content };
}
