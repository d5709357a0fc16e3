/**
 * The media that a request refers to.
 *
 * @module
 */
import type { ContentPart } from "../api/content_part.ts";
import type { ServerSettings } from "../config.ts";
import { HearthError } from "../errors.ts";
import { decodeBase64, readMedia } from "../media/reference.ts";
import { BODY_LIMITS } from "./body.ts";
import { isLoopback } from "./guard.ts";

const MAX_TOTAL_MS = 30_000;

/** A content part that holds media. */
export type MediaPart = Exclude<ContentPart, { type: "text" }>;

/**
 * Reads a part's bytes.
 *
 * @param options.path of the part in the request, for messages.
 * @throws {HearthError} `invalid_media`, saying which part cannot be read and why.
 */
export async function readPart(
  part: MediaPart,
  { path, settings, signal }: { path: string; settings: ServerSettings; signal: AbortSignal },
): Promise<Uint8Array<ArrayBuffer>> {
  const policy = {
    isLocal: isLoopback(settings.host),
    allowPrivate: settings.allowPrivateMedia,
    mediaDir: settings.mediaDir,
    maxBytes: BODY_LIMITS.maxBytes,
    maxTotalMs: MAX_TOTAL_MS,
  };
  try {
    return part.type === "input_audio"
      ? decodeBase64(part.input_audio.data)
      : await readMedia(referenceOf(part), { policy, signal });
  } catch (error) {
    if (!(error instanceof HearthError)) throw error;
    throw new HearthError(error.kind, `${path}: ${error.message}.`, { param: path, cause: error });
  }
}

function referenceOf(part: Exclude<MediaPart, { type: "input_audio" }>): string {
  const wrapped = "audio_url" in part ? part.audio_url : part.image_url;
  return typeof wrapped === "string" ? wrapped : wrapped.url;
}
