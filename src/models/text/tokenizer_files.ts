/**
 * Reads a folder's tokenizer, for models of any kind. Models that do not chat need no more than this.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import {
  type Json,
  locate,
  type ModelFolder,
  readOptionalJson,
  readSettings,
} from "../../hub/model_folder.ts";
import { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { MAX_TOKEN_ID } from "../../tokenizer/vocabulary.ts";
import {
  either,
  type FieldRule,
  fields,
  FLAG,
  listRule,
  nonZero,
  requireFields,
  TEXT,
  whole,
} from "../folder/config_fields.ts";
import { readSpelledBytes } from "../../tokenizer/pre_tokenizers.ts";
import { readByteToken } from "../../tokenizer/decoders.ts";

/** A tokenizer and the content of its two files. */
export interface TokenizerFiles {
  readonly tokenizer: Tokenizer;
  /** Content of `tokenizer.json`. */
  readonly json: Json;
  /** Content of `tokenizer_config.json`. */
  readonly config: Json;
}

/**
 * Reads `tokenizer.json` and `tokenizer_config.json`.
 *
 * @param options.lowersCase whether to convert texts to lower case before the tokenizer's own normalizer runs.
 * @throws {StartupError} when `tokenizer.json` is missing or a value is invalid; the message names file and field.
 */
export async function readTokenizer(
  folder: ModelFolder,
  { lowersCase = false }: { readonly lowersCase?: boolean } = {},
): Promise<TokenizerFiles> {
  const saved = await readSettings(folder, "tokenizer.json");
  const config = await readOptionalJson(folder, "tokenizer_config.json");
  const locatePath = (name: string) => join(folder.path, locate(folder, name) ?? name);
  const path = locatePath("tokenizer.json");
  requireFields(saved, TOKENIZER, path);
  const json = lowersCase ? addLowercasing(saved) : saved;
  requireFields(config, TOKENIZER_CONFIG, locatePath("tokenizer_config.json"));
  try {
    return { tokenizer: new Tokenizer(json, config), json, config };
  } catch (cause) {
    if (cause instanceof StartupError) {
      // The error's message begins with the name of the file.
      throw new StartupError(`${folder.path}/${cause.message}`, { cause });
    }
    throw new StartupError(`${path} is not supported: ${(cause as Error).message}`, { cause });
  }
}

/** Changes a `tokenizer.json` so that texts are converted to lower case before its own normalizer runs. */
function addLowercasing(json: Json): Json {
  const normalizers = [{ type: "Lowercase" }, ...json["normalizer"] ? [json["normalizer"]] : []];
  return { ...json, normalizer: { type: "Sequence", normalizers } };
}

const TOKEN_ID = whole(0, MAX_TOKEN_ID);

const ANY: FieldRule = () => undefined;
const isText = (value: unknown) => typeof value === "string";

const STEP = fields({ type: TEXT }, { required: ["type"] });

/** A list whose items, hundreds of thousands, are checked only where they are read. */
const LIST = either("an array", [Array.isArray, ANY]);
const VOCABULARY = either("an object, or an array", [isRecord, ANY], [Array.isArray, ANY]);

const SPECIAL_TOKEN = either(
  "a string, or an object with one",
  [isText, TEXT],
  [isRecord, fields({ content: TEXT })],
);

/** The rules for `tokenizer.json`. */
const TOKENIZER: FieldRule = fields({
  model: fields({ type: TEXT, vocab: VOCABULARY, merges: LIST }, {
    required: ["vocab"],
  }),
  added_tokens: listRule(fields({ id: TOKEN_ID, content: TEXT }, { required: ["id", "content"] })),
  normalizer: STEP,
  pre_tokenizer: STEP,
  post_processor: STEP,
  decoder: STEP,
}, { required: ["model"] });

/** The rules for `tokenizer_config.json`. */
const TOKENIZER_CONFIG: FieldRule = fields({
  add_bos_token: FLAG,
  add_eos_token: FLAG,
  clean_up_tokenization_spaces: FLAG,
  // In many files an absurdly large number means that there is no limit.
  model_max_length: nonZero(Infinity),
  bos_token: SPECIAL_TOKEN,
  eos_token: SPECIAL_TOKEN,
  pad_token: SPECIAL_TOKEN,
  unk_token: SPECIAL_TOKEN,
  chat_template: either(
    "a string, or an array of named templates",
    [isText, TEXT],
    [Array.isArray, listRule(fields({ name: TEXT, template: TEXT }))],
    [isRecord, ANY],
  ),
});

/** One token by itself, as `logprobs` report it. */
export interface TokenText {
  /** The token's text. Bytes that do not form a whole character are written as `\xe2`, as OpenAI does. */
  readonly token: string;
  readonly bytes: number[];
}

/**
 * The bytes that each token adds to a text, regardless of its neighbours. The concatenated bytes of a completion's
 * tokens are its text in UTF-8.
 */
export class TokenTexts {
  readonly #tokenizer: Pick<Tokenizer, "idToToken" | "decode">;
  /** Whether the characters of tokens stand for bytes (byte-level BPE). */
  readonly #isByteLevel: boolean;
  /** Whether there are byte tokens such as `<0xE2>`. */
  readonly #hasByteTokens: boolean;
  /** A word that is decoded before a token, to see what the token adds to it. */
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

  /** Returns the bytes that a token adds to the text before it; none if no token has this id. */
  getBytes(tokenId: number): Uint8Array {
    const token = this.#tokenizer.idToToken(tokenId);
    if (token === undefined) return new Uint8Array(0);
    if (this.#isByteLevel) return readSpelledBytes(token);
    const byte = this.#hasByteTokens ? readByteToken(token) : undefined;
    if (byte !== undefined) return Uint8Array.of(byte);
    const { id, text } = this.#probe ??= this.#findProbe();
    return encoder.encode(this.#tokenizer.decode([id, tokenId]).slice(text.length));
  }

  /** Returns the bytes of a token that begins a text, where many tokenizers leave out the space before a word. */
  getFirstBytes(tokenId: number): Uint8Array {
    const bytes = this.getBytes(tokenId);
    const text = this.#tokenizer.decode([tokenId]);
    // The token may be only a part of a character.
    return this.#isByteLevel || text.includes("\uFFFD") ? bytes : encoder.encode(text);
  }

  /** Finds a token of letters only; the token with id 0 if there is none. */
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

/** Lists the types of a decoder and of all decoders within it. */
function listKinds(decoder: unknown): string[] {
  if (typeof decoder !== "object" || decoder === null) return [];
  const { type, decoders } = decoder as { type?: unknown; decoders?: unknown };
  const inner = Array.isArray(decoders) ? decoders.flatMap(listKinds) : [];
  return typeof type === "string" ? [type, ...inner] : inner;
}

/** Spells bytes as text. Bytes that do not form a whole character are written as `\xNN`. */
function spell(bytes: Uint8Array): string {
  const text = decoder.decode(bytes);
  if (!text.includes("\uFFFD")) return text;
  let spelled = "";
  for (let i = 0; i < bytes.length;) {
    const char = decodeCharacter(bytes, i);
    if (char === undefined) spelled += `\\x${bytes[i++]!.toString(16).padStart(2, "0")}`;
    else {
      spelled += char;
      i += encoder.encode(char).length;
    }
  }
  return spelled;
}

const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodeCharacter(bytes: Uint8Array, start: number): string | undefined {
  const lead = bytes[start]!;
  const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  try {
    return strictDecoder.decode(bytes.subarray(start, start + length));
  } catch {
    return undefined;
  }
}
