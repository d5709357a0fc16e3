/**
 * `router`: serves several models, named by flags and a configuration file, behind one address. Each has a process of
 * its own that starts when the model is requested.
 *
 * @module
 */
import { limitBodies } from "../server/http/body/body.ts";
import { log } from "../base/log.ts";
import { startModelProcess } from "../router/model_process.ts";
import { ModelPool } from "../router/model_pool.ts";
import { startRouter } from "../router/app.ts";
import { ANY_NAME, MODEL_KINDS, type ModelKind, VERSION } from "../base/config.ts";
import { type FlagTable, type FlagValues, toFlagName, UsageError } from "./command.ts";
import { ROUTED_FLAGS, ROUTER_FLAGS, SERVE_FLAGS } from "./flags.ts";
import { printMessage } from "./print.ts";
import { ServerProcess } from "./server_process.ts";
import { parse } from "yaml";
import { StartupError } from "../base/errors.ts";
import { isRecord } from "../base/json.ts";
import { CATALOGUE } from "../hub/catalogue.ts";
import { openAnyFolder, requireModelFolder } from "../hub/model_folder.ts";
import { nameModel, resolveModel } from "../hub/resolve.ts";
import { identifyFamily } from "../models/load/identify_family.ts";
import type { RoutedModel } from "../router/routed_model.ts";
import { parseCall } from "./parse.ts";

/** Time after the grace period at which a process is killed. It is long, because freeing a device may take a while. */
const MAX_STOP_MS = 10_000;

type RouterFlags = FlagValues<typeof ROUTER_FLAGS>;

/**
 * Serves until SIGINT, SIGTERM, SIGHUP or an accepted `POST /shutdown`, then ends the processes of all models.
 *
 * @returns the exit code.
 * @throws {StartupError} when there is no such model, or the address is not available.
 */
export async function router(flags: RouterFlags): Promise<number> {
  const server = new ServerProcess(ROUTER_FLAGS, flags);
  const { settings, requestStop } = server;
  const models = await readRoutedModels(flags);
  const pool = new ModelPool({
    models,
    maxLoaded: flags.maxLoaded,
    maxBytes: flags.maxMemoryMb === undefined ? Infinity : flags.maxMemoryMb * 2 ** 20,
    idleMs: flags.idleTimeout && flags.idleTimeout * 1000,
    start: (model) =>
      startModelProcess(model, { ...findProgram(), maxStopMs: computeMaxStopMs(flags) }),
  });
  const bodyLimits = limitBodies(server.bodyBytes);
  const deps = { settings, pool, bodyLimits, requestShutdown: requestStop };
  const ids = models.map(({ id }) => id);
  const { url } = await server.open(() => startRouter(deps), ids.join(","));
  if (flags.logFormat === "json") log.info("listening", { version: VERSION, url, models: ids });
  else printMessage(`Hearth ${VERSION} listens at ${url} and routes to ${ids.join(", ")}.`);
  server.warnOfOpenDoor();
  await server.serve();
  return 0;
}

function computeMaxStopMs({ drainSeconds }: RouterFlags): number {
  return drainSeconds * 1000 + MAX_STOP_MS;
}

/**
 * Returns the command line and the environment for running this program again. The environment has no `HEARTH_…`
 * variables, because all flags are passed as arguments.
 */
function findProgram(): { program: string[]; environment: Record<string, string> } {
  const program = Deno.build.standalone
    ? [Deno.execPath()]
    : [Deno.execPath(), "run", "-A", "--no-check", Deno.mainModule];
  const others = Object.entries(Deno.env.toObject()).filter(([name]) =>
    !name.startsWith("HEARTH_")
  );
  return { program, environment: Object.fromEntries(others) };
}

const { model, modelAlias, anyModel, kind } = SERVE_FLAGS;
/** Flags that the file may set for a model. */
const FILE_FLAGS = { ...ROUTED_FLAGS, model, modelAlias, anyModel, kind };

/**
 * Reads the models that the flags and the configuration file name.
 *
 * @throws {StartupError} when no model is named, one is not found or is named twice, or the file is invalid.
 */
export async function readRoutedModels(
  flags: FlagValues<typeof ROUTER_FLAGS>,
): Promise<RoutedModel[]> {
  const common = writeWords(ROUTED_FLAGS, flags);
  const { config } = flags;
  const entries: Entry[] = [
    ...flags.model.map((name) => ({ words: [`--model=${name}`] })),
    ...config === undefined ? [] : readEntries(config),
  ];
  if (entries.length === 0) {
    throw new StartupError(
      "router wants models: give -m <model>, which may be repeated, or --config <file>.",
    );
  }
  const models = await Promise.all(entries.map((entry) => describe(entry, common)));
  const names = new Set<string>();
  for (const { id } of models) {
    if (names.has(id)) throw new StartupError(`The model ${id} is named twice.`);
    names.add(id);
  }
  return models;
}

