import { StartupError } from "../base/errors.ts";
import type { ConfigReader } from "./config_reader.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Longest grapheme, in bytes, that is looked up as a whole. */
const MAX_GRAPHEME_BYTES = 5;

/**
 * SentencePiece's normalization table: a double-array trie (Darts-clone) of the texts to replace, and their
 * replacements, each ended by a zero byte.
 */
export class PrecompiledMap {
  readonly #units: Uint32Array;
  readonly #replacements: Uint8Array;
  readonly #segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

  /** @throws {StartupError} when the table is damaged. */
  constructor(reader: ConfigReader) {
    const path = `tokenizer.json: ${reader.path}.precompiled_charsmap`;
    let bytes: Uint8Array;
    try {
      bytes = Uint8Array.from(
        atob(reader.string("precompiled_charsmap")),
        (char) => char.charCodeAt(0),
      );
    } catch (cause) {
      throw new StartupError(`${path}: it is not base64.`, { cause });
    }
    const view = new DataView(bytes.buffer);
    const numBytes = bytes.length < 4 ? -1 : view.getUint32(0, true);
    if (numBytes < 4 || numBytes % 4 !== 0 || 4 + numBytes > bytes.length) {
      throw new StartupError(`${path}: its table is damaged or cut off.`);
    }
    this.#units = Uint32Array.from(
      { length: numBytes / 4 },
      (_, index) => view.getUint32(4 + 4 * index, true),
    );
    this.#replacements = bytes.subarray(4 + numBytes);
  }

  normalize(text: string): string {
    let normalized = "";
    for (const { segment } of this.#segmenter.segment(text)) {
      normalized += this.#normalizeGrapheme(segment);
    }
    return normalized;
  }

  #normalizeGrapheme(grapheme: string): string {
    const bytes = encoder.encode(grapheme);
    const whole = bytes.length <= MAX_GRAPHEME_BYTES ? this.#find(bytes) : undefined;
    if (whole !== undefined) return whole;
    let normalized = "";
    for (const char of grapheme) normalized += this.#find(encoder.encode(char)) ?? char;
    return normalized;
  }

  /** The replacement for the shortest entry that is a prefix of the bytes. */
  #find(bytes: Uint8Array): string | undefined {
    const units = this.#units;
    let at = readOffset(units[0]!);
    for (const byte of bytes) {
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = units[at];
      // Compares the label together with the bit that only leaves have.
      if (unit === undefined || (unit & 0x800000ff) !== byte) return undefined;
      at ^= readOffset(unit);
      const hasLeaf = (unit >>> 8) & 1;
      if (hasLeaf) return this.#replacementAt(units[at]! & 0x7fffffff);
    }
    return undefined;
  }

  #replacementAt(start: number): string {
    const end = this.#replacements.indexOf(0, start);
    return decoder.decode(this.#replacements.subarray(start, end < 0 ? undefined : end));
  }
}

function readOffset(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
