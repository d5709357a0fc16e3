import type { ConfigReader } from "./config_reader.ts";
import { StartupError } from "../base/errors.ts";

/** Maps tokens to ids and back. */
export class Vocabulary {
  readonly #ids = new Map<string, number>();
  readonly #tokens: (string | undefined)[] = [];

  /** The largest id plus one. */
  get numIds(): number {
    return this.#tokens.length;
  }

  /** @throws {StartupError} when the id is invalid. */
  set(token: string, id: unknown): void {
    if (!isTokenId(id)) {
      throw new StartupError(
        `tokenizer.json: model.vocab[${
          JSON.stringify(token)
        }]: want a whole number from 0 to ${MAX_TOKEN_ID}, saw ${JSON.stringify(id)}.`,
      );
    }
    this.#ids.set(token, id);
    // Most files list tokens in the order of their ids; pushing them keeps the array without holes.
    if (id === this.#tokens.length) this.#tokens.push(token);
    else {
      while (this.#tokens.length <= id) this.#tokens.push(undefined);
      this.#tokens[id] = token;
    }
  }

  tokenToId(token: string): number | undefined {
    return this.#ids.get(token);
  }

  idToToken(id: number): string | undefined {
    return this.#tokens[id];
  }

  /** The longest token's length. */
  measureLongest(): number {
    let longest = 0;
    for (const token of this.#ids.keys()) longest = Math.max(longest, token.length);
    return longest;
  }

  entries(): MapIterator<[token: string, id: number]> {
    return this.#ids.entries();
  }

  /** Ids of the tokens `<0x00>` to `<0xFF>`, by byte; -1 if there is none. */
  byteIds(): Int32Array {
    return Int32Array.from(
      { length: 256 },
      (_, byte) => this.tokenToId(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`) ?? -1,
    );
  }
}

/** Far more ids than any vocabulary has, to bound the arrays whose length is the largest id. */
export const MAX_TOKEN_ID = 2 ** 24;

function isTokenId(id: unknown): id is number {
  return Number.isInteger(id) && (id as number) >= 0 && (id as number) <= MAX_TOKEN_ID;
}

/**
 * Reads `vocab`, an object of ids by token.
 *
 * @throws {StartupError} when it is not an object.
 */
export function readVocabulary(reader: ConfigReader): Vocabulary {
  reader.part("vocab");
  const vocabulary = new Vocabulary();
  const ids = reader.raw("vocab") as Readonly<Record<string, unknown>>;
  // Half the time of a list of keys, or of entries: there are 30,000 to 260,000.
  // deno-lint-ignore guard-for-in -- a file's objects inherit nothing that is listed
  for (const token in ids) vocabulary.set(token, ids[token]);
  return vocabulary;
}

/** Splits words into tokens. */
export interface TokenModel {
  readonly vocabulary: Vocabulary;
  /** Appends the ids of a word. */
  encode(word: string, ids: number[]): void;
}
