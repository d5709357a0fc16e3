/**
 * `log_mel` on the GPU: turns samples of several recordings into Whisper's features, in the encoder's input buffer.
 *
 * {@linkcode ReferenceLogMel} has the formula and the same interface.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext, uploadStorage } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { FOUR } from "../common/wgsl.ts";
import source from "./log_mel.wgsl" with { type: "text" };
import energySource from "./log_mel_energy.wgsl" with { type: "text" };
import {
  countFramesReached,
  countSamplesPerRow,
  type LogMelRow,
  type LogMelSpec,
  makeHannWindow,
  makeMelFilters,
} from "./log_mel_spec.ts";

const ENERGY_BINDINGS = {
  samples: "read",
  rows: "read",
  window: "read",
  roots: "read",
  filters: "read",
  starts: "read",
  energies: "read_write",
  loudest: "read_write",
} as const;
const BINDINGS = {
  energies: "read",
  rows: "read",
  loudest: "read",
  output: "read_write",
} as const;

/** The only window length that the shader's transform supports. */
const FFT_SAMPLES = 400;
/** Number of frames that one workgroup of the first shader computes. */
const GROUP_FRAMES = 8;
const ENERGY_THREADS = 64;
const THREADS = 256;
/** Number of words in the shaders' `Row`: recording, reached, content. */
const ROW_WORDS = 3;

/** Options of a {@linkcode LogMel}. */
export interface LogMelOptions {
  readonly spec: LogMelSpec;
  /** Element type of the encoder's input. */
  readonly elem: Elem;
  /** Maximum number of rows in one call. */
  readonly maxRows: number;
  /** Maximum number of recordings whose loudness is remembered at a time. */
  readonly maxRecordings: number;
}

/** Computes features, and remembers the loudness of each recording. All memory is allocated in the constructor. */
export class LogMel {
  readonly spec: LogMelSpec;
  readonly maxRows: number;
  readonly #gpu: GpuContext;
  readonly #energy: Kernel<typeof ENERGY_BINDINGS>;
  readonly #compress: Kernel<typeof BINDINGS>;
  readonly #buffers: Readonly<Record<keyof typeof ENERGY_BINDINGS, GPUBuffer>>;
  readonly #table: Uint32Array<ArrayBuffer>;
  /** Zeros that follow a row's samples, up to the last frame of its last workgroup. */
  readonly #silence: Float32Array<ArrayBuffer>;

