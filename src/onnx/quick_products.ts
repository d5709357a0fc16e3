/**
 * Gives ONNX Runtime's WebAssembly quicker matrix products: its two functions for them, which are most of its time on
 * the CPU, are exchanged for those of `wasm/` before it is compiled.
 *
 * They are known by their bytes: in another build of ONNX Runtime they are not found, and it runs as it is. Then they
 * are to be looked for again: in a profile of a product of `[512, 128]` and `[128, 512]`, and one of `[512, 1024]` and
 * `[1024, 512]`, they stand at the top.
 *
 * @module
 */
import { createHash } from "node:crypto";
// As text, since deno compile embeds no module that is imported by its source.
import products from "./quick_products.wasm.base64" with { type: "text" };
import { listFunctions, replaceFunctions } from "./wasm_code.ts";

/** Functions of onnxruntime-web 1.30.0, in the order of those that take their place. */
const REPLACED = [
  // MlasSgemmKernelZero
  {
    numBytes: 2040,
    sha256: "f7728808b5f87253962b9f639f830459c0961fbc2cd2f8463534e97ae5a7e534",
  },
  // MlasSgemmKernelAdd
  {
    numBytes: 1922,
    sha256: "9e72cc3a5fb5a445d440bf86c3de4b8bb338ee3773f763c730af6227034c8f08",
  },
];

/**
 * The same runtime with quicker products; `undefined` where it has other functions than are known, or the engine cannot
 * run those of ours (relaxed SIMD).
 */
export function quickenProducts(runtime: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  const own = Uint8Array.fromBase64(products);
  if (!WebAssembly.validate(own)) return undefined;
  const quicker = listFunctions(own).map(({ start, end }) => own.subarray(start, end));
  const bodies = new Map<number, Uint8Array>();
  listFunctions(runtime).forEach(({ start, end }, place) => {
    const which = findReplaced(runtime.subarray(start, end));
    if (which >= 0) bodies.set(place, quicker[which]!);
  });
  return bodies.size === REPLACED.length ? replaceFunctions(runtime, bodies) : undefined;
}

function findReplaced(body: Uint8Array): number {
  if (!REPLACED.some(({ numBytes }) => numBytes === body.length)) return -1;
  const digest = createHash("sha256").update(body).digest("hex");
  return REPLACED.findIndex(({ sha256 }) => sha256 === digest);
}
