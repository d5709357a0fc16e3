/**
 * A folder's tokenizer and chat template.
 *
 * @module
 */
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { join } from "node:path";
import { TokenTexts } from "../engine/token_text.ts";
import { HearthError, StartupError } from "../errors.ts";
import type { ChatMessage } from "./task.ts";
import { type Json, type ModelFolder, readJson, readOptionalJson } from "../hub/model_folder.ts";

/** A message in words alone. */
export interface TextMessage {
  readonly role: ChatMessage["role"];
  readonly content: string;
}

/** A message as chat templates take it. */
export interface TemplateMessage {
  readonly role: ChatMessage["role"];
  /** Parts: `{ type: "text", text }`, `{ type: "image" }`. */
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
}

/** Text to token ids and back, and conversations to prompts. */
export interface TextTokenizer {
  /** Token ids of a conversation, up to where the assistant is to answer. @throws {HearthError} `invalid_value` when the template refuses it. */
  encodeChat(messages: readonly TextMessage[]): number[];
  /**
   * The prompt that the chat template makes of a conversation, up to where the assistant is to answer.
   *
   * @throws {HearthError} `invalid_value` when the template refuses it.
   * @throws {Error} when the folder has no template.
   */
  renderChat(messages: readonly TemplateMessage[]): string;
  /** How a token is written; `undefined` when there is no such id. */
  tokenOf(id: number): string | undefined;
  /** Token ids of a text as it is; special tokens only where it spells them. */
  encode(text: string): number[];
  /** Token ids of a text, with the special tokens that the model wants around it. */
  encodeWhole(text: string): number[];
  /** The id of a token by its spelling. */
  idOf(token: string): number | undefined;
  /** Text of token ids; special tokens are left out. */
  decode(ids: number[]): string;
  /** Text of token ids, special tokens as they are spelled. */
  decodeAll(ids: number[]): string;
  /** What each token is by itself, special tokens as they are written. */
  readonly tokenTexts: TokenTexts;
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
  const tokenizerJson = await readJson(folder.path, "tokenizer.json");
  const tokenizer = new Tokenizer(tokenizerJson, config);
  const addedTokens = tokenizer.get_added_tokens_decoder();
  const source = await chatTemplateOf(folder, config);
  const renderChat = source === undefined
    ? () => {
      throw new Error(`${folder.path} has no chat template.`);
    }
    : templateRenderer(source, specialTokens(config));
  const encode = (text: string) => tokenizer.encode(text, { add_special_tokens: false }).ids;
  return {
    encodeChat: (messages) =>
      source === undefined
        ? tokenizer.encode(messages.map((message) => message.content).join("\n")).ids
        // The template has written the special tokens already.
        : encode(renderChat(messages)),
    renderChat,
    tokenOf: (id) => tokenizer.id_to_token(id) ?? undefined,
    encode,
    encodeWhole: (text) => tokenizer.encode(text).ids,
    idOf: (token) => tokenizer.token_to_id(token) ?? undefined,
    decode: (ids) => tokenizer.decode(ids, { skip_special_tokens: true }),
    decodeAll: (ids) => tokenizer.decode(ids),
    tokenTexts: new TokenTexts({
      decoder: tokenizerJson["decoder"],
      tokenOf: (id) => tokenizer.id_to_token(id),
      isAdded: (id) => addedTokens.has(id),
      decode: (ids) => tokenizer.decode(ids),
    }),
  };
}

/** The template's source: a file of its own, or in `tokenizer_config.json`, where it may be one of several. */
export async function chatTemplateOf(
  folder: ModelFolder,
  config: Json,
): Promise<string | undefined> {
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

function templateRenderer(
  source: string,
  tokens: Record<string, string>,
): TextTokenizer["renderChat"] {
  const template = new Template(source);
  return (messages) => {
    try {
      return template.render({ ...tokens, messages, add_generation_prompt: true });
    } catch (error) {
      throw new HearthError(
        "invalid_value",
        `The model's chat template refused these messages: ${(error as Error).message}`,
        { param: "messages", cause: error },
      );
    }
  };
}
