/**
 * The media that a request refers to.
 *
 * @module
 */
import { asReference, type ContentPart, type WordsPart } from "../../wire/content_part.ts";
import type { ServerSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import type { MediaPolicy } from "../../media/media_policy.ts";
import { decodeBase64, readMedia, requireSize } from "../../media/reference.ts";
import { BODY_LIMITS } from "./body/body.ts";
import { getInlineMedia } from "./body/inline_media.ts";
import { isLoopback } from "./locality.ts";

/** Limits of a reference. */
export type MediaLimits = Pick<MediaPolicy, "maxBytes" | "maxTotalMs">;

/** Those of the API's decisions. */
export const MEDIA_LIMITS: MediaLimits = { maxBytes: BODY_LIMITS.maxBytes, maxTotalMs: 30_000 };

/** The caller on whose behalf media are read, and the limits. */
export interface MediaDeps {
  readonly settings: ServerSettings;
  readonly signal: AbortSignal;
  /** Whether the request comes from this machine. */
  readonly isLocal: boolean;
  /** 100 MiB and 30 s if absent. */
  readonly mediaLimits?: MediaLimits | undefined;
}

/** A content part that holds media. */
export type MediaPart = Exclude<ContentPart, WordsPart>;

/**
 * Reads a part's bytes.
 *
 * @throws {HearthError} `invalid_media`, saying which part cannot be read and why.
 */
export async function readPart(
  part: MediaPart,
  { param, settings, signal, isLocal, mediaLimits = MEDIA_LIMITS }: MediaDeps & {
    /** The part's path in the request, for messages: `messages[0].content[1]`. */
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
  if (part.type === "file") return asReference(part.file.file_data);
  const wrapped = "audio_url" in part ? part.audio_url : part.image_url;
  return typeof wrapped === "string" ? wrapped : wrapped.url;
}
