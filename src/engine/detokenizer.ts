/**
 * Turns the tokens of a completion into text, and finds where a stop string ends it.
 *
 * @module
 */
/** Maximum number of bytes of a UTF-8 character. */
const MAX_CHAR_BYTES = 4;

/**
 * Returns the bytes that a token adds to the text; `undefined` if it is not shown. The first token that is shown may
 * lose the space before its word.
 */
export type GetTokenBytes = (tokenId: number, isFirst: boolean) => Uint8Array | undefined;

/**
 * Turns the tokens of one completion into text, one by one. The concatenated bytes of the tokens are decoded as UTF-8.
 * The bytes of an incomplete character are held back, and invalid bytes become U+FFFD.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const detokenizer = new Detokenizer((byte) => Uint8Array.of(byte));
 * const fragments = [0x68, 0x69, 0xf0, 0x9f, 0x98, 0x80].map((byte) => detokenizer.push(byte));
 * assert.deepEqual(fragments, ["h", "i", "", "", "", "😀"]);
 * assert.equal(detokenizer.flush(), "");
 * ```
 */
export class Detokenizer {
  readonly #getBytes: GetTokenBytes;
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Bytes of an incomplete character. */
  #heldBack = new Uint8Array(0);
  #isFirst: boolean;
  #length = 0;

  /** @param options.isFirst whether the completion begins the text. */
  constructor(getBytes: GetTokenBytes, { isFirst = false }: { readonly isFirst?: boolean } = {}) {
    this.#getBytes = getBytes;
    this.#isFirst = isFirst;
  }

  /** UTF-16 units of the characters returned so far. */
  get length(): number {
    return this.#length;
  }

  get holdsBack(): boolean {
    return this.#heldBack.length > 0;
  }

  /** Takes the next token. @returns the text that it completes: whole characters, often none. */
  push(tokenId: number): string {
    const bytes = this.#getBytes(tokenId, this.#isFirst);
    if (bytes === undefined) return "";
    this.#isFirst = false;
    const all = new Uint8Array(this.#heldBack.length + bytes.length);
    all.set(this.#heldBack);
    all.set(bytes, this.#heldBack.length);
    const end = all.length - countIncomplete(all);
    this.#heldBack = all.slice(end);
    return this.#read(all.subarray(0, end));
  }

  /** Ends the text. @returns the text of the bytes that were held back. */
  flush(): string {
    const rest = this.#heldBack;
    this.#heldBack = new Uint8Array(0);
    return this.#read(rest);
  }

  #read(bytes: Uint8Array): string {
    const text = this.#utf8.decode(bytes);
    this.#length += text.length;
    return text;
  }
}

/** Counts the bytes at the end that belong to an incomplete character. */
function countIncomplete(bytes: Uint8Array): number {
  for (let length = 1; length < MAX_CHAR_BYTES && length <= bytes.length; length++) {
    const byte = bytes[bytes.length - length]!;
    const isContinuation = (byte & 0xc0) === 0x80;
    if (isContinuation) continue;
    return length < countCharBytes(byte) ? length : 0;
  }
  return 0;
}

/** Counts the bytes of a character by its first byte; 1 for a byte that begins no character. */
function countCharBytes(lead: number): number {
  if (lead < 0xc2 || lead > 0xf4) return 1;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/** A node in the trie of stop strings: the longest prefix of a stop string with which the text so far ends. */
class TrieNode {
  /** Length of the prefix. */
  readonly depth: number;
  readonly next = new Map<number, TrieNode>();
  /** Node of the longest proper suffix of this prefix that is also in the trie; the root's is the root. */
  fallback: TrieNode = this;
  /** The longest stop string that the prefix ends with. */
  stop: string | undefined;

  constructor(depth: number) {
    this.depth = depth;
  }
}

/** Tries by their list of stop strings, so that all choices of a request share one trie. */
const tries = new WeakMap<readonly string[], TrieNode>();

interface StopResult {
  /** Text before any stop string. */
  readonly text: string;
  /** The stop string that was found, if any; no text follows it. */
  readonly stop: string | undefined;
}

/**
 * Passes text on up to the first stop string, and never any part of one.
 *
 * Text that may be the beginning of a stop string is held back until that is decided. The stop string that is completed
 * first wins; if two end at the same position, the longer one wins. The result does not depend on how the text is
 * divided into fragments.
 *
 * This is an Aho–Corasick automaton over UTF-16 units ("Efficient string matching", CACM 18(6), 1975). The time per
 * unit does not depend on the number or length of the stop strings, and the depth of the automaton's state is the
 * number of units to hold back.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const matcher = new StopMatcher(["\n\nUser:"]);
 * assert.deepEqual(matcher.push("Yes.\n"), { text: "Yes.", stop: undefined });
 * assert.deepEqual(matcher.push("No.\n\nUs"), { text: "\nNo.", stop: undefined });
 * assert.deepEqual(matcher.push("er: and"), { text: "", stop: "\n\nUser:" });
 * ```
 */
export class StopMatcher {
  #node: TrieNode;
  #heldBack = "";

  /** @param stops stop strings; empty ones never match. */
  constructor(stops: readonly string[]) {
    this.#node = tries.get(stops) ?? buildTrie(stops);
    tries.set(stops, this.#node);
  }

  /** Takes the next fragment. Must not be called again once a stop string was found. */
  push(fragment: string): StopResult {
    const text = this.#heldBack + fragment;
    for (let i = this.#heldBack.length; i < text.length; i++) {
      this.#node = advance(this.#node, text.charCodeAt(i));
      const { stop } = this.#node;
      if (stop === undefined) continue;
      this.#heldBack = "";
      return { text: text.slice(0, i + 1 - stop.length), stop };
    }
    const end = text.length - this.#node.depth;
    this.#heldBack = text.slice(end);
    return { text: text.slice(0, end), stop: undefined };
  }

  /** Ends the text. @returns the text that was held back. */
  flush(): string {
    const text = this.#heldBack;
    this.#heldBack = "";
    return text;
  }
}

function advance(from: TrieNode, unit: number): TrieNode {
  let node = from;
  for (;;) {
    const next = node.next.get(unit);
    if (next !== undefined) return next;
    if (node.depth === 0) return node;
    node = node.fallback;
  }
}

function buildTrie(stops: readonly string[]): TrieNode {
  const root = new TrieNode(0);
  for (const stop of stops) {
    let node = root;
    for (let i = 0; i < stop.length; i++) {
      const unit = stop.charCodeAt(i);
      const next = node.next.get(unit) ?? new TrieNode(i + 1);
      node.next.set(unit, next);
      node = next;
    }
    if (node !== root) node.stop = stop;
  }
  // Nodes are visited in order of depth, so a node's fallback, which is less deep, is already complete.
  const nodes = [root];
  for (const node of nodes) {
    for (const [unit, next] of node.next) {
      next.fallback = node === root ? root : advance(node.fallback, unit);
      next.stop ??= next.fallback.stop;
      nodes.push(next);
    }
  }
  return root;
}
