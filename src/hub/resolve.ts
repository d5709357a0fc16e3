/**
 * Finds the folder on this machine for the name that a user gives a model.
 *
 * @module
 */
import { basename, isAbsolute, resolve } from "node:path";
import { type Environment, PROGRAM, type ResolvedModel } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { findNearNames } from "../base/near_names.ts";
import {
  adviseOnnx,
  BUILT_IN_OWNER,
  findBuiltIn,
  HUB_ID_OF_ALIAS,
  listAliases,
  listBuiltIn,
} from "./catalogue.ts";
import {
  findCacheFolder,
  findSnapshot,
  getRepositoryFolder,
  type HubId,
  type HubSettings,
  isFolder,
  listCachedIds,
  parseHubId,
  readHubSettings,
  readSnapshotHubId,
  showHubId,
} from "./cache.ts";
import { isGraphFile } from "./list_files.ts";

/** A hub model, cached or not. */
export interface HubModel extends Omit<ResolvedModel, "folder"> {
  readonly hubId: HubId;
}

/** Options for resolving names. */
interface NameOptions {
  /** Whether the hub may be searched for an unknown name; false if absent. */
  readonly asksHub?: boolean | undefined;
}

/**
 * Resolves a name by trying, in order: the address of a page on the hub, a built-in name, a folder or graph, a
 * catalogue alias, `owner/name[@revision]`. A name that can only be a path is not looked up as an alias or on the hub.
 *
 * @returns a model with its folder, or a hub model that may not be in the cache.
 * @throws {StartupError} when nothing matches. The message says where the name was looked up, and which names are
 * similar.
 */
export async function nameModel(
  given: string,
  environment: Environment = Deno.env.toObject(),
  { asksHub = false }: NameOptions = {},
): Promise<ResolvedModel | HubModel> {
  const settings = asksHub ? readHubSettings(environment) : undefined;
  const page = readHubUrl(given, environment["HF_ENDPOINT"] || undefined);
  const name = page ?? given;
  if (isGguf(given) && !await isFolder(given)) throw await explainGguf(given, settings);
  const local = page === undefined
    ? await resolveBuiltIn(name) ?? await resolveFolder(name)
    : undefined;
  if (local !== undefined) return local;
  const hubId = parseHubId(HUB_ID_OF_ALIAS.get(name.toLowerCase()) ?? name);
  if (hubId === undefined && hasOllamaFormat(name)) throw await explainGguf(name, settings);
  if (hubId === undefined) {
    const advice = await adviseOnnx(name, { settings });
    throw await explainNotFound(name, { advice, cacheFolder: findCacheFolder(environment) });
  }
  return { ...describeHubModel(hubId), hubId };
}

/**
 * Finds a model on this machine, without asking the hub.
 *
 * @throws {StartupError} as {@linkcode nameModel} does, and when the model is not in the cache.
 */
export async function resolveModel(
  name: string,
  environment: Environment = Deno.env.toObject(),
): Promise<ResolvedModel> {
  const named = await nameModel(name, environment);
  if (!("hubId" in named)) return named;
  const { hubId, ...model } = named;
  const cacheFolder = findCacheFolder(environment);
  const folder = await findSnapshot(cacheFolder, hubId);
  if (folder === undefined) throw await explainNotFound(name, { hubId, cacheFolder });
  return { ...model, folder };
}

function isGguf(name: string): boolean {
  return /\.gguf$/i.test(name);
}

/** Whether a name has Ollama's format: `qwen3:0.6b`, `hf.co/owner/name:Q4_K_M`. */
function hasOllamaFormat(name: string): boolean {
  return /^[\w.-]+(\/[\w.-]+)*:[\w.-]+$/.test(name);
}

/** Explains that GGUF models of Ollama and llama.cpp cannot be served, and what to use instead. */
async function explainGguf(name: string, settings?: HubSettings): Promise<StartupError> {
  const problem = isGguf(name)
    ? `${name} is a GGUF file`
    : `There is no model "${name}" here; such names are Ollama's names of GGUF files`;
  const advice = await adviseOnnx(name, { settings });
  return new StartupError(`${problem}. Hearth serves ONNX, not GGUF. ${advice}`);
}

async function resolveBuiltIn(name: string): Promise<ResolvedModel | undefined> {
  const folder = await findBuiltIn(name);
  if (folder === undefined) return undefined;
  return { id: name, aliases: [`${BUILT_IN_OWNER}/${name}`], ownedBy: BUILT_IN_OWNER, folder };
}

async function resolveFolder(name: string): Promise<ResolvedModel | undefined> {
  const folder = resolve(name);
  if (await isGraphFile(folder)) {
    const id = basename(folder, ".onnx");
    return { id, aliases: listOtherSpellings(id), ownedBy: "local", folder };
  }
  if (!await isFolder(folder)) {
    if (looksLikePath(name)) throw new StartupError(await describeMissingFolder(folder));
    return undefined;
  }
  const hubId = readSnapshotHubId(folder);
  if (hubId !== undefined) return { ...describeHubModel(hubId), folder };
  const id = basename(folder);
  return { id, aliases: listOtherSpellings(id), ownedBy: "local", folder };
}

