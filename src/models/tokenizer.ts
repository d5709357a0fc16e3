/**
 * A folder's tokenizer and chat template.
 *
 * @module
 */
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { join } from "node:path";
import { HearthError, StartupError } from "../errors.ts";
import type { ChatMessage } from "../worker/protocol.ts";
import { type Json, type ModelFolder, readJson, readOptionalJson } from "./folder.ts";

/** Text to token ids and back, and conversations to prompts. */
export interface TextTokenizer {
  /** Token ids of a conversation, up to where the assistant is to answer. @throws {HearthError} `invalid_value` when the template refuses it. */
  encodeChat(messages: readonly ChatMessage[]): number[];
  /** Text of token ids; special tokens are left out. */
  decode(ids: number[]): string;
  /** UTF-8 bytes of one token, which may be part of a character; special tokens as they are written. */
  tokenBytes(id: number): Uint8Array;
}

/**
 * Loads `tokenizer.json`, `tokenizer_config.json` and the chat template.
 * A folder without a template is a base model: the messages' texts then follow each other as they are.
 */
export async function loadTokenizer(folder: ModelFolder): Promise<TextTokenizer> {
  if (!folder.files.has("tokenizer.json")) {
    throw new StartupError(`${folder.path} has no tokenizer.json, which a text model needs.`);
  }
  const config = await readOptionalJson(folder, "tokenizer_config.json");
  const tokenizer = new Tokenizer(await readJson(folder.path, "tokenizer.json"), config);
  const source = await chatTemplateOf(folder, config);
  const encodeChat = source === undefined
    ? (messages: readonly ChatMessage[]) =>
      tokenizer.encode(messages.map((message) => message.content).join("\n")).ids
    : templateEncoder(tokenizer, source, specialTokens(config));
  return {
    encodeChat,
    decode: (ids) => tokenizer.decode(ids, { skip_special_tokens: true }),
    tokenBytes: tokenBytesOf(tokenizer),
  };
}

/** The template's source: a file of its own, or in `tokenizer_config.json`, where it may be one of several. */
async function chatTemplateOf(folder: ModelFolder, config: Json): Promise<string | undefined> {
  if (folder.files.has("chat_template.jinja")) {
    return await Deno.readTextFile(join(folder.path, "chat_template.jinja"));
  }
  const { chat_template: separate } = await readOptionalJson(folder, "chat_template.json");
  const template = separate ?? config["chat_template"];
  if (typeof template === "string") return template;
  if (!Array.isArray(template)) return undefined;
  const templates = template as { name: string; template: string }[];
  return (templates.find(({ name }) => name === "default") ?? templates[0])?.template;
}

/** `bos_token` and the like, as templates know them. */
function specialTokens(config: Json): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (!/^(bos|eos|unk|sep|pad|cls|mask)_token$/.test(name)) continue;
    const content = typeof value === "object"
      ? (value as { content?: unknown } | null)?.content
      : value;
    if (typeof content === "string") tokens[name] = content;
  }
  return tokens;
}

function templateEncoder(
  tokenizer: Tokenizer,
  source: string,
  tokens: Record<string, string>,
): TextTokenizer["encodeChat"] {
  const template = new Template(source);
  return (messages) => {
    let prompt: string;
    try {
      prompt = template.render({ ...tokens, messages, add_generation_prompt: true });
    } catch (error) {
      throw new HearthError(
        "invalid_value",
        `The model's chat template refused these messages: ${(error as Error).message}`,
        { param: "messages", cause: error },
      );
    }
    // The template has written the special tokens already.
    return tokenizer.encode(prompt, { add_special_tokens: false }).ids;
  };
}

/**
 * Bytes by token: byte-level BPE spells each byte as a character of its own (the table of GPT-2's `encoder.py`),
 * SentencePiece spells a byte it has no piece for as `<0xE2>` and a space as `▁`.
 */
function tokenBytesOf(tokenizer: Tokenizer): (id: number) => Uint8Array {
  const encoder = new TextEncoder();
  const added = tokenizer.get_added_tokens_decoder();
  const isByteLevel = /"ByteLevel"/.test(JSON.stringify(tokenizer.decoder?.config ?? {}));
  return (id) => {
    const token = tokenizer.id_to_token(id) ?? "";
    if (added.has(id)) return encoder.encode(token);
    if (isByteLevel) {
      return Uint8Array.from([...token], (char) => BYTE_OF_CHARACTER.get(char) ?? 0x3f);
    }
    const byte = /^<0x([0-9A-F]{2})>$/.exec(token)?.[1];
    return byte ? Uint8Array.of(parseInt(byte, 16)) : encoder.encode(token.replaceAll("▁", " "));
  };
}

/** Printable Latin-1 characters stand for themselves, the other bytes for the characters from U+0100 on. */
const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = (() => {
  const table = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    table.set(String.fromCodePoint(isPrintable ? byte : next++), byte);
  }
  return table;
})();
