/**
 * The tokens of a vocabulary by their bytes, as a tree in the order of a walk through it.
 *
 * @module
 */

export class TokenTrie {
  /** Of the first tokens with some bytes, and of each the next with the same; -1 for none. */
  readonly #tokens: Int32Array;
  readonly #sameAs: Int32Array;
  /** By node: its byte, its depth from 1, the node behind its subtree. */
  readonly #bytes: Uint8Array;
  readonly #depths: Uint16Array;
  readonly #ends: Int32Array;
  readonly #states: unknown[] = [];

  /** @param tokens ids and bytes, none empty, no id twice. */
  constructor(tokens: readonly (readonly [number, Uint8Array])[], vocabSize: number) {
    // Strings of bytes are compared faster than bytes.
    const keyed = tokens.map((token) => ({ token, key: String.fromCharCode(...token[1]) }));
    keyed.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    const sorted = keyed.map(({ token }) => token);
    const numNodes = sorted.reduce(
      (sum, [, bytes], i) => sum + bytes.length - sharedLength(bytes, sorted[i - 1]?.[1]),
      0,
    );
    this.#tokens = new Int32Array(numNodes).fill(-1);
    this.#sameAs = new Int32Array(vocabSize).fill(-1);
    this.#bytes = new Uint8Array(numNodes);
    this.#depths = new Uint16Array(numNodes);
    this.#ends = new Int32Array(numNodes);
    const path: number[] = [];
    let node = 0;
    sorted.forEach(([id, bytes], i) => {
      const shared = sharedLength(bytes, sorted[i - 1]?.[1]);
      for (const closed of path.splice(shared)) this.#ends[closed] = node;
      for (let depth = shared; depth < bytes.length; depth++) {
        this.#bytes[node] = bytes[depth]!;
        this.#depths[node] = depth + 1;
        path.push(node++);
      }
      const last = path.at(-1)!;
      this.#sameAs[id] = this.#tokens[last]!;
      this.#tokens[last] = id;
    });
    for (const closed of path) this.#ends[closed] = node;
  }

  /**
   * Sets the bits of the tokens whose bytes lead somewhere.
   *
   * @param step where a byte leads from a state, `null` for nowhere.
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

function sharedLength(a: Uint8Array, b: Uint8Array | undefined): number {
  const most = Math.min(a.length, b?.length ?? 0);
  let length = 0;
  while (length < most && a[length] === b![length]) length++;
  return length;
}
