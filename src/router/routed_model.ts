/**
 * The models that a router may start: what their processes report, which model serves a request, and which models to
 * load and unload so that all fit the limits. All functions are pure.
 *
 * @module
 */
import { ANY_NAME, type ModelKind } from "../base/config.ts";
import { servesPath } from "../wire/models.ts";
import { HearthError } from "../base/errors.ts";

/** A model, and how its process is started. */
export interface RoutedModel {
  /** The id that `GET /models` reports. */
  readonly id: string;
  /** Other names that requests may use; `*` matches every name. */
  readonly aliases: readonly string[];
  readonly ownedBy: string;
  /** `undefined` while unknown: the kind of a model that is not downloaded yet is found when it is loaded. */
  readonly kind: ModelKind | undefined;
  /** Memory that the model takes, according to the user; measured if absent. */
  readonly memoryBytes?: number | undefined;
  /** Arguments of the model's `serve` command. */
  readonly args: readonly string[];
}

/** A report of a model's process: one line of JSON on its standard output. */
export type ChildReport =
  /** The process listens on this port. */
  | { readonly type: "listening"; readonly port: number }
  | {
    readonly type: "ready";
    readonly kind: ModelKind;
    readonly contextLength?: number | undefined;
  }
  | { readonly type: "failed"; readonly reason: string };

/** Limits on all loaded models together. */
export interface RoomLimits {
  readonly maxLoaded: number;
  /** Maximum memory; infinite if it is not limited. */
  readonly maxBytes: number;
}

/** A model that has a process, and so takes up memory. */
interface RunningModel {
  /** Whether the model is loaded: neither still loading nor already unloading. */
  readonly isLoaded: boolean;
  /** Whether the model takes no new requests, and is unloaded when its current ones are done. */
  readonly isDraining: boolean;
  readonly numInUse: number;
  /** Position of the model's last use in the order of all uses: larger is more recent. */
  readonly lastUse: number;
  /** Memory that the model takes, as far as known. */
  readonly bytes: number;
}

/**
 * Returns the models to load now: the first of `wanted`, up to the first one that does not fit beside the running
 * models. A model that is larger than the memory limit is loaded when no other model is running.
 */
export function chooseStarts<W extends Pick<RunningModel, "bytes">>(
  wanted: readonly W[],
  running: readonly RunningModel[],
  { maxLoaded, maxBytes }: RoomLimits,
): W[] {
  let numLoaded = running.length;
  let bytes = sumBytes(running);
  const end = wanted.findIndex((each) => {
    const fits = numLoaded < maxLoaded && (numLoaded === 0 || bytes + each.bytes <= maxBytes);
    numLoaded++;
    bytes += each.bytes;
    return !fits;
  });
  return wanted.slice(0, end < 0 ? wanted.length : end);
}

/**
 * Returns the models to unload so that `wanted` have room. Idle models are chosen before busy ones, and within both
 * groups the least recently used are chosen first.
 */
export function chooseEvictions<R extends RunningModel>(
  running: readonly R[],
  wanted: readonly Pick<RunningModel, "bytes">[],
  { maxLoaded, maxBytes }: RoomLimits,
): R[] {
  const staying = running.filter(({ isDraining }) => !isDraining);
  const candidates = staying.filter(({ isLoaded }) => isLoaded)
    .sort((a, b) => Math.sign(a.numInUse) - Math.sign(b.numInUse) || a.lastUse - b.lastUse);
  let numTooMany = staying.length + wanted.length - maxLoaded;
  // Memory is freed only for the first waiting model. The others wait until the first one has started.
  let excessBytes = sumBytes(staying) + (wanted[0]?.bytes ?? 0) - maxBytes;
  // If no model is waiting, one model stays, however large it is.
  const maxEvictions = wanted.length > 0 ? candidates.length : staying.length - 1;
  const evicted: R[] = [];
  for (const each of candidates.slice(0, maxEvictions)) {
    if (numTooMany <= 0 && excessBytes <= 0) break;
    evicted.push(each);
    numTooMany--;
    excessBytes -= each.bytes;
  }
  return evicted;
}

function sumBytes(models: readonly Pick<RunningModel, "bytes">[]): number {
  return models.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Kinds of models that give access to their tokenizer and chat template. */
const TOKENIZER_KINDS: readonly ModelKind[] = ["text", "vision", "ocr", "asr"];

/** Kinds of models that serve a path that `servesPath` does not know: it runs no model, or is another path's alias. */
const KINDS_BY_PATH: readonly (readonly [path: RegExp, kinds: readonly ModelKind[]])[] = [
  [/^\/responses\/.+$/, ["text", "vision", "ocr"]],
  [/^\/v2\/rerank$/, ["rerank"]],
  [/^\/$/, ["embedding"]],
  [/^\/audio\/voices$/, ["tts"]],
  [/^\/(tokenize|detokenize|apply-template)$/, TOKENIZER_KINDS],
];

/** Whether models of a kind serve a path. `path` is without `/v1`. */
function mayServe(kind: ModelKind, path: string): boolean {
  return path === "/info" || servesPath(kind, path) ||
    KINDS_BY_PATH.some(([pattern, kinds]) => pattern.test(path) && kinds.includes(kind));
}

/** Finds a model by its id or an alias. */
function findModel<M extends RoutedModel>(
  models: readonly M[],
  name: string,
): M | undefined {
  return models.find(({ id }) => id === name) ??
    models.find(({ aliases }) => aliases.includes(name)) ??
    models.find(({ aliases }) => aliases.includes(ANY_NAME));
}

/** Finds a model by name. @throws {HearthError} `model_not_found` if no model has that name. */
export function requireModel<M extends RoutedModel>(models: readonly M[], name: string): M {
  const found = findModel(models, name);
  if (found !== undefined) return found;
  throw new HearthError(
    "model_not_found",
    `There is no model ${JSON.stringify(name.slice(0, 100))} here. Name one of ${listIds(models)}.`,
    { param: "model" },
  );
}

/**
 * Chooses the model of a request.
 *
 * @param request.name the model's name in the request; `undefined` if it names none.
 * @param request.path path of the request, without `/v1`.
 * @throws {HearthError} `model_not_found`; `unsupported_by_model` if no model serves the path; `invalid_value` if
 * several do and the request names none.
 */
export function chooseModel<M extends RoutedModel>(
  models: readonly M[],
  { name, path }: { readonly name: string | undefined; readonly path: string },
): M {
  if (name !== undefined) return requireModel(models, name);
  const serving = models.filter(({ kind }) => kind !== undefined && mayServe(kind, path));
  const unknown = models.filter(({ kind }) => kind === undefined);
  const candidates = serving.length > 0 ? serving : unknown;
  const [only] = candidates;
  if (only !== undefined && candidates.length === 1) return only;
  if (candidates.length === 0) {
    throw new HearthError(
      "unsupported_by_model",
      `No model here serves ${path.slice(0, 100)}. Available: ${listIds(models)}.`,
    );
  }
  throw new HearthError(
    "invalid_value",
    `model: several models serve ${path.slice(0, 100)}; name one of ${listIds(candidates)}.`,
    { param: "model" },
  );
}

function listIds(models: readonly RoutedModel[]): string {
  return models.map(({ id, kind }) => kind === undefined ? id : `${id} (${kind})`).join(", ");
}
