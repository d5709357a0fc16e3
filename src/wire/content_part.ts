/**
 * The parts that a message's content may consist of.
 *
 * @module
 */
import { z } from "zod";
import { text } from "./fields.ts";

const MEDIA_SCHEMES = ["file://", "base64://", "https://", "http://", "data:"] as const;
/** Formats by the names that clients use. What the bytes are is read from the bytes. */
const AUDIO_FORMATS = [
  ...["wav", "mp3", "m4a", "ogg", "flac", "webm", "mp4", "mpeg", "mpga", "aac", "opus", "oga"],
  ...["aiff", "aif", "caf", "au", "mka"],
] as const;

const referenceWanted = `a media reference that starts with ${MEDIA_SCHEMES.join(", ")}`;

/** The location of an image or audio: a string that begins with one of the schemes. */
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
  text: z.string({ error: "a string" }),
}).meta({ id: "TextPart" });

const ImagePart = z.object({
  type: z.enum(["image", "image_url"]),
  image_url: WrappedReference,
}).meta({ id: "ImagePart" });

const AudioPart = z.object({
  type: z.enum(["audio", "audio_url"]),
  audio_url: WrappedReference,
}).meta({ id: "AudioPart" });

/** A sound in base64, as OpenAI's chats and responses have it. */
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
    filename: z.string({ error: "a string" }).nullish(),
  }, { error: "an object with file_data; files by id are not served" }),
}).meta({ id: "FilePart" });

const RefusalPart = z.object({
  type: z.literal("refusal"),
  refusal: z.string({ error: "a string" }),
}).meta({ id: "RefusalPart" });

const ThinkingPart = z.object({
  type: z.literal("thinking"),
  thinking: z.string({ error: "a string" }),
}).meta({ id: "ThinkingPart" });

/** A content part: text, an image, audio or a file; in assistant messages also a refusal or a thought. */
export const ContentPart = z.preprocess(
  readOtherForm,
  z.discriminatedUnion(
    "type",
    [TextPart, ImagePart, AudioPart, InputAudioPart, FilePart, RefusalPart, ThinkingPart],
    {
      error: "a content part whose type is one of text, image, image_url, audio, audio_url, " +
        "input_audio, file, refusal, thinking",
    },
  ),
);

/** Types of parts in the Responses API, with their names in chats. */
const OTHER_TYPES: Readonly<Record<string, string>> = {
  input_text: "text",
  output_text: "text",
  input_image: "image_url",
};

type Fields = Readonly<Record<string, unknown>>;

/** Converts a part from another API's format: the Responses API, Anthropic's images, or other names for images. */
function readOtherForm(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  const fields = part as Fields;
  const type = OTHER_TYPES[String(fields["type"])] ?? fields["type"];
  if (type !== "image" || "image_url" in fields) return { ...fields, type };
  const image = fields["image"] ?? fields["url"] ?? toSource(fields["source"]);
  return image === undefined ? part : { type, image_url: image };
}

/** Returns a media reference unchanged, and bare base64 as a reference. */
export function asReference(text: string): string {
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
