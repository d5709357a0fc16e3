/**
 * Resolves flag values: folders, programs, keys, memory.
 *
 * @module
 */
import { isFfmpeg } from "../media/ffmpeg.ts";
import { resolve } from "node:path";
import { SETTING_FLAGS } from "./shared_flags.ts";
import { StartupError } from "../base/errors.ts";
import type { ApiKey } from "../base/config.ts";

/**
 * Returns the folder's absolute path; `undefined` if the flag is not set.
 *
 * @throws {StartupError} when there is no such folder.
 */
export async function findFolder(
  flag: string,
  path: string | undefined,
): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const folder = resolve(path);
  const stat = await Deno.stat(folder).catch(() => undefined);
  if (stat?.isDirectory) return folder;
  throw new StartupError(`${flag} wants a folder, but there is none at ${folder}.`);
}

/** Finds the folders of companion models. @throws {StartupError} when there is no such folder. */
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

/** Checks the program of `--ffmpeg`. @throws {StartupError} when it is not an ffmpeg. */
export async function findFfmpeg(program: string | undefined): Promise<string | undefined> {
  if (program === undefined || await isFfmpeg(program)) return program;
  throw new StartupError(
    `--ffmpeg wants an ffmpeg, but ${program} is not one, or cannot be started. Install ffmpeg, or give its path.`,
  );
}

/**
 * Reads all accepted keys. Each line of the file is `<label>:<key>`; empty lines and lines that begin with `#` are
 * ignored.
 *
 * @throws {StartupError} when the file cannot be read, or a key cannot be sent in a header.
 */
export function readApiKeys(
  { apiKey, apiKeyFile }: {
    readonly apiKey?: string | undefined;
    readonly apiKeyFile?: string | undefined;
  },
): ApiKey[] {
  const keys = apiKeyFile === undefined ? [] : readFile(apiKeyFile);
  if (apiKey !== undefined) {
    keys.unshift({ label: "default", key: requireKey(apiKey, "--api-key") });
  }
  return keys;
}

function readFile(path: string): ApiKey[] {
  const keys: ApiKey[] = [];
  for (const [index, line] of readLines(path).entries()) {
    if (line === "" || line.startsWith("#")) continue;
    const where = `${path}, line ${index + 1}`;
    const colon = line.indexOf(":");
    const label = line.slice(0, colon).trim();
    if (colon < 0 || label === "" || label.length > 64) {
      throw new StartupError(`${where}: want <label>:<key>, with a label of 1 to 64 characters.`);
    }
    keys.push({ label, key: requireKey(line.slice(colon + 1).trim(), where) });
  }
  // An empty key file must not turn authentication off.
  if (keys.length === 0) throw new StartupError(`${path} holds no API key.`);
  return keys;
}

function readLines(path: string): string[] {
  try {
    return Deno.readTextFileSync(path).split("\n").map((line) => line.trim());
  } catch (error) {
    // The system's message contains the path.
    throw new StartupError(`The keys cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Checks that a key can be sent in a header. Headers hold visible ASCII; clients encode other characters differently.
 */
function requireKey(key: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new StartupError(
    `${where}: an API key must consist of visible ASCII characters, without spaces.`,
  );
}

const MIB = 2 ** 20;
const MOST_BYTES = 1024 * MIB;
/** The largest allowed body has 100 MiB, and needs some more memory while it is read. */
const LEAST_BYTES = 128 * MIB;
const SHARE = 1 / 8;

/**
 * Chooses the default of `--body-memory-mb`: an eighth of the memory that the process may use, but at least 128 MiB and
 * at most 1 GiB.
 *
 * @param limitBytes the memory that the process may use; `Infinity` if unknown.
 */
export function chooseBodyBytes(limitBytes: number): number {
  return Math.min(MOST_BYTES, Math.max(LEAST_BYTES, Math.floor(limitBytes * SHARE)));
}