/** A model from the flags or the file. */
interface Entry {
  /** Arguments of its `serve` command. */
  readonly words: readonly string[];
  readonly memoryBytes?: number;
}

async function describe(
  { words, memoryBytes }: Entry,
  common: readonly string[],
): Promise<RoutedModel> {
  const flags = parseWords(words);
  const named = await nameModel(flags.model!);
  if (!("hubId" in named)) await requireModelFolder(named.folder);
  return {
    id: named.id,
    aliases: [...named.aliases, ...flags.modelAlias, ...flags.anyModel ? [ANY_NAME] : []],
    ownedBy: named.ownedBy,
    kind: flags.kind ?? await findKind(flags.model!, named.id),
    memoryBytes,
    args: [...common, ...words],
  };
}

/** Parses the flags of a model. @throws {UsageError} when a flag is unknown or its value is out of range. */
function parseWords(words: readonly string[]): FlagValues<typeof FILE_FLAGS> {
  const call = parseCall(SERVE, words, {});
  if (typeof call === "string") throw new UsageError(`A model has no flag --${call}.`);
  // Safe: these flags are the ones that were parsed.
  return call.flags as FlagValues<typeof FILE_FLAGS>;
}

const SERVE = {
  name: "serve",
  summary: "",
  operands: [],
  flags: FILE_FLAGS,
  run: () => Promise.resolve(0),
};

/** Reads a model's kind from its folder or from the catalogue; `undefined` if neither tells. */
async function findKind(name: string, id: string): Promise<ModelKind | undefined> {
  try {
    const { folder } = await resolveModel(name);
    return identifyFamily(await openAnyFolder(folder)).kind;
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return MODEL_KINDS.find((kind) => Object.values(CATALOGUE[kind]).includes(id));
  }
}

/** A setting of the file that is not a flag. */
const MEMORY = "memory-mb";

/** Reads the arguments of each model from the file: `models: [{ model: qwen3-0.6b, max-model-len: 8192 }]`. */
function readEntries(path: string): Entry[] {
  const found = readYaml(path);
  const { models } = isRecord(found) ? found : {};
  if (!Array.isArray(models) || models.length === 0) {
    throw new StartupError(`${path}: want a list "models", each with "model" and flags of serve.`);
  }
  return models.map((entry: unknown, index) => {
    const where = `${path}, model ${index + 1}`;
    const settings = typeof entry === "string" ? { model: entry } : entry;
    if (!isRecord(settings) || typeof settings["model"] !== "string") {
      throw new StartupError(`${where}: want "model": a folder, an alias or owner/name.`);
    }
    const { [MEMORY]: memoryMb, ...others } = settings;
    if (memoryMb !== undefined && !(Number.isInteger(memoryMb) && memoryMb as number > 0)) {
      throw new StartupError(`${where}: ${MEMORY}: want a whole number of MiB, above 0.`);
    }
    const words = Object.entries(others).flatMap(([name, value]) => writeWord(name, value, where));
    checkWords(words, where);
    return { words, ...(memoryMb !== undefined && { memoryBytes: memoryMb as number * 2 ** 20 }) };
  });
}

function readYaml(path: string): unknown {
  try {
    return parse(Deno.readTextFileSync(path));
  } catch (error) {
    throw new StartupError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

function writeWord(name: string, value: unknown, where: string): string[] {
  if (value === true) return [`--${name}`];
  if (value === false) return [`--no-${name}`];
  if (Array.isArray(value)) return value.flatMap((each) => writeWord(name, each, where));
  if (typeof value === "string" || typeof value === "number") return [`--${name}=${value}`];
  throw new StartupError(`${where}: ${name}: want a text, a number, true or false, or a list.`);
}

/** Checks a model's arguments. @throws {StartupError} when a flag is unknown or its value is out of range. */
function checkWords(words: readonly string[], where: string): void {
  try {
    parseWords(words);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new StartupError(`${where}: ${error.message}`);
  }
}

/** Writes flag values as arguments of a command. */
function writeWords(table: FlagTable, values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(table).flatMap(([key, { fallback }]) => {
    const value = values[key];
    if (value === fallback || value === undefined) return [];
    return writeWord(toFlagName(key), value, key);
  });
}
