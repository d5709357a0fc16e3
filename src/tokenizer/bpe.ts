import { StartupError } from "../base/errors.ts";
import type { ConfigReader } from "./config_reader.ts";
import { MergeTable } from "./merge_table.ts";
import { mergePairs } from "./merge_pairs.ts";
import { readVocabulary, type TokenModel, type Vocabulary } from "./vocabulary.ts";

/** Most words whose tokens are cached. */
const MAX_CACHED_WORDS = 10_000;
const MAX_CACHED_LENGTH = 256;

const encoder = new TextEncoder();

/** Byte-pair encoding: characters are merged pair by pair, in the order of the merges (Sennrich et al. 2016). */
export class BpeModel implements TokenModel {
  readonly vocabulary: Vocabulary;
  readonly #merges: MergeTable;
  readonly #unkId: number | undefined;
  readonly #prefix: string;
  readonly #suffix: string;
  readonly #fusesUnknown: boolean;
  readonly #ignoresMerges: boolean;
  /** Absent if unknown characters are not spelled as bytes. */
  readonly #byteIds: Int32Array | undefined;
  #cache = new Map<string, readonly number[]>();

  constructor(reader: ConfigReader) {
    this.vocabulary = readVocabulary(reader);
    this.#unkId = this.vocabulary.tokenToId(reader.optionalString("unk_token") ?? "");
    this.#prefix = reader.string("continuing_subword_prefix", "");
    this.#suffix = reader.string("end_of_word_suffix", "");
    this.#fusesUnknown = reader.boolean("fuse_unk", false);
    this.#ignoresMerges = reader.boolean("ignore_merges", false);
    if (reader.boolean("byte_fallback", false)) this.#byteIds = this.vocabulary.byteIds();
    this.#merges = this.#readMerges(reader.array("merges"));
  }

  encode(word: string, ids: number[]): void {
    let found = this.#cache.get(word);
    if (found === undefined) {
      found = this.#encode(word);
      if (word.length <= MAX_CACHED_LENGTH) {
        if (this.#cache.size >= MAX_CACHED_WORDS) this.#cache = new Map();
        this.#cache.set(word, found);
      }
    }
    for (const id of found) ids.push(id);
  }

  #encode(word: string): readonly number[] {
    const whole = this.#ignoresMerges ? this.vocabulary.tokenToId(word) : undefined;
    return whole === undefined ? mergePairs(this.#idsOfChars(word), this.#merges) : [whole];
  }

  #idsOfChars(word: string): number[] {
    const ids: number[] = [];
    let wasUnknown = false;
    for (let at = 0; at < word.length;) {
      const width = word.codePointAt(at)! > 0xffff ? 2 : 1;
      const next = at + width;
      let char = word.slice(at, next);
      if (at > 0) char = this.#prefix + char;
      if (next >= word.length) char += this.#suffix;
      at = next;
      const id = this.vocabulary.tokenToId(char);
      if (id !== undefined) ids.push(id);
      else if (this.#pushBytes(char, ids)) continue;
      else if (this.#unkId !== undefined && !(wasUnknown && this.#fusesUnknown)) {
        ids.push(this.#unkId);
      }
      wasUnknown = id === undefined;
    }
    return ids;
  }

  /**
   * Appends the byte tokens of a character.
   *
   * @returns whether there is a token for each byte.
   */
  #pushBytes(char: string, ids: number[]): boolean {
    const byteIds = this.#byteIds;
    if (byteIds === undefined) return false;
    const bytes = encoder.encode(char);
    if (!bytes.every((byte) => byteIds[byte]! >= 0)) return false;
    for (const byte of bytes) ids.push(byteIds[byte]!);
    return true;
  }

  #readMerges(merges: readonly unknown[]): MergeTable {
    const table = new MergeTable(merges.length);
    /** Most vocabularies have the merged tokens in the order of the merges. */
    let expected = 0;
    for (let rank = 0; rank < merges.length; rank++) {
      const merge = merges[rank];
      const pair = typeof merge === "string" ? splitPair(merge) : merge as string[] | null;
      // Not destructured, which takes longer for hundreds of thousands.
      const left = pair?.[0];
      const right = pair?.[1];
      const leftId = this.vocabulary.tokenToId(left!);
      const rightId = this.vocabulary.tokenToId(right!);
      const merged = leftId === undefined || rightId === undefined
        ? undefined
        : this.#findMerged(left!, right!.slice(this.#prefix.length), expected);
      if (merged === undefined) {
        throw new StartupError(
          `tokenizer.json: model.merges[${rank}]: ${JSON.stringify(merge)} merges no two tokens ` +
            "of the vocabulary into a third.",
        );
      }
      table.set(leftId!, rightId!, { rank, merged });
      expected = merged + 1;
    }
    return table;
  }

  /**
   * The id of the token that joins two texts. Comparing them with the expected token is faster than joining them for a
   * lookup.
   */
  #findMerged(left: string, right: string, expected: number): number | undefined {
    const token = this.vocabulary.idToToken(expected);
    const isExpected = token?.length === left.length + right.length && token.startsWith(left) &&
      token.endsWith(right);
    return isExpected ? expected : this.vocabulary.tokenToId(left + right);
  }
}

function splitPair(merge: string): string[] {
  const at = merge.indexOf(" ");
  return at < 0 ? [] : [merge.slice(0, at), merge.slice(at + 1)];
}
