/**
 * The folder that a flag names.
 *
 * @module
 */
import { resolve } from "node:path";
import { StartupError } from "../errors.ts";

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
