/**
 * Chooses the model for a request: the one it names, or else the only one that serves its path.
 *
 * @module
 */
import { ANY_NAME, servesPath } from "../wire/endpoints.ts";
import type { ModelKind } from "../base/config.ts";
import { HearthError } from "../base/errors.ts";
import type { RoutedModel } from "./routed_model.ts";

const TEXT_KINDS: readonly ModelKind[] = ["text", "vision", "ocr", "asr"];

/** Kinds of models for paths that do not run the model, or that are aliases. */
const KINDS_BY_PATH: readonly (readonly [path: RegExp, kinds: readonly ModelKind[]])[] = [
  [/^\/responses\/.+$/, ["text", "vision", "ocr"]],
  [/^\/v2\/rerank$/, ["rerank"]],
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
    `There is no model ${JSON.stringify(name.slice(0, 100))} here; there is ${listIds(models)}.`,
    { param: "model" },
  );
}

/**
 * Chooses the model of a request.
 *
 * @param request.path without `/v1`.
 * @throws {HearthError} `model_not_found`; `unsupported_by_model` if no model serves the path; `invalid_value` if several
 * do and the request names none.
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
      `No model here serves ${path.slice(0, 100)}; there is ${listIds(models)}.`,
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
