/**
 * `pull`, `list` and `rm`: the models on this machine.
 *
 * @module
 */
import { nameModel } from "../hub/resolve.ts";
import { stderrQueue } from "../base/log.ts";
import {
  DOWNLOAD_STOPPED,
  getModel,
  ProgressLine,
  quietenVulkan,
  removeOnStopSignal,
  SparseLines,
} from "./loading.ts";
import type { FlagValues } from "./command.ts";
import type { PULL_FLAGS } from "./flags.ts";
import { formatTable, printLine } from "./print.ts";
import { type Dtype, DTYPES, MODEL_KINDS, type ModelKind, PROGRAM } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { formatBytes } from "../base/bytes.ts";
import { CATALOGUE, findBuiltIn, listAliases, listBuiltIn } from "../hub/catalogue.ts";
import {
  type CachedModel,
  getLockFolder,
  getRepositoryFolder,
  measureFolder,
  readHubSettings,
  scanCache,
  scanModel,
} from "../hub/cache.ts";
import { makeGraphPath, type ModelFolder, openAnyFolder } from "../hub/model_folder.ts";
import { findRunPath } from "../models/load/choose_files.ts";
import { identifyFamily } from "../models/load/identify_family.ts";
import type { WantedGraph } from "../models/folder/graph_choice.ts";
import { findVariants } from "../models/folder/graph_variants.ts";
import { findRunning } from "./running.ts";

/**
 * Downloads a model.
 *
 * @returns 0 when all its files are on this machine.
 * @throws {StartupError} when they cannot be downloaded.
 */
export async function pull(name: string, flags: FlagValues<typeof PULL_FLAGS>): Promise<number> {
  const model = await nameModel(name, undefined, { asksHub: !flags.offline });
  if (!("hubId" in model)) {
    printLine(`${model.id} is on this machine already: ${model.folder}`);
    return 0;
  }
  quietenVulkan();
  const progressLine = new ProgressLine(model.id);
  removeOnStopSignal(progressLine, () => DOWNLOAD_STOPPED);
  const lines = new SparseLines(({ what, fraction, detail }) => {
    const share = Math.floor((fraction ?? 0) * 100);
    stderrQueue.push(`${model.id}: ${what} ${share}%, ${detail}\n`);
  });
  try {
    const { folder } = await getModel(model, {
      ...flags,
      refresh: true,
      onProgress: Deno.stderr.isTerminal()
        ? (progress) => progressLine.show(progress)
        : (progress) => progress.fraction !== undefined && lines.show(progress),
    });
    await progressLine.remove();
    printLine(`${model.id} is ready to be served from ${folder}`);
    return 0;
  } finally {
    progressLine.clear();
  }
}

/** A model whose files are on this machine. */
interface LocalModel {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly source: "built-in" | "cache";
  /** The kind; `undefined` if it is unknown. */
  readonly kind: ModelKind | undefined;
  readonly dtypes: readonly Dtype[];
  /** Whether requests share steps or batches, or are computed one at a time; `undefined` if that is unknown. */
  readonly path: "batched" | "one at a time" | undefined;
  readonly bytes: number;
  /** The folder; `undefined` while the download is incomplete. */
  readonly folder: string | undefined;
}

/** Prints the models. @returns 0. */
export async function list({ json }: { readonly json: boolean }): Promise<number> {
  const local = [...await readBuiltIn(), ...await readCached()];
  const ids = new Set(local.map(({ id }) => id));
  const catalogue = MODEL_KINDS.flatMap((kind) =>
    Object.entries(CATALOGUE[kind]).map(([alias, id]) => ({ alias, id, kind, isHere: ids.has(id) }))
  );
  if (json) {
    printLine(JSON.stringify({ local, catalogue }, undefined, 2));
    return 0;
  }
  printLine("On this machine:");
  const rows = local.map(({ id, aliases, source, kind, dtypes, path, bytes, folder }) => [
    `  ${id}`,
    aliases.join(", "),
    folder === undefined ? "incomplete" : kind ?? "?",
    dtypes.join(" "),
    path ?? "",
    formatBytes(bytes),
    source,
  ]);
  const head = ["  MODEL", "ALIAS", "KIND", "DTYPES", "REQUESTS", "SIZE", "FROM"];
  for (const line of formatTable([head, ...rows])) printLine(line);
  printLine(`\nIn the catalogue; download with ${PROGRAM} pull <alias>, or serve with -m <alias>:`);
  const missing = catalogue.filter(({ isHere }) => !isHere);
  const known = missing.map(({ alias, id, kind }) => [`  ${alias}`, kind, id]);
  for (const line of formatTable([["  ALIAS", "KIND", "MODEL"], ...known])) printLine(line);
  return 0;
}

async function readBuiltIn(): Promise<LocalModel[]> {
  const names = await listBuiltIn();
  return await Promise.all(names.map(async (id): Promise<LocalModel> => {
    const folder = (await findBuiltIn(id))!;
    const bytes = await measureFolder(folder);
    return { id, aliases: [], source: "built-in", ...await describeFolder(folder), bytes, folder };
  }));
}

