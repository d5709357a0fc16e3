/**
 * What requests for embeddings and for reranking have in common: JSON with texts for the model.
 *
 * @module
 */
import type { z } from "zod";
import { type InferencePath, requireEndpoint } from "../api/endpoints.ts";
import { parseRequest } from "../api/parse.ts";
import type { ErrorKind } from "../errors.ts";
import type { Truncation } from "../models/task.ts";
import { readJson } from "./body.ts";
import { type AppDeps, type Call, JSON_ERRORS } from "./route.ts";

/** What such a request may be answered with instead. */
export const TEXT_ERRORS: readonly ErrorKind[] = [...JSON_ERRORS, "context_length_exceeded"];

/**
 * Reads a request for the loaded model.
 *
 * @throws {HearthError} when there is none, it serves other endpoints or has no room; and what is wrong with the body.
 */
export async function readTextRequest<S extends z.ZodType>(
  call: Call,
  { session, bodyLimits }: AppDeps,
  { path, schema }: { readonly path: InferencePath; readonly schema: S },
): Promise<{ readonly modelId: string; readonly request: z.output<S> }> {
  const info = session.requireRoom();
  requireEndpoint(info, path);
  const request = parseRequest(schema, await readJson(call.req.raw, bodyLimits));
  return { modelId: info.id, request };
}

/** How a request says that texts may be cut; `undefined` where nothing may be. */
export function truncationOf(
  { truncate, truncate_prompt_tokens: maxTokens }: {
    readonly truncate?: boolean | null | undefined;
    readonly truncate_prompt_tokens?: number | null | undefined;
  },
): Truncation | undefined {
  if (typeof maxTokens === "number") return maxTokens === -1 ? "model" : maxTokens;
  return truncate === true ? "model" : undefined;
}