  /** @throws {RangeError} when the kernel does not support the specification. */
  constructor(gpu: GpuContext, { spec, elem, maxRows, maxRecordings }: LogMelOptions) {
    checkSpec(spec);
    const { mels, frames, hopSamples } = spec;
    this.spec = spec;
    this.maxRows = maxRows;
    this.#gpu = gpu;
    this.#energy = Kernel.get(gpu, {
      name: "log_mel_energy",
      source: energySource,
      bindings: ENERGY_BINDINGS,
      constants: {
        MELS: mels,
        FRAMES: frames,
        HOP: hopSamples,
        ROW_SAMPLES: countSamplesPerRow(spec),
        WG: ENERGY_THREADS,
      },
    });
    this.#compress = Kernel.get(gpu, {
      name: "log_mel",
      source: FOUR[elem] + source,
      bindings: BINDINGS,
      constants: { ROW_FOURS: mels * frames / 4, FRAMES: frames, WG: THREADS },
    });
    const tables = makeLogMelTables(spec);
    this.#buffers = {
      samples: this.#allocate("samples", maxRows * countSamplesPerRow(spec)),
      rows: this.#allocate("rows", maxRows * ROW_WORDS),
      window: this.#upload("window", tables.window),
      roots: this.#upload("roots", tables.roots),
      filters: this.#upload("filters", tables.filters),
      starts: this.#upload("starts", tables.starts),
      energies: this.#allocate("energies", maxRows * mels * frames),
      loudest: this.#allocate("loudest", maxRecordings),
    };
    this.#table = new Uint32Array(maxRows * ROW_WORDS);
    this.#silence = new Float32Array(GROUP_FRAMES * hopSamples + FFT_SAMPLES);
  }

  /** Forgets the loudness of a recording, before another one gets its index. */
  forget(recording: number): void {
    this.#gpu.device.queue.writeBuffer(this.#buffers.loudest, 4 * recording, new Uint32Array(1));
  }

  /**
   * Uploads rows, and appends the work that measures the loudness of their recordings: one dispatch. Submit it before
   * the next call, which overwrites the upload.
   *
   * @throws {RangeError} when there are more than `maxRows` rows, or one is too long.
   */
  encodeMeasure(pass: ComputePass, rows: readonly LogMelRow[]): void {
    const reached = this.#write(rows);
    if (reached === 0) return;
    const groups = Math.ceil(reached / GROUP_FRAMES);
    this.#energy.encode(pass, this.#buffers, [groups, rows.length]);
  }

  /**
   * Uploads rows, and appends the work that computes their features: two dispatches. Submit it before the next call,
   * which overwrites the upload.
   *
   * @param output elem `[rows, mels, frames]`, a storage buffer of the caller.
   * @throws {RangeError} when there are more than `maxRows` rows, or one is too long.
   */
  encode(pass: ComputePass, rows: readonly LogMelRow[], output: GPUBuffer): void {
    this.encodeMeasure(pass, rows);
    const { energies, rows: table, loudest } = this.#buffers;
    const groups = Math.ceil(this.spec.mels * this.spec.frames / 4 / THREADS);
    this.#compress.encode(pass, { energies, rows: table, loudest, output }, [groups, rows.length]);
  }

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    for (const buffer of Object.values(this.#buffers)) buffer.destroy();
  }

  /** @returns the number of frames with sound in the longest row. */
  #write(rows: readonly LogMelRow[]): number {
    const rowSamples = countSamplesPerRow(this.spec);
    if (rows.length > this.maxRows) {
      throw new RangeError(`${rows.length} rows were given to a log_mel of ${this.maxRows}.`);
    }
    const { queue } = this.#gpu.device;
    let longest = 0;
    rows.forEach(({ samples, recording, contentFrames }, row) => {
      if (samples.length > rowSamples) {
        throw new RangeError(`A row has ${samples.length} samples; ${rowSamples} fit.`);
      }
      const reached = countFramesReached(this.spec, samples.length);
      longest = Math.max(longest, reached);
      this.#table.set([recording, reached, contentFrames], row * ROW_WORDS);
      const start = 4 * row * rowSamples;
      const { samples: buffer } = this.#buffers;
      // Deno panics when an empty array is written.
      if (reached > 0) queue.writeBuffer(buffer, start, samples as Float32Array<ArrayBuffer>);
      const silence = Math.min(this.#silence.length, rowSamples - samples.length);
      queue.writeBuffer(buffer, start + 4 * samples.length, this.#silence, 0, silence);
    });
    queue.writeBuffer(this.#buffers.rows, 0, this.#table, 0, rows.length * ROW_WORDS);
    return longest;
  }

  #allocate(label: string, words: number): GPUBuffer {
    return createStorage(this.#gpu, `log_mel ${label}`, 4 * words);
  }

  #upload(label: string, data: Float32Array | Uint32Array): GPUBuffer {
    return uploadStorage(this.#gpu, `log_mel ${label}`, data);
  }
}

function checkSpec({ fftSamples, frames }: LogMelSpec): void {
  if (fftSamples !== FFT_SAMPLES) {
    throw new RangeError(
      `A window of ${fftSamples} samples was asked for; log_mel on the GPU has one of ${FFT_SAMPLES}.`,
    );
  }
  if (frames % GROUP_FRAMES !== 0) {
    throw new RangeError(
      `${frames} frames were asked for; log_mel on the GPU makes multiples of ${GROUP_FRAMES}.`,
    );
  }
}

/** The constant inputs of `log_mel_energy.wgsl`, which gives their shapes. */
interface LogMelTables {
  readonly window: Float32Array<ArrayBuffer>;
  readonly roots: Float32Array<ArrayBuffer>;
  /** Pairs of an index (u32) and a weight (f32). */
  readonly filters: Uint32Array<ArrayBuffer>;
  readonly starts: Uint32Array<ArrayBuffer>;
}

/** Makes the tables of a specification. */
function makeLogMelTables(spec: LogMelSpec): LogMelTables {
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

/** Index at which the shader's in-place transform (radix 5, 5 and 8) leaves a bin. */
function put(bin: number): number {
  return bin % 5 * 40 + Math.floor(bin / 5) % 5 * 8 + Math.floor(bin / 25);
}
