/**
 * Errors about the chat request that another form of the API stands for, in the words of the request that was sent.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";

/**
 * The same error with its field, in `param` and in the message, as the client named it.
 *
 * @param ownParam from a path in the chat request to the client's own.
 */
export function inOwnWords(error: unknown, ownParam: (param: string) => string): unknown {
  if (!(error instanceof HearthError) || error.param === undefined) return error;
  const param = ownParam(error.param);
  const message = error.message.replaceAll(error.param, () => param);
  return new HearthError(error.kind, message, { param, cause: error.cause });
}
