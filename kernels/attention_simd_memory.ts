/**
 * The layout of the SIMD kernels' linear memory; `wasm/layout.ts` is the other side.
 *
 * @module
 */
import { type Setting, StartupError } from "../src/errors.ts";
import { adviseLargePages } from "../src/large_pages.ts";
import type { AttentionShape } from "./attention_shape.ts";
import { type ItemOptions, maxItemWords, ROWS, writeItems } from "./attention_items.ts";
import type { KernelThreads } from "./kernel_threads.ts";
import type { KvWriteParams } from "./kv_write.ts";
import type { AttentionParams } from "./paged_attention.ts";
import type { PackedStep, StepLimits } from "./step_plan.ts";

/** One attention layer. */
export interface SimdLayer {
  readonly shape: AttentionShape;
  readonly write: KvWriteParams;
  readonly attend: Pick<AttentionParams, "scale" | "softcap" | "window">;
  /** Whether queries, keys and values come in one tensor; `q`, `k` and `v` of the inputs are one array then. */
  readonly isPacked: boolean;
  /** f32 `[positions, rotary size / 2]`; layers may share them. */
  readonly rotary?: { readonly cos: Float32Array; readonly sin: Float32Array } | undefined;
  /** f32 `[heads]`. */
  readonly sinks?: Float32Array | undefined;
}

/** Limits of the memory, and the threads that use it. */
export interface SimdLimits extends StepLimits {
  readonly numBlocks: number;
  /** Absent if the caller works alone. */
  readonly threads?: KernelThreads | undefined;
  /** Whether the memory is to have large pages: for caches of which large parts are used at once. */
  readonly hasLargePages?: boolean;
}

const PAGE_BYTES = 2 ** 16;
const MAX_PAGES = 2 ** 16;
/** A line of the processor's cache. */
const ALIGNMENT = 64;

/** What takes a memory, for the message of a failure, and the setting that says how much. */
interface MemoryUse {
  readonly what: string;
  readonly setting?: Setting;
  readonly hasLargePages?: boolean | undefined;
  /** That there are; not asked of the machine if absent. */
  readonly maxBytes?: number | undefined;
}

/** Allocates addresses; then creates a memory of exactly that size. */
export class Arena {
  /** 0 stands for "none". */
  #end = ALIGNMENT;
  readonly #contents = new Map<Float32Array | Uint32Array, number>();

  /** Room for `length` elements of four bytes, all 0 at first. */
  reserve(length: number): number {
    const at = this.#end;
    this.#end += Math.ceil(length * 4 / ALIGNMENT) * ALIGNMENT;
    return at;
  }

  /** Room that holds `data` from the beginning; the same each time for the same array. */
  place(data: Float32Array | Uint32Array): number {
    const at = this.#contents.get(data) ?? this.reserve(data.length);
    this.#contents.set(data, at);
    return at;
  }

