/**
 * The WebAssembly module with the CPU's kernels. The thread that owns a memory and its helpers each instantiate it.
 *
 * @module
 */
// Imported as text, since `deno compile` cannot embed a module imported as source.
import binary from "./attention_simd.wasm.base64" with { type: "text" };

/** A kernel whose work is divided into parts, each of which any thread can run. Addresses are in bytes. */
type SharedKernel = (
  node: number,
  step: number,
  items: number,
  firstWork: number,
  endWork: number,
  scratch: number,
) => void;

/** The exports of the module; see `wasm/`. */
export interface KernelExports {
  kvWrite(node: number, step: number): void;
  readonly pagedAttention: SharedKernel;
  readonly packedAttention: SharedKernel;
  readKeys(
    node: number,
    table: number,
    head: number,
    numTiles: number,
    into: number,
    scratch: number,
  ): void;
  readValues(node: number, table: number, head: number, numTiles: number, into: number): void;
  blockBytes(headSize: number): number;
  readonly product: SharedKernel;
  readonly floatProduct: SharedKernel;
  readonly expertsProduct: SharedKernel;
  readonly causalConv: SharedKernel;
  readonly linearAttention: SharedKernel;
  packColumns(
    from: number,
    outputs: number,
    k: number,
    first: number,
    count: number,
    into: number,
  ): void;
  packRows(from: number, k: number, count: number, into: number): void;
  packBlocks(
    levels: number,
    scales: number,
    zeros: number,
    blocks: number,
    numGroups: number,
    into: number,
  ): void;
  quantizeRow(x: number, blocks: number, rows: number, row: number, copies: number): void;
  quantizePair(x: number, blocks: number, rows: number, row: number, copies: number): void;
  quantizeShorts(x: number, length: number, factor: number, into: number): void;
  normRow(
    x: number,
    k: number,
    isLayer: number,
    epsilon: number,
    gamma: number,
    beta: number,
    out: number,
  ): void;
  rotateRow(
    x: number,
    heads: number,
    headSize: number,
    size: number,
    isInterleaved: number,
    cos: number,
    sin: number,
    out: number,
  ): void;
  pointwiseRow(
    a: number,
    b: number,
    width: number,
    operation: number,
    activation: number,
    scale: number,
    out: number,
  ): void;
}

const module = new WebAssembly.Module(Uint8Array.fromBase64(binary));

/** Instantiates the kernels on a shared memory. */
export function instantiateKernels(memory: WebAssembly.Memory): KernelExports {
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  return instance.exports as unknown as KernelExports;
}

/** Bytes of scratch memory that a thread needs for heads of this size, rounded up to whole cache lines. */
export function scratchBytes(headSize: number): number {
  measure ??= instantiateKernels(
    new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
  );
  return Math.ceil(measure.blockBytes(headSize) / 64) * 64;
}

let measure: KernelExports | undefined;
