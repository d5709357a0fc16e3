/**
 * The models that a router may start: what their processes report, which of them serves a request, and which start and
 * end within a number of models and an amount of memory. Pure.
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
  /** `undefined` while unknown: a model that is not downloaded yet reveals it only once it is loaded. */
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

/** A model that is loaded, loading or ending, and so takes up memory. */
interface Occupant {
  /** Whether the model can be ended: it is neither loading nor ending. */
  readonly isLoaded: boolean;
  /** Whether the model is already ending. */
  readonly isLeaving: boolean;
  readonly numInUse: number;
  /** A counter that is larger the more recently the model was used. */
  readonly lastUse: number;
  /** Memory that the model takes, as far as known. */
  readonly bytes: number;
}

/**
 * Returns the waiting models that can start now, in order, as far as there is room. A model that is larger than the
 * memory limit starts once no other model is loaded.
 */
export function chooseStarts<W extends Pick<Occupant, "bytes">>(
  wanted: readonly W[],
  occupants: readonly Occupant[],
  { maxLoaded, maxBytes }: RoomLimits,
): W[] {
  let numLoaded = occupants.length;
  let bytes = sumBytes(occupants);
  const end = wanted.findIndex((each) => {
    const fits = numLoaded < maxLoaded && (numLoaded === 0 || bytes + each.bytes <= maxBytes);
    numLoaded++;
    bytes += each.bytes;
    return !fits;
  });
  return wanted.slice(0, end < 0 ? wanted.length : end);
}

/** Returns the models to end so that `wanted` have room: idle ones first, then the least recently used. */
export function chooseLeaving<O extends Occupant>(
  occupants: readonly O[],
  wanted: readonly Pick<Occupant, "bytes">[],
  { maxLoaded, maxBytes }: RoomLimits,
): O[] {
  const staying = occupants.filter(({ isLeaving }) => !isLeaving);
  const candidates = staying.filter(({ isLoaded }) => isLoaded)
    .sort((a, b) => Math.sign(a.numInUse) - Math.sign(b.numInUse) || a.lastUse - b.lastUse);
  let numTooMany = staying.length + wanted.length - maxLoaded;
  // Memory is freed for the first waiting model only; the others wait until it has started.
  let excessBytes = sumBytes(staying) + (wanted[0]?.bytes ?? 0) - maxBytes;
  // If no model is waiting, the last one stays, however large it is.
  const mayLeave = wanted.length > 0 ? candidates.length : staying.length - 1;
  const leaving: O[] = [];
  for (const each of candidates.slice(0, mayLeave)) {
    if (numTooMany <= 0 && excessBytes <= 0) break;
    leaving.push(each);
    numTooMany--;
    excessBytes -= each.bytes;
  }
  return leaving;
}

function sumBytes(occupants: readonly Pick<Occupant, "bytes">[]): number {
  return occupants.reduce((sum, { bytes }) => sum + bytes, 0);
}

const TEXT_KINDS: readonly ModelKind[] = ["text", "vision", "ocr", "asr"];

/** Kinds of models that serve a path, for paths that do not run the model and for aliases of paths. */
const KINDS_BY_PATH: readonly (readonly [path: RegExp, kinds: readonly ModelKind[]])[] = [
  [/^\/responses\/.+$/, ["text", "vision", "ocr"]],
  [/^\/v2\/rerank$/, ["rerank"]],
  [/^\/$/, ["embedding"]],
  [/^\/audio\/voices$/, ["tts"]],
  [/^\/(tokenize|detokenize|apply-template)$/, TEXT_KINDS],
];

/** Whether models of a kind serve a path, which is given without `/v1`. */
function mayServe(kind: ModelKind, path: string): boolean {
  return path === "/info" || servesPath(kind, path) ||
    KINDS_BY_PATH.some(([pattern, kinds]) => pattern.test(path) && kinds.includes(kind));
}

/** Finds a model by its id or another name. */
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
