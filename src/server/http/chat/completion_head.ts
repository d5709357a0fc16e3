/**
 * The fields at the start of every chat completion.
 *
 * @module
 */
import type { CompletionHead } from "../../../wire/chat_response.ts";

/** The head of a new completion by `model`, made now. */
export function newCompletionHead(model: string): CompletionHead {
  return {
    id: `chatcmpl-${crypto.randomUUID()}`,
    createdSeconds: Math.floor(Date.now() / 1000),
    model,
  };
}
