/**
 * A folder's tokenizer and chat template.
 *
 * @module
 */
import { readTokenizer, TokenTexts } from "./tokenizer_files.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { type ChatTemplate, loadChatTemplate } from "./chat/chat_template.ts";
import { type EncodeOptions, isLongText, LongTextEncoder } from "./long_text_encoder.ts";
import { findContextLength } from "../folder/config_fields.ts";

/** Converts text to token ids and back, and conversations to prompts. */
export interface TextTokenizer {
  /** The chat template; absent if the model does not chat. */
  readonly template: ChatTemplate | undefined;
  readonly vocabSize: number;
  /** Returns a token's spelling; `undefined` if there is no token with this id. */
  idToToken(id: number): string | undefined;
  /** Encodes a text. Special tokens appear only if the text spells them. */
  encode(text: string): number[];
  /** Encodes a text and adds the special tokens around it. */
  encodeWhole(text: string): number[];
  /**
   * Encodes a text while yielding to the thread's other work, with special tokens around it on request.
   *
   * @param options.isPrompt whether to refuse a text with more than twice the tokens of the context.
   */
  encodeInSlices(
    text: string,
    options: EncodeOptions & { readonly isPrompt: boolean },
  ): Promise<number[]>;
  /** Returns the id of the token with this spelling, if there is one. */
  tokenToId(token: string): number | undefined;
  /** Decodes token ids; special tokens are left out. */
  decode(ids: number[]): string;
  /** Returns the ids of the special tokens to hide: of all that are not part of a marker. */
  findHiddenTokens(markers: readonly string[]): ReadonlySet<number>;
  /** Decodes token ids; special tokens are spelled out. */
  decodeAll(ids: number[]): string;
  /** The bytes of each token; special tokens are spelled out. */
  readonly tokenTexts: TokenTexts;
  /** Tokens added to the vocabulary, by id. `decode` leaves out the special ones. */
  readonly addedTokens: ReadonlyMap<number, {
    readonly content: string;
    readonly special: boolean;
  }>;
}

/** Loads the tokenizer and the chat template. @throws {StartupError} when there is no tokenizer. */
export async function loadTokenizer(folder: ModelFolder): Promise<TextTokenizer> {
  const { tokenizer, json, config } = await readTokenizer(folder);
  const { addedTokens, frames: { single: { before, after } } } = tokenizer;
  const long = new LongTextEncoder(tokenizer);
  const maxTokens = findContextLength(folder);
  const ofPrompt = { maxTokens, mayCut: false, what: "The prompt" };
  const encode = (text: string) => long.encode(text, ofPrompt);
  const enclose = (ids: readonly number[]) => [...before, ...ids, ...after];
  const encodeWhole = (text: string) => enclose(encode(text));
  return {
    template: await loadChatTemplate(folder, config),
    vocabSize: tokenizer.numIds,
    idToToken: (id) => tokenizer.idToToken(id),
    encode,
    encodeWhole,
    encodeInSlices: async (text, { hasSpecial, isPrompt, signal }) => {
      if (!isLongText(text)) return hasSpecial ? encodeWhole(text) : encode(text);
      const options = { ...ofPrompt, maxTokens: isPrompt ? maxTokens : undefined };
      const ids = await long.encodeInSlices(text, options, signal);
      return hasSpecial ? enclose(ids) : ids;
    },
    tokenToId: (token) => tokenizer.tokenToId(token),
    decode: (ids) => tokenizer.decode(ids, { skipsSpecial: true }),
    findHiddenTokens: (markers) => {
      const isKept = (content: string) => markers.some((marker) => marker.includes(content));
      const hidden = [...addedTokens.values()]
        .filter(({ content, special }) => special && !isKept(content));
      return new Set(hidden.map(({ id }) => id));
    },
    decodeAll: (ids) => tokenizer.decode(ids),
    addedTokens,
    tokenTexts: new TokenTexts(tokenizer, json["decoder"]),
  };
}
