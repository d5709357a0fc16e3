/**
 * The tokens of a vocabulary as a trie over their bytes, stored in depth-first order.
 *
 * @module
 */

/** Work that pauses wherever it yields. */
export type Chunked<Result> = Generator<void, Result, void>;

/** Tokens processed between two yields, which takes a fraction of a millisecond. */
export const TOKENS_PER_CHUNK = 128;

type Token = readonly [id: number, bytes: Uint8Array];

export class TokenTrie {
  /** The first token with each byte string, and for each token the next one with the same bytes; -1 for none. */
  readonly #tokens: Int32Array;
  readonly #sameAs: Int32Array;
  /** For each node: its byte, its depth (from 1), and the node after its subtree. */
  readonly #bytes: Uint8Array;
  readonly #depths: Uint16Array;
  readonly #ends: Int32Array;
  readonly #states: unknown[] = [];

  private constructor(numNodes: number, vocabSize: number) {
    this.#tokens = new Int32Array(numNodes).fill(-1);
    this.#sameAs = new Int32Array(vocabSize).fill(-1);
    this.#bytes = new Uint8Array(numNodes);
    this.#depths = new Uint16Array(numNodes);
    this.#ends = new Int32Array(numNodes);
  }

  /** Builds the trie. @param tokens with non-empty bytes and distinct ids. */
  static *build(tokens: readonly Token[], vocabSize: number): Chunked<TokenTrie> {
    const sorted = yield* sortTokens(tokens);
    let numNodes = 0;
    for (const [i, [, bytes]] of sorted.entries()) {
      if (i % TOKENS_PER_CHUNK === 0) yield;
      numNodes += bytes.length - sharedLength(bytes, sorted[i - 1]?.[1]);
    }
    const trie = new TokenTrie(numNodes, vocabSize);
    const path: number[] = [];
    let node = 0;
    for (const [i, [id, bytes]] of sorted.entries()) {
      if (i % TOKENS_PER_CHUNK === 0) yield;
      const shared = sharedLength(bytes, sorted[i - 1]?.[1]);
      for (const closed of path.splice(shared)) trie.#ends[closed] = node;
      for (let depth = shared; depth < bytes.length; depth++) {
        trie.#bytes[node] = bytes[depth]!;
        trie.#depths[node] = depth + 1;
        path.push(node++);
      }
      const last = path.at(-1)!;
      trie.#sameAs[id] = trie.#tokens[last]!;
      trie.#tokens[last] = id;
    }
    for (const closed of path) trie.#ends[closed] = node;
    return trie;
  }

  /**
   * Sets the bits of all tokens whose bytes lead to a state.
   *
   * @param step returns the state after a byte, or `null`.
   * @param mask u32 `[ceil(vocabSize / 32)]`.
   */
  mark<State>(
    start: State,
    step: (state: State, byte: number) => State | null,
    mask: Uint32Array,
  ): void {
    const states = this.#states as State[];
    states[0] = start;
    const numNodes = this.#bytes.length;
    for (let node = 0; node < numNodes;) {
      const depth = this.#depths[node]!;
      const state = step(states[depth - 1]!, this.#bytes[node]!);
      if (state === null) {
        node = this.#ends[node]!;
        continue;
      }
      states[depth] = state;
      for (let id = this.#tokens[node]!; id >= 0; id = this.#sameAs[id]!) {
        mask[id >>> 5]! |= 1 << (id & 31);
      }
      node++;
    }
    states.length = 0;
  }
}

/** Sorts tokens by their bytes. Yields after each group with the same first two bytes. */
function* sortTokens(tokens: readonly Token[]): Chunked<Token[]> {
  const groups = new Map<number, { token: Token; key: string }[]>();
  for (const [i, token] of tokens.entries()) {
    if (i % TOKENS_PER_CHUNK === 0) yield;
    const [first = 0, second = -1] = token[1];
    // Strings with one character per byte are compared faster than arrays.
    const keyed = { token, key: String.fromCharCode(...token[1]) };
    const group = groups.get(first * 257 + second + 1);
    if (group === undefined) groups.set(first * 257 + second + 1, [keyed]);
    else group.push(keyed);
  }
  const sorted: Token[] = [];
  for (const prefix of [...groups.keys()].sort((a, b) => a - b)) {
    yield;
    const group = groups.get(prefix)!.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    for (const { token } of group) sorted.push(token);
  }
  return sorted;
}

function sharedLength(a: Uint8Array, b: Uint8Array | undefined): number {
  const most = Math.min(a.length, b?.length ?? 0);
  let length = 0;
  while (length < most && a[length] === b![length]) length++;
  return length;
}
