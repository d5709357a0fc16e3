/**
 * How a request says that texts may be cut.
 *
 * @module
 */
import type { EmbeddingRequest } from "../api/embedding_request.ts";
import type { Truncation } from "../models/task.ts";

/** `undefined` where nothing may be cut. */
export function truncationOf(
  { truncate, truncate_prompt_tokens: maxTokens }: Pick<
    EmbeddingRequest,
    "truncate" | "truncate_prompt_tokens"
  >,
): Truncation | undefined {
  if (typeof maxTokens === "number") return maxTokens === -1 ? "model" : maxTokens;
  return truncate === true ? "model" : undefined;
}