function describeHubModel({ owner, name }: HubId): Omit<ResolvedModel, "folder"> {
  const id = `${owner}/${name}`;
  return { id, aliases: [...listAliases(id), name, ...listOtherSpellings(name)], ownedBy: owner };
}

/** The kebab-case spelling of a name, if it is different. */
function listOtherSpellings(name: string): string[] {
  const kebab = name.toLowerCase().replaceAll(/[_\s]+/g, "-");
  return kebab === name ? [] : [kebab];
}

/** Whether a name can only be a path. */
function looksLikePath(name: string): boolean {
  return isAbsolute(name) || /^\.{0,2}[\\/]|\.onnx$/.test(name);
}

async function describeMissingFolder(path: string): Promise<string> {
  const wanted = "a model is a folder that holds config.json and onnx/";
  const stat = await Deno.stat(path).catch(() => undefined);
  const what = path.endsWith(".onnx") ? "file" : "folder";
  if (stat === undefined) return `There is no ${what} ${path}; ${wanted}.`;
  return `${path} is a file; ${wanted}.`;
}

async function explainNotFound(
  name: string,
  { hubId, cacheFolder, advice = "" }: {
    readonly hubId?: HubId;
    readonly cacheFolder: string;
    /** Sentences that say what to use instead. */
    readonly advice?: string;
  },
): Promise<StartupError> {
  const builtIn = await listBuiltIn();
  const cached = await listCachedIds(cacheFolder);
  const catalogued = [...HUB_ID_OF_ALIAS].flat();
  const isKnown = catalogued.includes(name.toLowerCase()) || catalogued.includes(name);
  const near = isKnown
    ? []
    : findNearNames(name, [...new Set([...builtIn, ...cached, ...catalogued])]);
  const looked = [
    `a built-in model (there is ${builtIn.join(", ") || "none"})`,
    `a folder at ${resolve(name)}`,
    ...(hubId === undefined
      ? ["an alias of the catalogue"]
      : [`the hub model ${showHubId(hubId)} in ${getRepositoryFolder(cacheFolder, hubId)}`]),
  ];
  return new StartupError([
    `There is no model "${name}" on this machine. Looked for:`,
    ...looked.map((where) => `  - ${where}`),
    ...(near.length > 0 ? [`Similar names: ${near.join(", ")}.`] : []),
    adviseOn(hubId, advice),
  ].join("\n"));
}

function adviseOn(hubId: HubId | undefined, advice: string): string {
  if (hubId === undefined) {
    return "Name a folder, an alias, or a hub model as owner/name[@revision]. Names of Ollama's models " +
      `do not work here: they are GGUF files, and Hearth serves ONNX. ${advice}`;
  }
  return `To download it: ${PROGRAM} pull ${showHubId(hubId)}`;
}

const HOSTS = ["huggingface.co", "www.huggingface.co", "hf.co"];
/** Sections of the hub whose pages are not about models. */
const OTHER_PAGES = ["datasets", "spaces", "collections", "papers", "docs", "blog"];

/**
 * Converts the address of a model's page to the model's name. `https://huggingface.co/Xenova/modnet/tree/main` and
 * `hf.co/Xenova/modnet` become `Xenova/modnet`.
 *
 * @param endpoint address of another hub, whose pages are accepted too.
 * @returns `owner/name`, followed by `@revision` unless that is `main`. An address in Ollama's format
 * (`hf.co/owner/name:tag`) keeps its `:tag`. `undefined` if the text is not an address.
 * @throws {StartupError} for a page that is not about a model, or is on another site.
 */
function readHubUrl(text: string, endpoint?: string): string | undefined {
  const name = text.trim().replace(/^hf:\/\/(models\/)?/i, "https://hf.co/");
  const [, scheme, rest = ""] = /^(https?:\/\/)?(.*)$/i.exec(name) ?? [];
  const hosts = [
    ...HOSTS,
    ...endpoint === undefined ? [] : [endpoint.replace(/^https?:\/\//i, "")],
  ];
  const host = hosts.find((each) => rest.toLowerCase().startsWith(`${each.toLowerCase()}/`));
  if (host === undefined) {
    if (scheme === undefined) return undefined;
    throw new StartupError(`${text} is not the address of a model: want ${WANTED}.`);
  }
  const [path = ""] = rest.slice(host.length + 1).split(/[?#]/, 1);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  if (parts[0] === "models") parts.shift();
  const [owner, model, page, revision] = parts;
  if (owner === undefined || model === undefined || OTHER_PAGES.includes(owner)) {
    throw new StartupError(`${text} is not the page of a model: want ${WANTED}.`);
  }
  const hasRevision = page !== undefined && ["tree", "blob", "resolve", "commit"].includes(page);
  const at = hasRevision && revision !== undefined && revision !== "main" ? `@${revision}` : "";
  return `${owner}/${model}${at}`;
}

const WANTED = "https://huggingface.co/owner/name, or owner/name alone";

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
