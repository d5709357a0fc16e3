/**
 * The folders that flags name.
 *
 * @module
 */
import { isFfmpeg } from "../media/ffmpeg.ts";
import { resolve } from "node:path";
import { StartupError } from "../base/errors.ts";
import { SETTING_FLAGS } from "./setting_flags.ts";

/** Its absolute path; `undefined` where the flag is not given. @throws {StartupError} when there is no such folder. */
export async function findFolder(
  flag: string,
  path: string | undefined,
): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const folder = resolve(path);
  const stat = await Deno.stat(folder).catch(() => undefined);
  if (stat?.isDirectory) return folder;
  throw new StartupError(`${flag} wants a folder; there is none at ${folder}.`);
}

/** The companion models' folders. @throws {StartupError} when there is no such folder. */
export async function findCompanions(
  flags: { readonly vad: string | undefined; readonly speakerEncoder: string | undefined },
): Promise<{ vadFolder: string | undefined; speakerEncoderFolder: string | undefined }> {
  return {
    vadFolder: await findFolder(SETTING_FLAGS.vadFolder, flags.vad),
    speakerEncoderFolder: await findFolder(
      SETTING_FLAGS.speakerEncoderFolder,
      flags.speakerEncoder,
    ),
  };
}

/** The program of `--ffmpeg`. @throws {StartupError} when it is no ffmpeg. */
export async function findFfmpeg(program: string | undefined): Promise<string | undefined> {
  if (program === undefined || await isFfmpeg(program)) return program;
  throw new StartupError(
    `--ffmpeg wants an ffmpeg; ${program} is none, or cannot be started. Install one, or give its path.`,
  );
}
