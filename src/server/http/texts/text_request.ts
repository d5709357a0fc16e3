/**
 * The shared part of embedding and rerank requests: JSON with texts for the model.
 *
 * @module
 */
import type { z } from "zod";
import { type InferencePath, requireEndpoint } from "../../../wire/endpoints.ts";
import { parseRequest } from "../../../wire/parse.ts";
import { findUnserved } from "../../../wire/unserved_fields.ts";
import type { ErrorKind } from "../../../base/errors.ts";
import type { Truncation } from "../../../models/task.ts";
import { readJson } from "../body/body.ts";
import { type AppDeps, type Call, JSON_ERRORS } from "../route.ts";
import { warn } from "../warnings.ts";

/** Errors of these requests. */
export const TEXT_ERRORS: readonly ErrorKind[] = [...JSON_ERRORS, "context_length_exceeded"];

/**
 * Reads a request for the loaded model.
 *
 * @throws {HearthError} when no model is loaded, the model does not serve the endpoint, the queue is full, or the body
 * is invalid.
 */
export async function readTextRequest<S extends z.ZodType>(
  call: Call,
  { session, bodyLimits }: AppDeps,
  { path, schema, unserved }: {
    readonly path: InferencePath;
    readonly schema: S;
    /** The family of requests whose known but unserved fields are reported; none if absent. */
    readonly unserved?: "embedding" | "rerank" | "score";
  },
): Promise<{ readonly modelId: string; readonly request: z.output<S> }> {
  const info = session.requireRoom();
  requireEndpoint(info, path);
  const body = await readJson(call.req.raw, bodyLimits);
  if (unserved !== undefined) warn(call, ...findUnserved(body, unserved));
  const request = parseRequest(schema, body);
  return { modelId: info.id, request };
}

/** The truncation options of a request; `undefined` if its texts must not be cut. */
export function readTruncation(
  { truncate, truncation, truncate_prompt_tokens: maxTokens }: {
    readonly truncate?: boolean | "END" | "NONE" | null | undefined;
    readonly truncation?: boolean | null | undefined;
    readonly truncate_prompt_tokens?: number | null | undefined;
  },
): Truncation | undefined {
  if (typeof maxTokens === "number") return maxTokens === -1 ? "model" : maxTokens;
  return isCut({ truncate, truncation }) === true ? "model" : undefined;
}

/** Whether a request wants long texts cut; `undefined` if it does not say. */
export function isCut({ truncate, truncation }: {
  readonly truncate?: boolean | "END" | "NONE" | null | undefined;
  readonly truncation?: boolean | null | undefined;
}): boolean | undefined {
  if (typeof truncate === "string") return truncate === "END";
  return truncate ?? truncation ?? undefined;
}
