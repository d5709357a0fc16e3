/**
 * The Hugging Face cache of this machine, shared with Python's huggingface_hub and other tools:
 * `models--owner--name/refs/<revision>` holds a commit, and `models--owner--name/snapshots/<commit>/` its files, each a
 * link to `models--owner--name/blobs/<checksum>`. The environment variables for the cache's folder and for the hub's
 * address and token are those of huggingface_hub.
 *
 * @see https://huggingface.co/docs/huggingface_hub/guides/manage-cache
 * @module
 */
import { homedir } from "node:os";
import { basename, join } from "node:path";
import type { Environment } from "../base/config.ts";

/** A model as the hub names it. */
export interface HubId {
  readonly owner: string;
  readonly name: string;
  /** A branch, tag or commit. */
  readonly revision: string;
}

const PART = "[A-Za-z0-9][\\w.-]*";
const HUB_ID = new RegExp(
  `^(?<owner>${PART})/(?<name>${PART})(@(?<revision>${PART}(/${PART})*))?$`,
);

/**
 * Parses `owner/name` or `owner/name@revision`; `undefined` for any other text.
 *
 * ```ts
 * import { parseHubId } from "./cache.ts";
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(parseHubId("Xenova/modnet"), { owner: "Xenova", name: "modnet", revision: "main" });
 * ```
 */
export function parseHubId(text: string): HubId | undefined {
  const { owner, name, revision = "main" } = HUB_ID.exec(text)?.groups ?? {};
  return owner === undefined || name === undefined ? undefined : { owner, name, revision };
}

/** Formats `owner/name`, with `@revision` unless it is `main`. */
export function showHubId({ owner, name, revision }: HubId): string {
  return `${owner}/${name}${revision === "main" ? "" : `@${revision}`}`;
}

/**
 * The folder of the hub's data on this machine: `HF_HOME`, or else a folder below `XDG_CACHE_HOME` or the home folder.
 */
function findHubHome(environment: Environment): string {
  const { HF_HOME, XDG_CACHE_HOME, HOME, USERPROFILE } = environment;
  const caches = XDG_CACHE_HOME || join(HOME || USERPROFILE || homedir(), ".cache");
  return HF_HOME || join(caches, "huggingface");
}

/**
 * The folder of the cache, from the variables that huggingface_hub reads too: `HF_HUB_CACHE`, or else a folder below
 * the one that {@linkcode findHubHome} returns.
 */
export function findCacheFolder(environment: Environment): string {
  return environment["HF_HUB_CACHE"] || join(findHubHome(environment), "hub");
}

/** The folder with all revisions of a model. */
export function getRepositoryFolder(cacheFolder: string, id: HubId): string {
  return join(cacheFolder, toFolderName(id));
}

/** The folder with the locks of a model's blobs. */
export function getLockFolder(cacheFolder: string, id: HubId): string {
  return join(cacheFolder, ".locks", toFolderName(id));
}

function toFolderName({ owner, name }: HubId): string {
  return `models--${owner}--${name}`;
}

/** The folder with the files of one revision of a model; `undefined` if it is not in the cache. */
export async function findSnapshot(cacheFolder: string, id: HubId): Promise<string | undefined> {
  const repository = getRepositoryFolder(cacheFolder, id);
  const commit = await readTextIfThere(join(repository, "refs", id.revision));
  const folder = join(repository, "snapshots", commit?.trim() || id.revision);
  return await isFolder(folder) ? folder : undefined;
}

/** The hub ids of all models in the cache, complete or not. */
export async function listCachedIds(cacheFolder: string): Promise<string[]> {
  if (!await isFolder(cacheFolder)) return [];
  const entries = await Array.fromAsync(Deno.readDir(cacheFolder));
  return entries
    .map(({ name }) => /^models--(.+?)--(.+)$/.exec(name))
    .flatMap((match) => match === null ? [] : [`${match[1]}/${match[2]}`])
    .sort();
}

/** The hub id of a folder that is a snapshot in some Hugging Face cache. */
export function readSnapshotHubId(folder: string): HubId | undefined {
  const match = /[\\/]models--(.+?)--(.+?)[\\/]snapshots[\\/][^\\/]+$/.exec(folder);
  return match === null ? undefined : parseHubId(`${match[1]}/${match[2]}`);
}

/** The name of a model folder: the name in its hub id if it is a snapshot, or else the folder's own name. */
export function toModelName(folder: string): string {
  return readSnapshotHubId(folder)?.name ?? basename(folder);
}

/** Whether there is a folder at this path. */
export async function isFolder(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isDirectory;
  } catch {
    return false;
  }
}

