/**
 * Bounds the time of code that cannot be asked to stop, such as WebAssembly.
 *
 * @module
 */
import { Script } from "node:vm";

/** The place of the call in the global scope, the only one that a script sees. */
const SLOT: unique symbol = Symbol.for("hearth.timedCall");
const scope = globalThis as typeof globalThis & { [SLOT]?: (() => unknown) | undefined };
const script = new Script('globalThis[Symbol.for("hearth.timedCall")]()');

/** The call took too long, and was ended. What it worked on is in no defined state. */
export class TimeLimitError extends Error {}

/**
 * Calls a synchronous function, and ends it when it takes too long: V8 interrupts it, also within WebAssembly. In Deno
 * 2.9 terminating a worker does not. No `finally` of the function runs then.
 *
 * @throws {TimeLimitError} when it was ended.
 */
export function callWithin<T>(maxMs: number, call: () => T): T {
  scope[SLOT] = call;
  try {
    return script.runInThisContext({ timeout: Math.max(1, Math.ceil(maxMs)) }) as T;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    throw new TimeLimitError(`It took longer than ${maxMs} ms.`);
  } finally {
    scope[SLOT] = undefined;
  }
}
