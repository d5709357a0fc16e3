/**
 * When the range of a mapped buffer may be taken.
 *
 * @module
 */

/**
 * Deno versions on which a mapped range may be taken before `mapAsync` resolves.
 *
 * Deno's `mapAsync` blocks until the GPU has finished and then sleeps 10 ms before it resolves. The range is
 * there right after the call, but only on a buffer that was mapped and awaited once: on any other, taking it
 * panics the process. That is not in the WebGPU specification, so each version is verified before it is listed.
 */
const EARLY_RANGE_DENO_VERSIONS: ReadonlySet<string> = new Set(["2.9.6"]);

/** Whether this Deno gives a mapped range before `mapAsync` resolves. */
export function canTakeRangeEarly(denoVersion: string = Deno.version.deno): boolean {
  return EARLY_RANGE_DENO_VERSIONS.has(denoVersion);
}
