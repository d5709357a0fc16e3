/**
 * The constant inputs of `log_mel_energy.wgsl`.
 *
 * @module
 */
import type { LogMelSpec } from "./log_mel_spec.ts";
import { makeHannWindow, makeMelFilters } from "./mel_filters.ts";

/** The only window length that the shader's transform supports. */
export const FFT_SAMPLES = 400;

/** Constant inputs; see the shader for shapes. */
interface LogMelTables {
  readonly window: Float32Array<ArrayBuffer>;
  readonly roots: Float32Array<ArrayBuffer>;
  /** Pairs of an index, u32, and a weight, f32. */
  readonly filters: Uint32Array<ArrayBuffer>;
  readonly starts: Uint32Array<ArrayBuffer>;
}

/** Makes the tables of a specification. */
export function makeLogMelTables(spec: LogMelSpec): LogMelTables {
  const melFilters = makeMelFilters(spec);
  const starts = new Uint32Array(melFilters.length + 1);
  melFilters.forEach(({ weights }, mel) => starts[mel + 1] = starts[mel]! + weights.length);
  const filters = new Uint32Array(2 * starts.at(-1)!);
  const asFloats = new Float32Array(filters.buffer);
  melFilters.forEach(({ firstBin, weights }, mel) =>
    weights.forEach((weight, i) => {
      const at = 2 * (starts[mel]! + i);
      filters[at] = put(firstBin + i);
      asFloats[at + 1] = weight;
    })
  );
  return {
    window: Float32Array.from(makeHannWindow(FFT_SAMPLES)),
    roots: Float32Array.from({ length: 2 * FFT_SAMPLES }, (_, i) => {
      const angle = -2 * Math.PI * (i >> 1) / FFT_SAMPLES;
      return i % 2 === 0 ? Math.cos(angle) : Math.sin(angle);
    }),
    filters,
    starts,
  };
}

/** Where the shader's transform, of radix 5, 5 and 8 in place, leaves a bin. */
function put(bin: number): number {
  return bin % 5 * 40 + Math.floor(bin / 5) % 5 * 8 + Math.floor(bin / 25);
}