async function readCached(): Promise<LocalModel[]> {
  const cached = await scanCache(readHubSettings().cacheFolder);
  const described = await Promise.all(cached.map(describeCached));
  return described.filter((model) => model !== undefined);
}

/** Describes a cached model; `undefined` for a model without ONNX graphs, which another program downloaded. */
async function describeCached({ id, bytes, folder }: CachedModel): Promise<LocalModel | undefined> {
  const hubId = `${id.owner}/${id.name}`;
  const facts = folder === undefined
    ? { kind: undefined, dtypes: [], path: undefined }
    : await describeFolder(folder);
  if (folder !== undefined && facts.dtypes.length === 0) return undefined;
  return { id: hubId, aliases: listAliases(hubId), source: "cache", ...facts, bytes, folder };
}

type Facts = Pick<LocalModel, "kind" | "dtypes" | "path">;

async function describeFolder(path: string): Promise<Facts> {
  try {
    const folder = await openAnyFolder(path);
    const family = identifyFamily(folder);
    const graphs = family.graphs(folder);
    return {
      kind: family.kind,
      dtypes: listDtypes(folder, graphs[0]!),
      path: BATCHING_KINDS.has(family.kind) ? "batched" : await findPath(folder, graphs),
    };
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return { kind: undefined, dtypes: [], path: undefined };
  }
}

function listDtypes(folder: ModelFolder, main: WantedGraph): Dtype[] {
  const { paths, name } = main;
  if (paths !== undefined) {
    return DTYPES.filter((dtype) => folder.files.has(paths[dtype] ?? ""));
  }
  const graphs = [...folder.files].filter((file) => /^onnx\/[^/]+\.onnx$/.test(file));
  const variants = graphs.length > 0 ? [] : findVariants(folder, name, "cpu");
  return DTYPES.filter((dtype) => {
    const suffix = makeGraphPath("", dtype).slice("onnx/".length);
    return graphs.some((file) => hasDtype(file, suffix)) ||
      variants.some((variant) => variant.dtype === dtype);
  });
}

/** Kinds whose requests share batches, whatever the model. */
const BATCHING_KINDS: ReadonlySet<ModelKind> = new Set(["embedding", "rerank", "matting"]);

/** Finds how requests are computed; `undefined` if that is unknown, for example because files are missing. */
async function findPath(
  folder: ModelFolder,
  graphs: readonly WantedGraph[],
): Promise<LocalModel["path"]> {
  try {
    return await findRunPath(folder, graphs);
  } catch (error) {
    if (error instanceof StartupError) return undefined;
    throw error;
  }
}

/**
 * Whether a file's name says that its weights have the dtype with this suffix. The suffix of fp32 is just `.onnx`, so a
 * name that ends in no other dtype's suffix is one of fp32.
 */
function hasDtype(file: string, suffix: string): boolean {
  if (suffix !== ".onnx") return file.endsWith(suffix);
  return DTYPES.every((dtype) => {
    const other = makeGraphPath("", dtype).slice("onnx/".length);
    return other === ".onnx" || !file.endsWith(other);
  });
}

/**
 * Removes all revisions of a model, after asking unless `yes` is set.
 *
 * @returns 0 when the model is removed, 1 when the user said no.
 * @throws {StartupError} when the model is not in the cache, a running server uses it, or the user cannot be asked
 * because standard input is not a terminal.
 */
export async function rm(name: string, { yes }: { readonly yes: boolean }): Promise<number> {
  const model = await nameModel(name);
  if (!("hubId" in model)) {
    throw new StartupError(
      `${model.id} is a folder, not in the cache; rm only removes models of the cache: ${model.folder}`,
    );
  }
  if (model.hubId.revision !== "main") {
    throw new StartupError(
      `rm removes all revisions of a model: leave out the revision and name it ${model.id}.`,
    );
  }
  const { cacheFolder } = readHubSettings();
  const { bytes } = await scanModel(cacheFolder, model.hubId);
  const folder = getRepositoryFolder(cacheFolder, model.hubId);
  if (bytes === 0) {
    throw new StartupError(`${model.id} is not in the cache: there is no ${folder}.`);
  }
  const server = (await findRunning()).find((each) => each.model === model.id);
  if (server !== undefined) {
    throw new StartupError(
      `${model.id} is being served at ${server.url} by process ${server.pid}: stop that server first.`,
    );
  }
  if (!yes && !ask(`Remove ${model.id} (${formatBytes(bytes)}) from ${cacheFolder}?`)) return 1;
  await Deno.remove(folder, { recursive: true });
  const locks = getLockFolder(cacheFolder, model.hubId);
  await Deno.remove(locks, { recursive: true }).catch(() => {});
  printLine(`Removed ${model.id} and freed ${formatBytes(bytes)}.`);
  return 0;
}

function ask(question: string): boolean {
  if (Deno.stdin.isTerminal()) return confirm(question);
  throw new StartupError(`${question} Standard input is not a terminal: confirm with --yes.`);
}
