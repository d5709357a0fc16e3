/**
 * The text and the bytes of single tokens.
 *
 * @module
 */
import type { Tokenizer } from "@huggingface/tokenizers";

/** One token by itself, as `logprobs` report it. */
export interface TokenText {
  /** Its text; bytes that are no whole character are written `\xe2`, as OpenAI does. */
  readonly token: string;
  readonly bytes: number[];
}

type Spelling = "byte-level" | "byte-fallback" | "other";

/**
 * The bytes that each token adds to the text, independent of its neighbours. The bytes of a completion's tokens, one
 * after the other, are its text in UTF-8 (a SentencePiece tokenizer drops the space they begin with).
 */
export class TokenTexts {
  readonly #tokenizer: Pick<Tokenizer, "id_to_token" | "decode">;
  /** Tokens outside the vocabulary proper, spelled as they are (special tokens and their like). */
  readonly #added: ReadonlyMap<number, unknown>;
  readonly #spelling: Spelling;

  /** @param decoder `decoder` of its `tokenizer.json`. */
  constructor(
    tokenizer: Pick<Tokenizer, "id_to_token" | "decode" | "get_added_tokens_decoder">,
    decoder: unknown,
  ) {
    this.#tokenizer = tokenizer;
    this.#added = tokenizer.get_added_tokens_decoder();
    const kinds = listKinds(decoder);
    if (kinds.includes("ByteLevel")) this.#spelling = "byte-level";
    else if (kinds.includes("ByteFallback") || kinds.includes("Metaspace")) {
      this.#spelling = "byte-fallback";
    } else this.#spelling = "other";
  }

  of(tokenId: number): TokenText {
    const bytes = this.bytesOf(tokenId);
    return { token: spell(bytes), bytes: [...bytes] };
  }

  /** The bytes that a token adds to the text; none for an id without a token. */
  bytesOf(tokenId: number): Uint8Array {
    const token = this.#tokenizer.id_to_token(tokenId);
    if (token === undefined) return new Uint8Array(0);
    if (this.#added.has(tokenId)) return encoder.encode(token);
    switch (this.#spelling) {
      case "byte-level":
        return bytesOfSpelling(token);
      case "byte-fallback": {
        const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
        if (byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16));
        return encoder.encode(token.replaceAll("\u2581", " "));
      }
      case "other":
        return encoder.encode(this.#tokenizer.decode([tokenId]));
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Byte-level BPE spells each byte as a printable character (Radford et al. 2019, GPT-2's `bytes_to_unicode`): the byte by
 * code unit.
 */
const BYTE_OF_UNIT = new Uint8Array(0x200);
for (let byte = 0, numShifted = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  BYTE_OF_UNIT[isPrintable ? byte : 0x100 + numShifted++] = byte;
}

function bytesOfSpelling(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) bytes[i] = BYTE_OF_UNIT[token.charCodeAt(i)] ?? 0;
  return bytes;
}

/** The types of a decoder and of those it is made of. */
function listKinds(decoder: unknown): string[] {
  if (typeof decoder !== "object" || decoder === null) return [];
  const { type, decoders } = decoder as { type?: unknown; decoders?: unknown };
  const inner = Array.isArray(decoders) ? decoders.flatMap(listKinds) : [];
  return typeof type === "string" ? [type, ...inner] : inner;
}

/** Bytes as text, those that are no part of a whole character as `\xNN`. */
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
