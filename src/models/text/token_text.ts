/**
 * The text and the bytes of each token.
 *
 * @module
 */
import { readSpelledBytes } from "../../tokenizer/unicode.ts";
import { readByteToken } from "../../tokenizer/decoders.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";

/** One token by itself, as `logprobs` report it. */
export interface TokenText {
  /** The token's text; bytes that form no whole character are written `\xe2`, as OpenAI does. */
  readonly token: string;
  readonly bytes: number[];
}

/**
 * The bytes that each token adds to a text, regardless of its neighbours. The concatenated bytes of a completion's
 * tokens are its text in UTF-8.
 */
export class TokenTexts {
  readonly #tokenizer: Pick<Tokenizer, "idToToken" | "decode">;
  /** Whether tokens spell bytes as characters (byte-level BPE). */
  readonly #isByteLevel: boolean;
  /** Whether there are byte tokens such as `<0xE2>`. */
  readonly #hasByteTokens: boolean;
  /** A word to put before a token, to see what the token adds. */
  #probe: { readonly id: number; readonly text: string } | undefined;
  readonly #numIds: number;

  /** @param decoder the field `decoder` of `tokenizer.json`. */
  constructor(tokenizer: Pick<Tokenizer, "idToToken" | "decode" | "numIds">, decoder: unknown) {
    this.#tokenizer = tokenizer;
    this.#numIds = tokenizer.numIds;
    const kinds = listKinds(decoder);
    this.#isByteLevel = kinds.includes("ByteLevel");
    this.#hasByteTokens = kinds.includes("ByteFallback");
  }

  of(tokenId: number): TokenText {
    const bytes = this.getBytes(tokenId);
    return { token: spell(bytes), bytes: [...bytes] };
  }

  /** The bytes that a token adds to the text before it; none if no token has this id. */
  getBytes(tokenId: number): Uint8Array {
    const token = this.#tokenizer.idToToken(tokenId);
    if (token === undefined) return new Uint8Array(0);
    if (this.#isByteLevel) return readSpelledBytes(token);
    const byte = this.#hasByteTokens ? readByteToken(token) : undefined;
    if (byte !== undefined) return Uint8Array.of(byte);
    const { id, text } = this.#probe ??= this.#findProbe();
    return encoder.encode(this.#tokenizer.decode([id, tokenId]).slice(text.length));
  }

  /** The bytes of a token that begins a text: many tokenizers then leave out the space before a word. */
  getFirstBytes(tokenId: number): Uint8Array {
    const bytes = this.getBytes(tokenId);
    const text = this.#tokenizer.decode([tokenId]);
    // A byte may be only a part of a character.
    return this.#isByteLevel || text.includes("\uFFFD") ? bytes : encoder.encode(text);
  }

  /** Finds a plain token, if there is one. */
  #findProbe(): { readonly id: number; readonly text: string } {
    let id = 0;
    for (let each = 0; each < this.#numIds; each++) {
      const token = this.#tokenizer.idToToken(each);
      if (token === undefined || !/^\p{L}+$/u.test(token)) continue;
      id = each;
      break;
    }
    return { id, text: this.#tokenizer.decode([id]) };
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The types of a decoder and of all decoders within it. */
function listKinds(decoder: unknown): string[] {
  if (typeof decoder !== "object" || decoder === null) return [];
  const { type, decoders } = decoder as { type?: unknown; decoders?: unknown };
  const inner = Array.isArray(decoders) ? decoders.flatMap(listKinds) : [];
  return typeof type === "string" ? [type, ...inner] : inner;
}

/** Spells bytes as text; those that form no whole character are written `\xNN`. */
function spell(bytes: Uint8Array): string {
  const text = decoder.decode(bytes);
  if (!text.includes("\uFFFD")) return text;
  let spelled = "";
  for (let i = 0; i < bytes.length;) {
    const char = wholeCharAt(bytes, i);
    if (char === undefined) spelled += `\\x${bytes[i++]!.toString(16).padStart(2, "0")}`;
    else {
      spelled += char;
      i += encoder.encode(char).length;
    }
  }
  return spelled;
}

const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function wholeCharAt(bytes: Uint8Array, start: number): string | undefined {
  const lead = bytes[start]!;
  const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  try {
    return strictDecoder.decode(bytes.subarray(start, start + length));
  } catch {
    return undefined;
  }
}
