/**
 * Converts a request's messages to a task's messages, and reads their media.
 *
 * @module
 */
import {
  type ChatMessage as RequestMessage,
  type ContentPart,
  isWords,
} from "../../../wire/chat_message.ts";
import { writeOriginalJson } from "../body/decode_json.ts";
import type { ModelKind } from "../../../base/config.ts";
import { HearthError } from "../../../base/errors.ts";
import { isAudio } from "../../../media/audio.ts";
import { countPixels } from "../../../media/image.ts";
import { isPdf } from "../../../media/file_bytes.ts";
import type { ChatMessage, MessagePart, ToolCall } from "../../../models/task.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { BODY_LIMITS } from "../body/body.ts";
import { type MediaDeps, type MediaPart, readPart, toMedium } from "../media.ts";

/** Kinds of models that take images. */
const IMAGE_KINDS: ReadonlySet<ModelKind> = new Set(["vision", "ocr"]);

/** The caller and the model whose messages are read. */
export interface ReadMessagesOptions extends MediaDeps {
  readonly info: ModelInfo;
}

/**
 * Converts messages and reads their media.
 *
 * @throws {HearthError} `unsupported_by_model` when a message holds media that the model does not take;
 * `invalid_media` when media cannot be read; `payload_too_large` when the media are too large together.
 */
export async function readMessages(
  messages: readonly RequestMessage[],
  options: ReadMessagesOptions,
): Promise<ChatMessage[]> {
  const read: ChatMessage[] = [];
  const meter = new MediaMeter();
  for (const [index, message] of messages.entries()) {
    const parts = toParts(message);
    const param = `messages[${index}].content`;
    read.push({
      role: toRole(message),
      content: await readContent(parts, { ...options, meter, param }),
      name: message.name ?? undefined,
      toolCallId: readToolCallId(message),
      toolCalls: toToolCalls(message),
      reasoning: readReasoning(message, parts),
    });
  }
  return read;
}

function toRole({ role }: RequestMessage): ChatMessage["role"] {
  if (role === "developer") return "system";
  return role === "function" ? "tool" : role;
}

function toParts({ content, refusal }: RequestMessage): readonly ContentPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (content !== null && content !== undefined && content.length > 0) return content;
  return refusal ? [{ type: "refusal", refusal }] : [];
}

/**
 * Makes an id for a call that has none, as in OpenAI's older format. The function's name identifies the call, because a
 * message in that format holds only one.
 */
function makeCallId(name: string | null | undefined): string {
  return `call_${name}`;
}

function readToolCallId({ role, name, tool_call_id: id }: RequestMessage): string | undefined {
  return role === "function" ? makeCallId(name) : id ?? undefined;
}

function toToolCalls(
  { tool_calls: calls, function_call: call }: RequestMessage,
): ToolCall[] | undefined {
  if (call) return [{ id: makeCallId(call.name), name: call.name, arguments: call.arguments }];
  return calls?.map(({ id, function: { name, arguments: json } }) => ({
    id: id ?? makeCallId(name),
    name,
    arguments: typeof json === "string" ? json : writeOriginalJson(json ?? {}),
  }));
}

function readReasoning(
  { reasoning_content: content, reasoning }: RequestMessage,
  parts: readonly ContentPart[],
): string | undefined {
  const thoughts = parts.flatMap((part) => part.type === "thinking" ? [part.thinking] : []);
  return content || reasoning || thoughts.join("\n") || undefined;
}

interface ReadPartsOptions extends ReadMessagesOptions {
  /** Path of the part or parts being read. */
  readonly param: string;
  readonly meter: MediaMeter;
}

async function readContent(
  parts: readonly ContentPart[],
  options: ReadPartsOptions,
): Promise<ChatMessage["content"]> {
  const read: MessagePart[] = [];
  for (const [index, part] of parts.entries()) {
    if (isWords(part)) {
      if (part.type === "thinking") continue;
      read.push({ type: "text", text: part.type === "text" ? part.text : part.refusal });
    } else {
      read.push(...await readMediaPart(part, { ...options, param: `${options.param}[${index}]` }));
    }
  }
  if (read.some(({ type }) => type !== "text")) return read;
  return read.map((part) => part.type === "text" ? part.text : "").join("\n");
}

async function readMediaPart(part: MediaPart, options: ReadPartsOptions): Promise<MessagePart[]> {
  const { info, meter, param } = options;
  requireSupport(part, { info, param });
  const bytes = await readPart(part, options);
  meter.add(bytes, param);
  if (toMedium(part) === "audio") return [{ type: "audio", bytes, param }];
  if (part.type !== "file") return [{ type: isPdf(bytes) ? "document" : "image", bytes, param }];
  const { filename } = part.file;
  // An OCR model would take the file's name for an instruction.
  const name: MessagePart[] = filename && info.kind !== "ocr"
    ? [{ type: "text", text: filename }]
    : [];
  return [...name, readFile(bytes, { info, param })];
}

/** Reads a file as a PDF, as text, as audio if the model takes audio, or as an image. Its content decides, not its name. */
function readFile(
  bytes: Uint8Array<ArrayBuffer>,
  { info, param }: Pick<ReadPartsOptions, "info" | "param">,
): MessagePart {
  if (isPdf(bytes)) return { type: "document", bytes, param };
  const text = decodeText(bytes);
  if (text !== undefined) return { type: "text", text };
  if (info.takesAudio && countPixels(bytes) === 0 && isAudio(bytes)) {
    return { type: "audio", bytes, param };
  }
  if (IMAGE_KINDS.has(info.kind)) return { type: "image", bytes, param };
  const why = info.takesAudio
    ? "takes PDF files, UTF-8 text and audio, and the file is none of these"
    : "takes PDF files and UTF-8 text, and the file is neither";
  throw new HearthError(
    "invalid_media",
    `${param}: the loaded model ${info.id} (${info.kind}) ${why}.`,
    { param },
  );
}

function decodeText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Adds up the bytes of a request's media. The body may be small and refer to large media. */
class MediaMeter {
  #numBytes = 0;

  /** Adds the bytes of one medium. @throws {HearthError} `payload_too_large` when they are too many together. */
  add({ length }: Uint8Array, param: string): void {
    this.#numBytes += length;
    if (this.#numBytes <= BODY_LIMITS.maxBytes) return;
    throw new HearthError(
      "payload_too_large",
      `${param}: the media of one request may have at most ${
        BODY_LIMITS.maxBytes / 2 ** 20
      } MiB together.`,
      { param },
    );
  }
}

/**
 * Checks that the model takes a part. The error message names the part's medium, not its type, because each API family
 * has its own names for the types.
 *
 * @throws {HearthError} `unsupported_by_model` if the model does not take this medium.
 */
function requireSupport(
  part: MediaPart,
  { info, param }: { readonly info: ModelInfo; readonly param: string },
): void {
  const takesImages = IMAGE_KINDS.has(info.kind);
  const takesAudio = info.takesAudio === true;
  const medium = toMedium(part);
  if (medium === "file" || (medium === "image" ? takesImages : takesAudio)) return;
  const taken = ["text", ...(takesImages ? ["images"] : []), ...(takesAudio ? ["audio"] : [])];
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model ${info.id} (${info.kind}) takes ${
      taken.join(", ")
    } and PDF files, ` +
      `saw ${medium === "image" ? "an image" : "audio"}.`,
    { param },
  );
}