  /** @throws {StartupError} when there is not enough memory. */
  allocate(use: MemoryUse): WebAssembly.Memory {
    const memory = createMemory(Math.ceil(this.#end / PAGE_BYTES), use);
    // Before anything is written to it.
    if (use.hasLargePages) adviseLargePages(memory);
    for (const [data, at] of this.#contents) {
      new Uint32Array(memory.buffer, at, data.length)
        .set(new Uint32Array(data.buffer, data.byteOffset, data.length));
    }
    return memory;
  }
}

function createMemory(pages: number, { what, setting, maxBytes }: MemoryUse): WebAssembly.Memory {
  const wanted = `${what} take ${Math.ceil(pages / 16)} MiB`;
  if (pages > MAX_PAGES) {
    throw new StartupError(`${wanted}; on the CPU they may take ${MAX_PAGES / 16}.`, { setting });
  }
  if (maxBytes !== undefined && pages * PAGE_BYTES > maxBytes) {
    throw new StartupError(`${wanted}, and ${Math.floor(maxBytes / 2 ** 20)} MiB are left.`, {
      setting,
    });
  }
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch (cause) {
    throw new StartupError(`${wanted}, which this machine does not give.`, { cause, setting });
  }
}

/** Addresses of one layer. */
interface LayerOffsets {
  /** Of its `Site`. */
  readonly site: number;
  readonly q: number;
  readonly k: number;
  readonly v: number;
  readonly out: number;
  readonly kCache: number;
  readonly vCache: number;
}

/**
 * Inputs are shared by all layers. Outputs are not: a graph may read one after later layers have run.
 */
export function placeLayers(
  arena: Arena,
  layers: readonly SimdLayer[],
  limits: SimdLimits,
): LayerOffsets[] {
  const { maxTokens, numBlocks } = limits;
  const reserveRows = (widthOf: (layer: SimdLayer) => number) =>
    arena.reserve(maxTokens * Math.max(0, ...layers.map(widthOf)));
  const inputs = {
    q: reserveRows(({ write }) => write.q.stride),
    k: reserveRows(({ write, isPacked }) => isPacked ? 0 : write.k.stride),
    v: reserveRows(({ write, isPacked }) => isPacked ? 0 : write.v.stride),
  };

  return layers.map((layer) => {
    const { heads, kvHeads, headSize, blockSize } = layer.shape;
    const { q, k, v } = layer.isPacked ? { q: inputs.q, k: inputs.q, v: inputs.q } : inputs;
    const cacheLength = numBlocks * kvHeads * blockSize * headSize;
    const caches = { k: arena.reserve(cacheLength), v: arena.reserve(cacheLength) };
    const out = arena.reserve(maxTokens * heads * headSize);
    const { write, attend, rotary, sinks } = layer;
    // In the order of `Site`.
    const site = Uint32Array.of(
      heads,
      kvHeads,
      headSize,
      Math.log2(blockSize),
      ...[q, write.q.stride, write.q.offset],
      ...[k, write.k.stride, write.k.offset],
      ...[v, write.v.stride, write.v.offset],
      caches.k,
      caches.v,
      out,
      write.rotary?.size ?? 0,
      write.rotary?.isInterleaved ? 1 : 0,
      rotary ? arena.place(rotary.cos) : 0,
      rotary ? arena.place(rotary.sin) : 0,
      wordOf(attend.scale),
      wordOf(attend.softcap),
      attend.window,
      sinks ? arena.place(sinks) : 0,
    );
    return { site: arena.place(site), q, k, v, out, kCache: caches.k, vCache: caches.v };
  });
}

/** The bits of a float32. */
function wordOf(x: number): number {
  return new Uint32Array(Float32Array.of(x).buffer)[0]!;
}

/** Addresses of a step's data for the kernels. */
interface StepOffsets {
  /** Of its `Step`. */
  readonly step: number;
  readonly positions: number;
  readonly queryStarts: number;
  readonly blockTables: number;
  readonly items: readonly ItemOffsets[];
}

/** The items of a step, for all layers of the same heads. */
interface ItemOffsets {
  readonly at: number;
  readonly length: number;
  readonly options: ItemOptions;
}

export function placeStep(
  arena: Arena,
  limits: SimdLimits,
  layers: readonly SimdLayer[],
): StepOffsets {
  const { maxTokens, maxSequences, maxBlocksPerSequence } = limits;
  const positions = arena.reserve(maxTokens);
  const queryStarts = arena.reserve(maxSequences + 1);
  const blockTables = arena.reserve(maxSequences * maxBlocksPerSequence);
  // In the order of `Step`; the first two words come with each step.
  const step = arena.place(Uint32Array.of(0, 0, positions, queryStarts, blockTables));
  const items: ItemOffsets[] = [];
  for (const { shape: { heads, kvHeads } } of layers) {
    if (items.some((other) => isFor(other, heads, kvHeads))) continue;
    const joins = { numThreads: limits.threads?.numThreads ?? 1 };
    const options = { kvHeads, group: heads / kvHeads, rowsPerItem: ROWS, joins };
    const length = maxItemWords(limits, options);
    items.push({ at: arena.reserve(length), length, options });
  }
  return { step, positions, queryStarts, blockTables, items };
}

function isFor({ options }: ItemOffsets, heads: number, kvHeads: number): boolean {
  return options.kvHeads === kvHeads && options.group === heads / kvHeads;
}

/** Writes steps to their addresses. */
export class StepWriter {
  readonly #counts: Uint32Array;
  readonly #positions: Int32Array;
  readonly #queryStarts: Int32Array;
  readonly #blockTables: Int32Array;
  readonly #items: readonly (ItemOffsets & { readonly words: Uint32Array; count: number })[];

  constructor({ buffer }: WebAssembly.Memory, offsets: StepOffsets, limits: SimdLimits) {
    const { maxTokens, maxSequences, maxBlocksPerSequence } = limits;
    this.#counts = new Uint32Array(buffer, offsets.step, 2);
    this.#positions = new Int32Array(buffer, offsets.positions, maxTokens);
    this.#queryStarts = new Int32Array(buffer, offsets.queryStarts, maxSequences + 1);
    this.#blockTables = new Int32Array(
      buffer,
      offsets.blockTables,
      maxSequences * maxBlocksPerSequence,
    );
    this.#items = offsets.items.map((items) => {
      return { ...items, words: new Uint32Array(buffer, items.at, items.length), count: 0 };
    });
  }

  /** @param skipped sequences that {@linkcode itemsFor} leaves out. */
  write(step: PackedStep, skipped: readonly number[]): void {
    const numSequences = step.sequences.length;
    const { maxBlocksPerSequence } = step;
    this.#counts[0] = numSequences;
    this.#counts[1] = maxBlocksPerSequence;
    this.#positions.set(step.positions.subarray(0, step.numTokens));
    this.#queryStarts.set(step.queryStarts.subarray(0, numSequences + 1));
    this.#blockTables.set(step.blockTables.subarray(0, numSequences * maxBlocksPerSequence));
    for (const items of this.#items) {
      items.count = writeItems(items.words, step, { ...items.options, skipped });
    }
  }

  /** Address and number of this step's items for layers with these heads. */
  itemsFor({ heads, kvHeads }: AttentionShape): { readonly at: number; readonly count: number } {
    return this.#items.find((items) => isFor(items, heads, kvHeads))!;
  }
}
