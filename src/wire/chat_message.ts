/**
 * The messages of a chat request, the parts of their content, and the fields that may hold media.
 *
 * @module
 */
import { z } from "zod";
import { anyText, cutAtFirstBad, listSchema, openObject, text } from "./fields.ts";

const MEDIA_SCHEMES = ["file://", "base64://", "https://", "http://", "data:"] as const;
/** Format names that clients send. The real format is detected from the bytes. */
const AUDIO_FORMATS = [
  ...["wav", "mp3", "m4a", "ogg", "flac", "webm", "mp4", "mpeg", "mpga", "aac", "opus", "oga"],
  ...["aiff", "aif", "caf", "au", "mka"],
] as const;

const referenceWanted = `a media reference that starts with ${MEDIA_SCHEMES.join(", ")}`;

/** A reference to an image, audio or a file: a string that begins with one of the schemes above. */
export const MediaReference = z.string({ error: referenceWanted })
  .regex(/^(file:\/\/|base64:\/\/|https?:\/\/|data:)/i, { error: referenceWanted })
  .meta({
    id: "MediaReference",
    description: "file:// and a path on the server, base64:// and the bytes, http(s):// or data:",
  });

const WrappedReference = z.union(
  [MediaReference, z.object({ url: MediaReference })],
  { error: `${referenceWanted}, or an object with such a url` },
);

const TextPart = z.object({
  type: z.literal("text"),
  text: anyText(),
}).meta({ id: "TextPart" });

const ImagePart = z.object({
  type: z.enum(["image", "image_url"]),
  image_url: WrappedReference,
}).meta({ id: "ImagePart" });

const AudioPart = z.object({
  type: z.enum(["audio", "audio_url"]),
  audio_url: WrappedReference,
}).meta({ id: "AudioPart" });

/** A recording in base64, as in OpenAI's chat completions and responses. */
export const InputAudioPart = z.object({
  type: z.literal("input_audio"),
  input_audio: z.object({
    data: text("base64-encoded audio"),
    format: z.enum(AUDIO_FORMATS, { error: `one of ${AUDIO_FORMATS.join(", ")}` }),
  }, { error: "an object with data and format" }),
}).meta({ id: "InputAudioPart" });

const FilePart = z.object({
  type: z.literal("file"),
  file: z.object({
    file_data: text("a media reference, or base64").describe(
      "A PDF, an image or a text file: a media reference, or base64",
    ),
    filename: anyText().nullish(),
  }, { error: "an object with file_data; files by id are not supported" }),
}).meta({ id: "FilePart" });

const RefusalPart = z.object({
  type: z.literal("refusal"),
  refusal: anyText(),
}).meta({ id: "RefusalPart" });

const ThinkingPart = z.object({
  type: z.literal("thinking"),
  thinking: anyText(),
}).meta({ id: "ThinkingPart" });

/** A content part: text, an image, audio, a file, a refusal or reasoning. */
export const ContentPart = z.preprocess(
  readOtherFormat,
  z.discriminatedUnion(
    "type",
    [TextPart, ImagePart, AudioPart, InputAudioPart, FilePart, RefusalPart, ThinkingPart],
    {
      error: "a content part whose type is one of text, image, image_url, audio, audio_url, " +
        "input_audio, file, refusal, thinking",
    },
  ),
);

/** The names in chats of the part types of the Responses API. */
const OTHER_TYPES: Readonly<Record<string, string>> = {
  input_text: "text",
  output_text: "text",
  input_image: "image_url",
};

type Fields = Readonly<Record<string, unknown>>;

/**
 * Converts a part in another format: a part of the Responses API, or an image in the field `image`, `url` or
 * (Anthropic's API) `source`.
 */
function readOtherFormat(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  const fields = part as Fields;
  const type = OTHER_TYPES[String(fields["type"])] ?? fields["type"];
  if (type !== "image" || "image_url" in fields) return { ...fields, type };
  const image = fields["image"] ?? fields["url"] ?? toSource(fields["source"]);
  return image === undefined ? part : { type, image_url: image };
}

/** Returns a media reference unchanged, and bare base64 as a reference. */
export function toReference(text: string): string {
  return MediaReference.safeParse(text).success ? text : `base64://${text}`;
}

function toSource(source: unknown): unknown {
  if (typeof source !== "object" || source === null) return undefined;
  const { url, media_type: type, data } = source as Fields;
  return typeof data === "string" ? `data:${type};base64,${data}` : url;
}

/** A part that is text. */
export type WordsPart = Extract<ContentPart, { type: "text" | "refusal" | "thinking" }>;

/** Whether a part is text; all others are media. */
export function isWords(part: ContentPart): part is WordsPart {
  return part.type === "text" || part.type === "refusal" || part.type === "thinking";
}

