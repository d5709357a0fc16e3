/**
 * Files of this machine that a request may name.
 *
 * @module
 */
import { isAbsolute, relative } from "node:path";
import { invalidMedia, type MediaPolicy, tooLargeMedia } from "./media_policy.ts";

/**
 * Reads a file: any for callers on this machine, those below the media folder for all others.
 *
 * @param path what follows `file://`; percent signs need not be escaped.
 * @throws {HearthError} `invalid_media` when it may not or cannot be read. A caller who may not read a file does not
 * learn whether it exists.
 */
export async function readMediaFile(
  path: string,
  policy: MediaPolicy,
): Promise<Uint8Array<ArrayBuffer>> {
  const { isLocal, mediaDir } = policy;
  if (!isLocal && mediaDir === undefined) {
    throw invalidMedia("this server reads no files: start it with --media-dir to name a folder");
  }
  const real = await findFile(path);
  if (!isLocal && (real === undefined || !await isBelow(real, mediaDir!))) {
    throw invalidMedia("the file is not below the folder of --media-dir");
  }
  if (real === undefined) throw invalidMedia("there is no such file");
  const { isFile, size } = await Deno.stat(real);
  // A device or a pipe may never end.
  if (!isFile) throw invalidMedia("it is not a file");
  if (size > policy.maxBytes) throw tooLargeMedia(policy);
  try {
    return await Deno.readFile(real);
  } catch (error) {
    throw invalidMedia("the file cannot be read", error);
  }
}

/** The path without links and dots; `undefined` if it does not exist. */
async function findFile(path: string): Promise<string | undefined> {
  for (const candidate of new Set([path, decode(path)])) {
    if (candidate === undefined || !isAbsolute(candidate)) continue;
    try {
      return await Deno.realPath(candidate);
    } catch {
      // Missing or not accessible.
    }
  }
  return undefined;
}

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

async function isBelow(real: string, folder: string): Promise<boolean> {
  const steps = relative(await Deno.realPath(folder), real);
  return steps !== "" && !isAbsolute(steps) && !/^\.\.([/\\]|$)/.test(steps);
}
