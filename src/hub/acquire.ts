/**
 * Gets a folder with the files that are needed to serve a hub model: from the cache if it has them all, or else from
 * the hub.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import type { ResolvedModel } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { adviseOnnx } from "./catalogue.ts";
import { HubError, NoGraphsError } from "./hub_request.ts";
import { downloadBlob } from "./blob.ts";
import { findSnapshot, getRepositoryFolder, type HubSettings, showHubId } from "./cache.ts";
import { CacheWriteError, noteAbsent, writeCache, writeReference } from "./cache_writer.ts";
import { downloadFiles, type DownloadOptions } from "./download.ts";
import { fetchRepository, type Repository } from "./repository.ts";
import type { HubModel } from "./resolve.ts";
import { log } from "../base/log.ts";
import { FolderFiles } from "../graph/file/external_data.ts";
import { readModel } from "../graph/file/proto_read.ts";
import {
  describeFolder,
  type ModelFolder,
  openAnyFolder,
  readAnyJson,
  requireConfigOrGraphs,
} from "./model_folder.ts";

/** How long to wait for the hub if a complete cache can be used instead. */
const IMPATIENT_MS = 5_000;

/** Which of a model's files are needed. */
export interface NeededFiles {
  /** All files; the graphs last. */
  readonly files: readonly string[];
  /** Graphs among `files`. */
  readonly graphs: readonly string[];
  /** Preferred graphs that do not exist. */
  readonly missed: readonly string[];
}

/** Options for getting a model. */
export interface AcquireOptions extends DownloadOptions {
  /** Chooses among a folder's files. @throws {StartupError} when a needed file is missing. */
  readonly chooseFiles: (folder: ModelFolder) => NeededFiles;
  /** Whether to ask the hub for the newest revision, even if the cache is complete. */
  readonly refresh?: boolean;
}

/** A complete snapshot in the cache. */
interface Cached {
  readonly folder: string;
  /** Whether the hub may have weights that suit the device better: it has not been asked for them yet. */
  readonly isSecondBest: boolean;
}

/**
 * Gets the files that a model needs.
 *
 * @throws {StartupError} when the model is not in the cache and cannot be downloaded; see {@linkcode downloadFiles}.
 */
export async function acquireModel(
  { hubId, ...model }: HubModel,
  options: AcquireOptions,
): Promise<ResolvedModel> {
  const { settings } = options;
  const cached = await findCached(hubId, options);
  const mayStay = options.refresh !== true || settings.isOffline;
  if (cached !== undefined && mayStay && (!cached.isSecondBest || settings.isOffline)) {
    return { ...model, folder: cached.folder };
  }
  if (settings.isOffline) {
    const folder = getRepositoryFolder(settings.cacheFolder, hubId);
    throw new StartupError(
      `Files of ${
        showHubId(hubId)
      } are missing in ${folder}, and Hearth is offline: go online to download them.`,
      { setting: "offline" },
    );
  }
  const mayFallBack = cached !== undefined && options.refresh !== true;
  try {
    return { ...model, folder: await download(hubId, { ...options, mayFallBack }) };
  } catch (error) {
    const mayPass = error instanceof CacheWriteError ||
      error instanceof HubError && error.isTransient;
    if (!mayFallBack || !mayPass) throw error;
    const { message: reason } = error;
    log.warn("better weights cannot be downloaded: using the weights in the cache", { reason });
    return { ...model, folder: cached.folder };
  }
}

async function findCached(
  hubId: HubModel["hubId"],
  options: AcquireOptions,
): Promise<Cached | undefined> {
  const { cacheFolder } = options.settings;
  const folder = await findSnapshot(cacheFolder, hubId);
  if (folder === undefined) return undefined;
  let needed: NeededFiles;
  try {
    needed = options.chooseFiles(await openAnyFolder(folder));
    for (const graph of needed.graphs) await requireWeights(folder, graph);
  } catch {
    // A file is missing. The download gets it, or reports why it cannot.
    return undefined;
  }
  const notes = join(getRepositoryFolder(cacheFolder, hubId), ".no_exist", basename(folder));
  const unknown = await Promise.all(
    needed.missed.map((file) => Deno.stat(join(notes, file)).then(() => false, () => true)),
  );
  return { folder, isSecondBest: unknown.includes(true) };
}

/** Checks that a graph's weights are complete. @throws {Error} when a file is missing or too short. */
async function requireWeights(folder: string, path: string): Promise<void> {
  await using files = new FolderFiles(join(folder, dirname(path)), folder);
  const { graph } = await readModel(files, basename(path));
  const ends = new Map<string, number>();
  for (const { data } of graph.initializers.values()) {
    if (data.kind !== "file") continue;
    ends.set(data.file, Math.max(ends.get(data.file) ?? 0, data.offset + data.length));
  }
  for (const [file, end] of ends) {
    if (await files.size(file) < end) throw new Error(`${file} is too short.`);
  }
}

async function download(
  hubId: HubModel["hubId"],
  { mayFallBack, ...options }: AcquireOptions & { readonly mayFallBack: boolean },
): Promise<string> {
  const { settings, signal, pause } = options;
  const repository = mayFallBack
    ? await fetchRepository(
      { ...settings, stallMs: Math.min(settings.stallMs, IMPATIENT_MS) },
      hubId,
      { signal, maxFailures: 1 },
    )
    : await fetchRepository(settings, hubId, { signal, pause });
  return await writeCache(settings, async () => {
    const needed = options.chooseFiles(await describeRepository(repository, options));
    const folder = await downloadFiles(repository, needed.files, options);
    for (const path of needed.missed) await noteAbsent(settings, repository, path);
    await writeReference(settings, repository);
    return folder;
  });
}

/**
 * Describes a repository as if it were a folder. Downloads only its `config.json` and the other files that identify it.
 */
async function describeRepository(
  repository: Repository,
  options: DownloadOptions,
): Promise<ModelFolder> {
  const path = showHubId(repository.id);
  const files = new Set(repository.files.keys());
  if (![...files].some((file) => file.endsWith(".onnx"))) {
    throw await explainNoGraphs(repository, options.settings);
  }
  requireConfigOrGraphs(path, files);
  return await describeFolder({ path, files }, async (name) => {
    const file = repository.files.get(name)!;
    const blob = await downloadBlob({ ...options, repository, file, onBytes: () => {} });
    return await readAnyJson(join(blob, ".."), basename(blob));
  });
}

/**
 * Explains that a repository has no ONNX graphs: repositories of original models hold weights for PyTorch, and others
 * hold GGUF files.
 */
async function explainNoGraphs(
  { id, files }: Repository,
  settings: HubSettings,
): Promise<NoGraphsError> {
  const formats = [
    ["GGUF files", /\.gguf$/],
    ["weights for PyTorch", /\.(safetensors|bin|pth?)$/],
    ["weights for MLX", /\.npz$/],
  ] as const;
  const paths = [...files.keys()];
  const found = formats.filter(([, pattern]) => paths.some((path) => pattern.test(path)))
    .map(([format]) => format);
  const has = found.length > 0 ? `, only ${found.join(" and ")}` : "";
  const advice = await adviseOnnx(id.name, { settings, except: `${id.owner}/${id.name}` });
  return new NoGraphsError(
    `${showHubId(id)} has no ONNX graphs${has}. Hearth serves models in the layout of ` +
      `transformers.js; the names of such models on the hub often end in -ONNX. ${advice}`,
  );
}
