/**
 * The models in the cache, and their sizes.
 *
 * @module
 */
import { join } from "node:path";
import { findSnapshot, type HubId, listCachedIds, parseHubId, repositoryFolder } from "./cache.ts";

/** A model of the cache. */
export interface CachedModel {
  readonly id: HubId;
  /** Bytes of all its revisions, and of partial downloads. */
  readonly bytes: number;
  /** The folder of one revision, `main` if present; `undefined` if none is complete. */
  readonly folder: string | undefined;
}

/** All models of a cache. */
export async function scanCache(cacheFolder: string): Promise<CachedModel[]> {
  const ids = (await listCachedIds(cacheFolder)).flatMap((id) => parseHubId(id) ?? []);
  return await Promise.all(ids.map((id) => scanModel(cacheFolder, id)));
}

/** One model; `bytes` is 0 where the cache has nothing of it. */
export async function scanModel(cacheFolder: string, id: HubId): Promise<CachedModel> {
  const repository = repositoryFolder(cacheFolder, id);
  const folder = await findSnapshot(cacheFolder, id) ?? await anySnapshot(repository);
  return { id, bytes: await measureFolder(repository), folder };
}

/** Bytes of all files below a folder; targets of links are not counted twice. */
export async function measureFolder(folder: string): Promise<number> {
  let bytes = 0;
  try {
    for await (const { name, isFile, isDirectory } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (isFile) bytes += (await Deno.lstat(path)).size;
      if (isDirectory) bytes += await measureFolder(path);
    }
  } catch (error) {
    // Another process may remove what is being measured.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return bytes;
}

async function anySnapshot(repository: string): Promise<string | undefined> {
  const snapshots = join(repository, "snapshots");
  try {
    const [first] = await Array.fromAsync(Deno.readDir(snapshots));
    return first && join(snapshots, first.name);
  } catch {
    return undefined;
  }
}
