/**
 * Reads the media that a request refers to.
 *
 * @module
 */
import { type ContentPart, isWords, toReference, type WordsPart } from "../../wire/chat_message.ts";
import type { ServerSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import type { MediaPolicy } from "../../media/fetch.ts";
import { decodeBase64, readMedia, requireSize } from "../../media/reference.ts";
import { BODY_LIMITS } from "./body/body.ts";
import { getInlineMedia } from "./body/inline_media.ts";
import { isLoopback } from "./locality.ts";
import type { ChatRequest } from "../../wire/chat_request.ts";
import type { ModelInfo } from "../../worker/protocol.ts";

/** Limits on media that are fetched. */
export type MediaLimits = Pick<MediaPolicy, "maxBytes" | "maxTotalMs">;

/** The limits that the API documents. */
export const MEDIA_LIMITS: MediaLimits = { maxBytes: BODY_LIMITS.maxBytes, maxTotalMs: 30_000 };

/** The caller on whose behalf media are read, and the limits that apply. */
export interface MediaDeps {
  readonly settings: ServerSettings;
  readonly signal: AbortSignal;
  /** Whether the request comes from this machine. */
  readonly isLocal: boolean;
  /** Limits on fetched media; 100 MiB and 30 s if absent. */
  readonly mediaLimits?: MediaLimits | undefined;
}

/** A content part that holds media. */
export type MediaPart = Exclude<ContentPart, WordsPart>;

/** Reads the bytes of a part. @throws {HearthError} `invalid_media`, saying which part cannot be read and why. */
export async function readPart(
  part: MediaPart,
  { param, settings, signal, isLocal, mediaLimits = MEDIA_LIMITS }: MediaDeps & {
    /** The part's path in the request, for error messages: `messages[0].content[1]`. */
    readonly param: string;
  },
): Promise<Uint8Array<ArrayBuffer>> {
  const policy = {
    isLocal: isLoopback(settings.host) && isLocal,
    allowPrivate: settings.allowPrivateMedia,
    mediaDir: settings.mediaDir,
    ...mediaLimits,
  };
  const isData = part.type === "input_audio";
  const text = isData ? part.input_audio.data : getReference(part);
  try {
    const decoded = getInlineMedia(signal)?.take(text);
    if (decoded !== undefined) return requireSize(decoded, policy);
    return isData ? decodeBase64(text) : await readMedia(text, { policy, signal });
  } catch (error) {
    if (!(error instanceof HearthError)) throw error;
    throw new HearthError(error.kind, `${param}: ${error.message}.`, { param, cause: error });
  }
}

function getReference(part: Exclude<MediaPart, { type: "input_audio" }>): string {
  if (part.type === "file") return toReference(part.file.file_data);
  const wrapped = "audio_url" in part ? part.audio_url : part.image_url;
  return typeof wrapped === "string" ? wrapped : wrapped.url;
}

/** A content part and its path in the request: `messages[0].content[1]`. */
export interface LocatedPart {
  readonly part: MediaPart;
  readonly param: string;
}

/** A medium that a model may take. */
type Medium = "audio" | "image";

const PLURALS: Readonly<Record<Medium, string>> = { audio: "audio", image: "images" };

/**
 * Finds the only media part of the last user message. Text parts are ignored.
 *
 * @throws {HearthError} `invalid_value` unless there is exactly one; `unsupported_by_model` for any other medium.
 */
export function findOnlyMedia(
  messages: ChatRequest["messages"],
  { wants, info }: { readonly wants: Medium; readonly info: ModelInfo },
): LocatedPart {
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content ?? [];
  const found: LocatedPart[] = [];
  (typeof content === "string" ? [] : content).forEach((part, position) => {
    if (isWords(part)) return;
    const param = `messages[${index}].content[${position}]`;
    if (toMedium(part) !== wants) {
      throw new HearthError(
        "unsupported_by_model",
        `${param}: the loaded model ${info.id} (${info.kind}) takes ${
          PLURALS[wants]
        }, saw a part of type ${part.type}.`,
        { param },
      );
    }
    found.push({ part, param });
  });
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const param = index < 0 ? "messages" : `messages[${index}].content`;
  throw new HearthError(
    "invalid_value",
    `${param}: want one ${wants} part in the last user message, saw ${found.length}.`,
    { param },
  );
}

/** Returns the medium of a part. A file may hold any medium. */
export function toMedium({ type }: MediaPart): Medium | "file" {
  if (type === "file") return "file";
  return type === "image" || type === "image_url" ? "image" : "audio";
}
