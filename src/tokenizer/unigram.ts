import { StartupError } from "../base/errors.ts";
import { BudgetError } from "./budget_error.ts";
import type { ConfigReader } from "./config_reader.ts";
import { type TokenModel, Vocabulary } from "./vocabulary.ts";

/** How much worse the score of an unknown character is than that of the unlikeliest token. */
const UNK_PENALTY = 10;

/** Most steps for one word. SentencePiece's own tokens have at most 16 characters. */
const MAX_STEPS = 1_000_000;
const MAX_STEPS_PER_CHAR = 100;

const encoder = new TextEncoder();

/** SentencePiece's unigram model: splits a word in the likeliest way (Kudo 2018). */
export class UnigramModel implements TokenModel {
  readonly vocabulary = new Vocabulary();
  readonly #scores: number[] = [];
  readonly #root: TrieNode = { id: -1, children: undefined };
  readonly #unkId: number | undefined;
  readonly #unkScore: number;
  readonly #byteIds: Int32Array | undefined;

  constructor(reader: ConfigReader) {
    const pieces = reader.array("vocab");
    let least = Infinity;
    pieces.forEach((piece, id) => {
      const [token, score] = Array.isArray(piece) ? piece : [];
      if (typeof token !== "string" || typeof score !== "number") {
        throw new StartupError(
          `tokenizer.json: model.vocab[${id}]: want a token and its score, saw ${
            JSON.stringify(piece)
          }.`,
        );
      }
      this.vocabulary.set(token, id);
      this.#scores.push(score);
      least = Math.min(least, score);
      this.#addToTrie(token, id);
    });
    this.#unkScore = least - UNK_PENALTY;
    if (reader.has("unk_id")) this.#unkId = reader.number("unk_id");
    if (reader.boolean("byte_fallback", false)) this.#byteIds = this.vocabulary.byteIds();
  }

  encode(word: string, ids: number[]): void {
    let unknown = "";
    const endUnknown = () => {
      if (unknown !== "") this.#pushUnknown(unknown, ids);
      unknown = "";
    };
    for (const { start, end, id } of this.#bestPath(word)) {
      // Consecutive unknown characters are one token.
      if (id < 0 || id === this.#unkId) unknown += word.slice(start, end);
      else {
        endUnknown();
        ids.push(id);
      }
    }
    endUnknown();
  }

  #pushUnknown(text: string, ids: number[]): void {
    const bytes = this.#byteIds && encoder.encode(text);
    const known = this.vocabulary.tokenToId(text);
    if (known !== undefined) ids.push(known);
    else if (bytes?.every((byte) => this.#byteIds![byte]! >= 0)) {
      for (const byte of bytes) ids.push(this.#byteIds![byte]!);
    } else if (this.#unkId !== undefined) ids.push(this.#unkId);
  }

  /** Finds the best path by Viterbi's algorithm. An id of -1 is an unknown character. */
  #bestPath(word: string): { start: number; end: number; id: number }[] {
    const scores = new Float64Array(word.length + 1);
    const starts = new Int32Array(word.length + 1).fill(-1);
    const ids = new Int32Array(word.length + 1);
    const offer = (start: number, end: number, { id, score }: { id: number; score: number }) => {
      const total = scores[start]! + score;
      if (starts[end]! >= 0 && total <= scores[end]!) return;
      scores[end] = total;
      starts[end] = start;
      ids[end] = id;
    };
    let numSteps = 0;
    for (let start = 0; start < word.length;) {
      const charEnd = start + (word.codePointAt(start)! > 0xffff ? 2 : 1);
      let isKnown = false;
      let node: TrieNode | undefined = this.#root;
      for (let end = start; end < word.length; end++) {
        node = node.children?.get(word.charCodeAt(end));
        numSteps++;
        if (node === undefined) break;
        if (node.id < 0) continue;
        offer(start, end + 1, { id: node.id, score: this.#scores[node.id]! });
        if (end + 1 === charEnd) isKnown = true;
      }
      if (numSteps > MAX_STEPS + MAX_STEPS_PER_CHAR * word.length) {
        throw new BudgetError("its long tokens fit too often");
      }
      if (!isKnown) offer(start, charEnd, { id: -1, score: this.#unkScore });
      start = charEnd;
    }
    const path: { start: number; end: number; id: number }[] = [];
    for (let end = word.length; end > 0; end = starts[end]!) {
      path.push({ start: starts[end]!, end, id: ids[end]! });
    }
    return path.reverse();
  }

  #addToTrie(token: string, id: number): void {
    let node = this.#root;
    for (let at = 0; at < token.length; at++) {
      const unit = token.charCodeAt(at);
      const children: Map<number, TrieNode> = node.children ??= new Map();
      let child = children.get(unit);
      if (child === undefined) children.set(unit, child = { id: -1, children: undefined });
      node = child;
    }
    node.id = id;
  }
}

/** A node of a trie over UTF-16 units; `id` is -1 if no token ends here. */
interface TrieNode {
  id: number;
  children: Map<number, TrieNode> | undefined;
}
