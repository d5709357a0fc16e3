/**
 * PDFium compiled to WebAssembly, loaded with the first PDF.
 *
 * @module
 */
import type { WrappedPdfiumModule } from "@embedpdf/pdfium";
import { HearthError } from "../../base/errors.ts";
import { Script } from "node:vm";

/** An instance of PDFium. After a trap or an interruption it must not be used again. */
export interface Pdfium {
  readonly api: WrappedPdfiumModule;
  readonly memory: WebAssembly.Memory;
}

/** Maximum memory of an instance: enough for a file of 100 MiB and its unpacked images. */
const MAX_BYTES = 512 * 2 ** 20;

let module: Promise<WebAssembly.Module> | undefined;

/** @throws {HearthError} `inference_failed` when PDFium cannot be loaded. */
export async function loadPdfium(): Promise<Pdfium> {
  try {
    return await instantiate();
  } catch (error) {
    module = undefined;
    throw new HearthError(
      "inference_failed",
      "The reader of PDF files could not be loaded; the server's log says why.",
      { cause: error },
    );
  }
}

async function instantiate(): Promise<Pdfium> {
  module ??= Deno.readFile(new URL(import.meta.resolve("@embedpdf/pdfium/pdfium.wasm")))
    .then((code) => WebAssembly.compile(code));
  const [compiled, { init }] = await Promise.all([module, import("@embedpdf/pdfium")]);
  let memory: WebAssembly.Memory | undefined;
  const api = await init({
    print: () => {},
    // Damaged files cause thousands of messages.
    printErr: () => {},
    instantiateWasm(imports: WebAssembly.Imports, done: (instance: WebAssembly.Instance) => void) {
      const instance = new WebAssembly.Instance(compiled, boundMemory(imports));
      memory = instance.exports["memory"] as WebAssembly.Memory;
      done(instance);
      return instance.exports;
    },
  });
  api.PDFiumExt_Init();
  return { api, memory: memory! };
}

/** The same imports, but memory cannot grow beyond the limit: an allocation that needs more fails. */
function boundMemory(imports: WebAssembly.Imports): WebAssembly.Imports {
  const env = imports["env"]!;
  const grow = env["emscripten_resize_heap"] as (numBytes: number) => number;
  const growWithin = (numBytes: number) => numBytes >>> 0 <= MAX_BYTES ? grow(numBytes) : 0;
  return { ...imports, env: { ...env, emscripten_resize_heap: growWithin } };
}

/** Key of the call in the global scope, which is the only scope a script can see. */
const SLOT: unique symbol = Symbol.for("hearth.timedCall");
const scope = globalThis as typeof globalThis & { [SLOT]?: (() => unknown) | undefined };
const script = new Script('globalThis[Symbol.for("hearth.timedCall")]()');

/** The call took too long and was interrupted. The data that it worked on are in an undefined state. */
export class TimeLimitError extends Error {}

/**
 * Calls a synchronous function, and interrupts it when it takes too long. V8 can interrupt it even within WebAssembly;
 * terminating a worker does not do that in Deno 2.9. The `finally` blocks of an interrupted function do not run.
 *
 * @throws {TimeLimitError} when it was interrupted.
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
