/**
 * `packed_attention` in WebAssembly SIMD, for all attention layers of a model: the CPU backend's own.
 *
 * @module
 */
import { checkHeads } from "./attention_shape.ts";
// As text, since deno compile embeds no module that is imported by its source.
import binary from "./attention_simd.wasm.base64" with { type: "text" };
import { checkLayouts, type PackedParams } from "./packed_attention.ts";
import { numQueryRows, type PackedBounds } from "./packed_bounds.ts";

/** Where the tensors of a layer go. What one layer's hold is lost with the next layer. */
export interface PackedInputs {
  /** f32 `[query rows, q.stride]`. */
  readonly q: Float32Array;
  /** f32 `[key rows, k.stride]`. */
  readonly k: Float32Array;
  /** f32 `[key rows, v.stride]`. */
  readonly v: Float32Array;
}

/** One layer. */
export interface SimdPackedLayer extends PackedParams {
  /** Whether queries, keys and values come in one tensor; `q`, `k` and `v` of the inputs are one array then. */
  readonly isPacked: boolean;
}

const module = new WebAssembly.Module(Uint8Array.fromBase64(binary));

/** Keys that lie side by side, as in `wasm/layout.ts`. */
const TILE = 16;
/** A line of the processor's cache. */
const ALIGNMENT = 64;
const PAGE_BYTES = 2 ** 16;
const MAX_PAGES = 2 ** 16;

interface Exports {
  packedAttention(site: number, batch: number): void;
}

/** Addresses in the linear memory, of one batch; `wasm/packed_layout.ts` is the other side. */
interface Places {
  readonly q: number;
  readonly k: number;
  readonly v: number;
  readonly out: number;
  readonly site: number;
  readonly batch: number;
}

/** With sums in f32, what `attendPacked` does in float64; see `wasm/`. Its memory grows to what the largest batch needs. */
export class SimdPackedAttention {
  readonly #layers: readonly SimdPackedLayer[];
  readonly #memory = new WebAssembly.Memory({ initial: 1, maximum: MAX_PAGES });
  readonly #exports: Exports;
  #places: Places = { q: 0, k: 0, v: 0, out: 0, site: 0, batch: 0 };
  #numRows = 0;
  #numKeyRows = 0;

  /** @throws {RangeError} when the kernel cannot run a layer. */
  constructor(layers: readonly SimdPackedLayer[]) {
    for (const layer of layers) {
      checkHeads(layer.shape);
      checkLayouts(layer);
    }
    this.#layers = layers;
    this.#exports = new WebAssembly.Instance(module, { env: { memory: this.#memory } })
      .exports as unknown as Exports;
  }

  /**
   * Takes the bounds of the next batch.
   *
   * @throws {RangeError} when there is no memory for it.
   */
  begin(bounds: PackedBounds): void {
    const { numSequences, queryStarts, keyStarts, keyLengths } = bounds;
    this.#numRows = numQueryRows(bounds);
    this.#numKeyRows = 0;
    let maxKeys = 0;
    for (let s = 0; s < numSequences; s++) {
      maxKeys = Math.max(maxKeys, keyLengths[s]!);
      this.#numKeyRows = Math.max(this.#numKeyRows, keyStarts[s]! + keyLengths[s]!);
    }
    const stride = Math.ceil(maxKeys / TILE) * TILE;
    const widest = (widthOf: (layer: SimdPackedLayer) => number) =>
      Math.max(0, ...this.#layers.map(widthOf));

    let end = ALIGNMENT;
    const reserve = (length: number) => {
      const at = end;
      end += Math.ceil(length * 4 / ALIGNMENT) * ALIGNMENT;
      return at;
    };
    const site = reserve(20);
    const batch = reserve(8);
    const starts = [numSequences + 1, numSequences, numSequences].map(reserve);
    const tiles = reserve(stride * widest(({ shape }) => shape.headSize));
    const scores = reserve(2 * stride);
    const separate = (layer: SimdPackedLayer, width: number) => layer.isPacked ? 0 : width;
    this.#places = {
      site,
      batch,
      q: reserve(this.#numRows * widest(({ q }) => q.stride)),
      k: reserve(this.#numKeyRows * widest((layer) => separate(layer, layer.k.stride))),
      v: reserve(this.#numKeyRows * widest((layer) => separate(layer, layer.v.stride))),
      out: reserve(this.#numRows * widest(({ shape }) => shape.heads * shape.headSize)),
    };
    const missing = Math.ceil(end / PAGE_BYTES) - this.#memory.buffer.byteLength / PAGE_BYTES;
    if (missing > 0) this.#memory.grow(missing);

    // In the order of `PackedBatch`.
    this.#words(batch, 7).set([numSequences, ...starts, tiles, scores, stride]);
    [queryStarts, keyStarts, keyLengths].forEach((words, i) => {
      const length = i === 0 ? numSequences + 1 : numSequences;
      this.#words(starts[i]!, length).set(words.subarray(0, length));
    });
  }

  /** Where a layer's tensors of this batch go; found anew for each batch, since memory may have moved. */
  inputs(layer: number): PackedInputs {
    const { isPacked, q, k, v } = this.#layers[layer]!;
    const queries = this.#floats(this.#places.q, this.#numRows * q.stride);
    if (isPacked) return { q: queries, k: queries, v: queries };
    return {
      q: queries,
      k: this.#floats(this.#places.k, this.#numKeyRows * k.stride),
      v: this.#floats(this.#places.v, this.#numKeyRows * v.stride),
    };
  }

  /** @returns f32 `[query rows, heads * headSize]`, valid until the next layer runs. */
  run(layer: number): Float32Array {
    const { shape, q, k, v, scale, softcap, reach, isPacked } = this.#layers[layer]!;
    const { heads, kvHeads, headSize } = shape;
    const places = this.#places;
    // In the order of `PackedSite`.
    this.#words(places.site, 16).set([
      heads,
      kvHeads,
      headSize,
      ...[places.q, q.stride, q.offset],
      ...[isPacked ? places.q : places.k, k.stride, k.offset],
      ...[isPacked ? places.q : places.v, v.stride, v.offset],
      places.out,
      0,
      0,
      reach,
    ]);
    this.#floats(places.site + 13 * 4, 2).set([scale, softcap]);
    this.#exports.packedAttention(places.site, places.batch);
    return this.#floats(places.out, this.#numRows * heads * headSize);
  }

  #floats(at: number, length: number): Float32Array<ArrayBuffer> {
    return new Float32Array(this.#memory.buffer as ArrayBuffer, at, length);
  }

  #words(at: number, length: number): Uint32Array<ArrayBuffer> {
    return new Uint32Array(this.#memory.buffer as ArrayBuffer, at, length);
  }
}
