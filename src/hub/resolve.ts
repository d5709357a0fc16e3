/**
 * From the name a person gives a model to a folder on this machine.
 *
 * @module
 */
import { basename, isAbsolute, resolve } from "node:path";
import type { ResolvedModel } from "../config.ts";
import { StartupError } from "../errors.ts";
import { findNearNames } from "../near_names.ts";
import { BUILT_IN_OWNER, findBuiltIn, listBuiltIn } from "./built_in.ts";
import {
  type Environment,
  findCacheFolder,
  findSnapshot,
  type HubId,
  hubIdOfSnapshot,
  isFolder,
  listCachedIds,
  parseHubId,
  repositoryFolder,
} from "./cache.ts";
import { HUB_ID_OF_ALIAS } from "./catalogue.ts";

/**
 * Finds a model by, in this order: built-in name, folder, catalogue alias, `owner/name[@revision]` in the Hugging
 * Face cache.
 * A name that can only be a path is looked for as a folder alone.
 *
 * @throws {StartupError} when there is none; the message says what was looked for, where, and what is near.
 */
export async function resolveModel(
  name: string,
  environment: Environment = Deno.env.toObject(),
): Promise<ResolvedModel> {
  return await resolveBuiltIn(name) ??
    await resolveFolder(name) ??
    await resolveHubModel(name, environment);
}

async function resolveBuiltIn(name: string): Promise<ResolvedModel | undefined> {
  const folder = await findBuiltIn(name);
  if (folder === undefined) return undefined;
  return { id: name, aliases: [`${BUILT_IN_OWNER}/${name}`], ownedBy: BUILT_IN_OWNER, folder };
}

async function resolveFolder(name: string): Promise<ResolvedModel | undefined> {
  const folder = resolve(name);
  if (!await isFolder(folder)) {
    if (looksLikePath(name)) throw new StartupError(await describeMissingFolder(folder));
    return undefined;
  }
  const hubId = hubIdOfSnapshot(folder);
  if (hubId !== undefined) return describeHubModel(hubId, folder);
  const id = basename(folder);
  return { id, aliases: otherSpellings(id), ownedBy: "local", folder };
}

async function resolveHubModel(name: string, environment: Environment): Promise<ResolvedModel> {
  const cacheFolder = findCacheFolder(environment);
  const hubId = parseHubId(HUB_ID_OF_ALIAS.get(name.toLowerCase()) ?? name);
  const folder = hubId === undefined ? undefined : await findSnapshot(cacheFolder, hubId);
  if (hubId === undefined || folder === undefined) {
    throw await notFound(name, hubId, cacheFolder);
  }
  return describeHubModel(hubId, folder);
}

function describeHubModel({ owner, name }: HubId, folder: string): ResolvedModel {
  const id = `${owner}/${name}`;
  const aliases = [...HUB_ID_OF_ALIAS].filter(([, known]) => known === id).map(([alias]) => alias);
  return { id, aliases: [...aliases, name, ...otherSpellings(name)], ownedBy: owner, folder };
}

/** The kebab-case spelling of a name, if that is another. */
function otherSpellings(name: string): string[] {
  const kebab = name.toLowerCase().replaceAll(/[_\s]+/g, "-");
  return kebab === name ? [] : [kebab];
}

/** Whether a name can only be a path, so that nothing else need be looked for. */
function looksLikePath(name: string): boolean {
  return isAbsolute(name) || /^\.{0,2}[\\/]|\.onnx$/.test(name);
}

async function describeMissingFolder(path: string): Promise<string> {
  const wanted = "a model is a folder that holds config.json and onnx/";
  const stat = await Deno.stat(path).catch(() => undefined);
  if (stat === undefined) return `There is no folder ${path}; ${wanted}.`;
  return `${path} is a file; ${wanted}.`;
}

async function notFound(
  name: string,
  hubId: HubId | undefined,
  cacheFolder: string,
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
      : [`the hub model ${showHubId(hubId)} in ${repositoryFolder(cacheFolder, hubId)}`]),
  ];
  return new StartupError([
    `There is no model "${name}" on this machine. Looked for:`,
    ...looked.map((place) => `  - ${place}`),
    ...(near.length > 0 ? [`Near names: ${near.join(", ")}.`] : []),
    adviseOn(hubId),
  ].join("\n"));
}

function showHubId({ owner, name, revision }: HubId): string {
  return `${owner}/${name}${revision === "main" ? "" : `@${revision}`}`;
}

function adviseOn(hubId: HubId | undefined): string {
  if (hubId === undefined) {
    return "Name a folder, an alias, or a hub model as owner/name[@revision].";
  }
  const revision = hubId.revision === "main" ? "" : ` --revision ${hubId.revision}`;
  return `Hearth does not download yet. To fetch it with the Hugging Face tool: ` +
    `hf download ${hubId.owner}/${hubId.name}${revision}`;
}
