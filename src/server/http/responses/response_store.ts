/**
 * Keeps responses that later requests may continue. They are kept in memory, limited in number and size, and the oldest
 * are evicted first. Also plans which turns of a conversation are left out if it is too long.
 *
 * @module
 */
import type { InputItem } from "../../../wire/responses_request.ts";
import type { OutputItem, ResponseObject } from "../../../wire/responses_response.ts";
import { HearthError } from "../../../base/errors.ts";
import { Buffer } from "node:buffer";

interface ResponseStoreLimits {
  readonly maxResponses: number;
  readonly maxBytes: number;
}

/** An item with its id, by which later requests may refer to it. */
export type StoredItem = InputItem & { readonly id: string };

interface StoredResponse {
  readonly response: ResponseObject;
  /** Input of the response's request, without the items of earlier responses. */
  readonly input: readonly StoredItem[];
  /** Label of the API key that created the response. Other keys cannot find it. Absent if no key is required. */
  readonly owner?: string | undefined;
}

/** The label of the API key that asks for a response, and the request field that names the response. */
interface StoredQuery {
  readonly owner?: string | undefined;
  readonly param?: string;
}

interface Entry extends StoredResponse {
  readonly numBytes: number;
}

export class ResponseStore {
  readonly #limits: ResponseStoreLimits;
  /** Stored responses by id, oldest first. */
  readonly #entries = new Map<string, Entry>();
  #numBytes = 0;

  constructor(limits: ResponseStoreLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Size of the stored responses as JSON, in bytes of UTF-8. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** Stores a response, and evicts the oldest ones to make room. A response that alone is too large is not stored. */
  add(stored: StoredResponse): void {
    const numBytes = Buffer.byteLength(JSON.stringify(stored));
    const { maxBytes, maxResponses } = this.#limits;
    if (numBytes > maxBytes || maxResponses === 0) return;
    this.#entries.set(stored.response.id, { ...stored, numBytes });
    this.#numBytes += numBytes;
    for (const id of this.#entries.keys()) {
      if (this.#numBytes <= maxBytes && this.#entries.size <= maxResponses) return;
      this.delete(id);
    }
  }

  /**
   * Returns a stored response.
   *
   * @throws {HearthError} `not_found` when it was never stored, was deleted or evicted, or belongs to another key.
   */
  get(id: string, { owner, param }: StoredQuery = {}): StoredResponse {
    const found = this.#entries.get(id);
    if (found !== undefined && found.owner === owner) return found;
    const { maxBytes, maxResponses } = this.#limits;
    throw new HearthError(
      "not_found",
      `There is no stored response ${JSON.stringify(id.slice(0, 100))}: it was never stored, ` +
        "was deleted by a request, or was removed to free memory. This server keeps the last " +
        `${maxResponses} responses, up to ${Math.floor(maxBytes / 2 ** 20)} MiB.`,
      { param },
    );
  }

  /** Deletes a response. @returns whether it existed. */
  delete(id: string): boolean {
    const entry = this.#entries.get(id);
    if (entry === undefined) return false;
    this.#numBytes -= entry.numBytes;
    return this.#entries.delete(id);
  }

  /**
   * Returns the whole conversation up to and including a response.
   *
   * @throws {HearthError} `not_found` when one of the conversation's responses is gone.
   */
  getHistory(id: string, query: StoredQuery): StoredItem[] {
    const turns: StoredItem[][] = [];
    for (let next: string | null = id; next !== null;) {
      const { response, input }: StoredResponse = this.get(next, query);
      turns.unshift([...input, ...response.output.map(toItem)]);
      next = response.previous_response_id;
    }
    return turns.flat();
  }

  /** Finds an item in any stored response of this owner. @throws {HearthError} `not_found`. */
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

/** On average, a token of prose has fewer characters than this, in any language. */
const MAX_CHARS_PER_TOKEN = 32;

/**
 * Yields numbers of items to leave out from the beginning of a conversation, one for each attempt to make it fit. Only
 * whole turns are left out, so that every tool result keeps its call. The last attempt keeps only the last turn.
 * Attempts that are certainly too long are skipped. Each attempt tokenizes all that it keeps, so there should be few: the
 * first ones leave out 0, 1, 2, 4 … turns, up to half of them, and each later one leaves out half of the rest.
 *
 * @param contextLength length of the context in tokens; unlimited if absent.
 */
export function* planTruncations(
  items: readonly InputItem[],
  contextLength = Infinity,
): Generator<number> {
  const starts = items.flatMap((item, index) => isFromUser(item) ? [index] : []);
  const most = Math.max(0, starts.length - 1);
  const first = Math.min(most, countTooLong(items, { starts, contextLength }));
  for (let more = 0;; more = chooseNext(more, most - first)) {
    const dropped = first + more;
    yield dropped > 0 ? starts[dropped]! : 0;
    if (dropped >= most) return;
  }
}

function chooseNext(more: number, most: number): number {
  if (more < most / 2) return Math.min(most, Math.max(1, 2 * more));
  return more + Math.ceil((most - more) / 2);
}

/** Counts the oldest turns that cannot be kept: together with all later turns they are certainly too long. */
function countTooLong(
  items: readonly InputItem[],
  { starts, contextLength }: {
    readonly starts: readonly number[];
    readonly contextLength: number;
  },
): number {
  let room = contextLength * MAX_CHARS_PER_TOKEN;
  let start = items.length;
  while (start > 0 && (room -= countItemChars(items[start - 1]!)) >= 0) start--;
  return starts.filter((each) => each < start).length;
}

/** Counts the characters of an item's text. */
function countItemChars(item: InputItem): number {
  switch (item.type) {
    case "message":
      return countChars(item.content);
    case "function_call_output":
      return countChars(item.output);
    case "function_call":
      return item.arguments.length;
    default:
      return 0;
  }
}

function countChars(content: string | readonly object[]): number {
  if (typeof content === "string") return content.length;
  return content.reduce(
    (sum, part) => sum + ("text" in part ? String(part.text).length : 0),
    0,
  );
}

function isFromUser(item: InputItem): boolean {
  return item.type === "message" && item.role === "user";
}