export type ContentPart = z.output<typeof ContentPart>;

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;

const contentWanted = "a string, or an array of content parts that is not empty";

/** The content of a message. {@linkcode hasContent} checks whether it may be `null` or empty. */
const Content = cutAtFirstBad(
  ContentPart,
  z.union([z.string(), z.array(ContentPart), z.null()], { error: contentWanted }),
);

const FunctionCall = z.object({
  name: text("the name of a function"),
  arguments: z.string({ error: "a string of JSON" }),
}, { error: "an object with name and arguments" }).meta({ id: "FunctionCall" });

const argumentsWanted = "a string of JSON, or an object";
const ToolCall = z.object({
  id: anyText().nullish(),
  type: z.literal("function", { error: '"function"' }).nullish(),
  function: z.object({
    name: text("the name of a function"),
    arguments: z.union([z.string(), openObject(argumentsWanted)], { error: argumentsWanted })
      .nullish(),
  }, { error: "an object with name and arguments" }),
}, { error: "an object with id, type and function" }).meta({ id: "ToolCall" });

/** One message. Fields that the message's role does not use are ignored. */
export const ChatMessage = z.preprocess(
  appendImages,
  z.object({
    role: z.enum(ROLES, { error: `one of ${ROLES.join(", ")}` }),
    content: Content.optional().describe(
      "May be null, absent or empty in messages of assistants and tools",
    ),
    name: anyText().nullish().describe("Name of the function whose result a tool message holds"),
    tool_calls: listSchema(ToolCall).nullish().describe("The calls that the assistant made"),
    tool_call_id: anyText().nullish().describe("The call that a tool message answers"),
    function_call: FunctionCall.nullish().meta({ deprecated: true }),
    images: listSchema(text("an image: base64, or a media reference")).nullish().describe(
      "Images to append to the content, as Ollama's clients send them: base64, or references",
    ),
    refusal: anyText().nullish(),
    reasoning_content: anyText().nullish().describe(
      "The assistant's reasoning, for chat templates that use it",
    ),
    reasoning: anyText().nullish().describe("Another name of reasoning_content"),
  }, { error: "a message object with role and content" })
    .refine(hasContent, { path: ["content"], error: contentWanted })
    .meta({ id: "ChatMessage" }),
);

export type ChatMessage = z.output<typeof ChatMessage>;

/** Appends `images`, which Ollama's clients send next to the content, to the content. */
function appendImages(message: unknown): unknown {
  if (typeof message !== "object" || message === null) return message;
  const { images, ...others } = message as { images?: unknown; content?: unknown };
  if (!Array.isArray(images) || !images.every((image) => typeof image === "string")) return message;
  const { content = "" } = others;
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content ?? [];
  if (images.length === 0 || !Array.isArray(parts)) return others;
  const added = images.map((image) => ({ type: "image", image_url: toReference(image) }));
  return { ...others, content: [...parts, ...added] };
}

/**
 * Whether a message has the content that its role needs. Answers and results of functions may be empty: some clients
 * keep an answer that was stopped before its first token, and a function may return nothing.
 */
function hasContent(
  { role, content }: { readonly role: string; readonly content?: unknown },
): boolean {
  if (role === "assistant" || role === "tool" || role === "function") return true;
  return (content ?? null) !== null && !(Array.isArray(content) && content.length === 0);
}

/**
 * Paths of the fields that hold media references: names, and `[]` for an array's item. A string that begins with
 * `base64://` or `data:` is media in these fields, in {@linkcode FILE_FIELDS} and in {@linkcode MEDIA_LISTS}. In all
 * other fields it is text.
 */
export const MEDIA_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].image_url",
  "messages.[].content.[].image_url.url",
  "messages.[].content.[].audio_url",
  "messages.[].content.[].audio_url.url",
  "messages.[].content.[].image",
  "messages.[].content.[].url",
  "input.[].content.[].image_url",
  "input.[].output.[].image_url",
]);

/** Paths of the fields that hold a media reference or base64 without a prefix. */
export const FILE_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].file.file_data",
  "input.[].content.[].file_data",
  "input.[].output.[].file_data",
]);

/** Paths of the lists whose items are media references or base64 without a prefix. */
export const MEDIA_LISTS: ReadonlySet<string> = new Set(["messages.[].images.[]"]);

/**
 * Paths of the fields that hold base64 without a prefix. In a source whose type is `text`, however, `source.data` holds
 * plain text.
 */
export const BASE64_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].input_audio.data",
  "input.[].content.[].input_audio.data",
  "input.[].output.[].input_audio.data",
  "messages.[].content.[].source.data",
  "messages.[].content.[].content.[].source.data",
  "messages.[].content.[].source.content.[].source.data",
  "messages.[].content.[].content.[].source.content.[].source.data",
]);