async function readTextIfThere(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(path);
  } catch {
    return undefined;
  }
}

export interface CachedModel {
  readonly id: HubId;
  /** Bytes of all revisions, and of partial downloads. */
  readonly bytes: number;
  /** The folder of one revision, `main` if present; `undefined` if there is no snapshot. */
  readonly folder: string | undefined;
}

/** Lists all models in a cache. */
export async function scanCache(cacheFolder: string): Promise<CachedModel[]> {
  const ids = (await listCachedIds(cacheFolder)).flatMap((id) => parseHubId(id) ?? []);
  return await Promise.all(ids.map((id) => scanModel(cacheFolder, id)));
}

/** Describes one model; `bytes` is 0 if the cache has nothing of it. */
export async function scanModel(cacheFolder: string, id: HubId): Promise<CachedModel> {
  const repository = getRepositoryFolder(cacheFolder, id);
  const folder = await findSnapshot(cacheFolder, id) ?? await findAnySnapshot(repository);
  return { id, bytes: await measureFolder(repository), folder };
}

/**
 * Counts the bytes of all files below a folder. Symbolic links are not counted, and a file with several hard links is
 * counted once.
 *
 * @param counted the files with several hard links that were counted, as inode number and size: on Windows, inode
 * numbers are rounded, so that two files may have the same one.
 */
export async function measureFolder(folder: string, counted = new Set<string>()): Promise<number> {
  let bytes = 0;
  try {
    for await (const { name, isFile, isDirectory } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (isDirectory) bytes += await measureFolder(path, counted);
      if (!isFile) continue;
      const { size, ino, nlink } = await Deno.lstat(path);
      const key = `${ino} ${size}`;
      if (!counted.has(key)) bytes += size;
      if (ino !== null && nlink !== 1) counted.add(key);
    }
  } catch (error) {
    // Another process may remove the folder in the meantime.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return bytes;
}

async function findAnySnapshot(repository: string): Promise<string | undefined> {
  const snapshots = join(repository, "snapshots");
  try {
    const [first] = await Array.fromAsync(Deno.readDir(snapshots));
    return first && join(snapshots, first.name);
  } catch {
    return undefined;
  }
}

const DEFAULT_ENDPOINT = "https://huggingface.co";
const DEFAULT_TIMEOUT_SECONDS = 30;

/** How to reach the hub, and how to cache its files. */
export interface HubSettings {
  /** `HF_ENDPOINT`, without a trailing slash. */
  readonly endpoint: string;
  /** `HF_TOKEN`, or the token that `hf auth login` stored. */
  readonly token: string | undefined;
  readonly cacheFolder: string;
  /** `HF_HUB_OFFLINE` or `--offline`: no requests are sent to the hub. */
  readonly isOffline: boolean;
  /** `HF_HUB_DOWNLOAD_TIMEOUT`: how long a connection may be without data, in milliseconds here. */
  readonly stallMs: number;
  /** Whether snapshots link to blobs; with `HF_HUB_DISABLE_SYMLINKS` they hold copies. */
  readonly usesLinks: boolean;
}

/**
 * Reads the settings from the environment.
 *
 * @param options.offline the flag of the command line. It turns requests off, as `HF_HUB_OFFLINE` does.
 */
export function readHubSettings(
  environment: Environment = Deno.env.toObject(),
  { offline = false }: { readonly offline?: boolean } = {},
): HubSettings {
  const { HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_DISABLE_SYMLINKS } =
    environment;
  const seconds = Number(HF_HUB_DOWNLOAD_TIMEOUT);
  return {
    endpoint: (HF_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, ""),
    token: readToken(environment),
    cacheFolder: findCacheFolder(environment),
    isOffline: offline || isOn(HF_HUB_OFFLINE),
    stallMs: 1000 * (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS),
    usesLinks: !isOn(HF_HUB_DISABLE_SYMLINKS),
  };
}

function readToken(environment: Environment): string | undefined {
  const { HF_TOKEN, HF_TOKEN_PATH } = environment;
  if (HF_TOKEN?.trim()) return HF_TOKEN.trim();
  try {
    const path = HF_TOKEN_PATH || join(findHubHome(environment), "token");
    return Deno.readTextFileSync(path).trim() || undefined;
  } catch {
    // The user is not logged in.
    return undefined;
  }
}

/** Reads a switch as huggingface_hub does. */
function isOn(value: string | undefined): boolean {
  return ["1", "ON", "YES", "TRUE"].includes((value ?? "").toUpperCase());
}
