/**
 * Writes the Hugging Face cache: links of snapshots to blobs, references, and markers of files that a revision does not
 * have.
 *
 * @module
 */
import { dirname, join, relative } from "node:path";
import { isSystemError, StartupError } from "../base/errors.ts";
import type { Repository } from "./repository.ts";
import { repositoryFolder } from "./cache.ts";
import type { HubSettings } from "./settings.ts";

/** Says that the cache cannot be written. */
export class CacheWriteError extends StartupError {}

/** Runs a function that writes to the cache. @throws {CacheWriteError} when the operating system refuses it. */
export async function writeCache<T>(
  { cacheFolder }: HubSettings,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new CacheWriteError(
      `The cache folder ${cacheFolder} cannot be written: ${error.message}. Choose another with ` +
        "HF_HOME or HF_HUB_CACHE.",
      { cause: error },
    );
  }
}

/** The folder of a revision's files. */
export function snapshotFolder({ cacheFolder }: HubSettings, { id, commit }: Repository): string {
  return join(repositoryFolder(cacheFolder, id), "snapshots", commit);
}

/** Makes a blob visible as a file of a revision: as a link, or as a copy if links are not supported. */
export async function linkInSnapshot(
  settings: HubSettings,
  { blob, file }: { readonly blob: string; readonly file: string },
): Promise<void> {
  if (await isSameSize(file, blob)) return;
  await Deno.mkdir(dirname(file), { recursive: true });
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    if (!settings.usesLinks || !await tryLink(relative(dirname(file), blob), draft)) {
      await Deno.copyFile(blob, draft);
    }
    await Deno.rename(draft, file);
  } catch (error) {
    await Deno.remove(draft).catch(() => {});
    throw error;
  }
}

/** Tries to create a link. On Windows only some users may, and some file systems have no links. */
async function tryLink(target: string, path: string): Promise<boolean> {
  try {
    await Deno.symlink(target, path, { type: "file" });
    return true;
  } catch {
    return false;
  }
}

async function isSameSize(a: string, b: string): Promise<boolean> {
  const [first, second] = await Promise.all(
    [a, b].map((path) => Deno.stat(path).catch(() => undefined)),
  );
  return first !== undefined && first.size === second?.size;
}

/** Records the commit of a branch or tag. A revision that is itself a commit needs no record. */
export async function writeReference(
  { cacheFolder }: HubSettings,
  { id, commit }: Repository,
): Promise<void> {
  if (id.revision === commit) return;
  const path = join(repositoryFolder(cacheFolder, id), "refs", id.revision);
  // A cache that already has everything may be read-only.
  if (await Deno.readTextFile(path).catch(() => "") === commit) return;
  await Deno.mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${crypto.randomUUID()}`;
  await Deno.writeTextFile(draft, commit);
  await Deno.rename(draft, path);
}

/** Records, as huggingface_hub does, that a revision has no file of this name. */
export async function noteAbsent(
  { cacheFolder }: HubSettings,
  { id, commit }: Repository,
  path: string,
): Promise<void> {
  const note = join(repositoryFolder(cacheFolder, id), ".no_exist", commit, path);
  if (await Deno.stat(note).then(() => true, () => false)) return;
  await Deno.mkdir(dirname(note), { recursive: true });
  await Deno.writeTextFile(note, "");
}
