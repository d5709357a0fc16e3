/**
 * Decoders turn tokens back into text.
 *
 * @module
 */
import type { ConfigReader } from "./config_reader.ts";
import { replaceAll } from "./normalizers.ts";
import { readPrependScheme, readSpelledBytes } from "./pre_tokenizers.ts";

/** Turns tokens into segments of text. */
export type Decoder = (tokens: readonly string[]) => readonly string[];

const lossy = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** @throws {StartupError} for an unknown decoder. */
export function readDecoder(reader: ConfigReader): Decoder {
  switch (reader.type) {
    case "Sequence": {
      const all = reader.parts("decoders").map(readDecoder);
      return (tokens) => all.reduce((segments, decode) => decode(segments), tokens);
    }
    case "ByteLevel":
      return decodeBytes;
    case "ByteFallback":
      return decodeByteFallback;
    case "Fuse":
      return (tokens) => [tokens.join("")];
    case "Replace": {
      const pattern = reader.pattern("pattern");
      const content = reader.string("content");
      return (tokens) => tokens.map((token) => replaceAll(token, pattern.findAll(token), content));
    }
    case "Strip": {
      const content = reader.string("content");
      const counts = { start: reader.number("start", 0), stop: reader.number("stop", 0) };
      return (tokens) => tokens.map((token) => strip(token, content, counts));
    }
    case "Metaspace": {
      const replacement = reader.string("replacement", "▁");
      const dropsFirst = readPrependScheme(reader) !== "never";
      return (tokens) =>
        tokens.map((token, index) =>
          token.replaceAll(replacement, index === 0 && dropsFirst ? "" : " ")
        );
    }
    case "WordPiece":
      return readWordPiece(reader);
    case "BPEDecoder": {
      const suffix = reader.string("suffix", "</w>");
      return (tokens) =>
        tokens.map((token, index) =>
          token.replaceAll(suffix, index === tokens.length - 1 ? "" : " ")
        );
    }
    case "CTC":
      return readCtc(reader);
    default:
      throw reader.unknownType();
  }
}

function decodeBytes(tokens: readonly string[]): string[] {
  const bytes = tokens.map(readSpelledBytes);
  return [lossy.decode(concat(bytes))];
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The byte that a SentencePiece token such as `<0x0A>` stands for; `undefined` for other tokens. */
export function readByteToken(token: string): number | undefined {
  const digits = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/** Joins each run of byte tokens into text. If a run is not valid UTF-8, each of its bytes becomes U+FFFD. */
function decodeByteFallback(tokens: readonly string[]): string[] {
  const segments: string[] = [];
  let bytes: number[] = [];
  const endBytes = () => {
    if (bytes.length === 0) return;
    try {
      segments.push(strict.decode(Uint8Array.from(bytes)));
    } catch {
      segments.push(...bytes.map(() => "\uFFFD"));
    }
    bytes = [];
  };
  for (const token of tokens) {
    const byte = readByteToken(token);
    if (byte === undefined) {
      endBytes();
      segments.push(token);
    } else bytes.push(byte);
  }
  endBytes();
  return segments;
}

function strip(
  token: string,
  content: string,
  { start, stop }: { readonly start: number; readonly stop: number },
): string {
  if (content === "") return token;
  let first = 0;
  let end = token.length;
  for (let i = 0; i < start && token.startsWith(content, first); i++) first += content.length;
  for (let i = 0; i < stop && end > first && token.endsWith(content, end); i++) {
    end -= content.length;
  }
  return token.slice(first, end);
}

function readWordPiece(reader: ConfigReader): Decoder {
  const prefix = reader.string("prefix", "##");
  const cleans = reader.boolean("cleanup", true);
  return (tokens) =>
    tokens.map((token, index) => {
      const spaced = index === 0
        ? token
        : token.startsWith(prefix)
        ? token.slice(prefix.length)
        : ` ${token}`;
      return cleans ? cleanUp(spaced) : spaced;
    });
}

const CLEAN_UPS = [
  ...[[" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"]],
  ...[[" 'm", "'m"], [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"]],
] as const;

/** Like the Rust library, removes spaces before English punctuation and contractions, in each token by itself. */
function cleanUp(token: string): string {
  return CLEAN_UPS.reduce((text, [from, to]) => text.replaceAll(from, to), token);
}

function readCtc(reader: ConfigReader): Decoder {
  const padToken = reader.string("pad_token", "<pad>");
  const delimiter = reader.string("word_delimiter_token", "|");
  const cleans = reader.boolean("cleanup", true);
  return (tokens) =>
    tokens.filter((token, index) => token !== tokens[index - 1]).map((token) => {
      const shown = token.replaceAll(padToken, "");
      return cleans ? cleanUp(shown).replaceAll(delimiter, " ") : shown;
    }).filter((token) => token !== "");
}
