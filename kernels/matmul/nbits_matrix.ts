/**
 * How a matrix of `MatMulNBits` lies in the memory of `nbits_product.ts`.
 *
 * The kernel multiplies levels of 4 bits in blocks of 32 that share a scale. A matrix of another form is a sum of planes,
 * each such a matrix: one of 8 bits of the upper and of the lower halves of its levels, and one in blocks of 16 of its even
 * and of its odd blocks. The planes of a block lie one after the other, and rows have a copy of the block for each.
 *
 * @module
 */
import type { AttentionExports } from "../cpu/attention_module.ts";
import type { LevelBits } from "./matvec_params.ts";
import type { ReadBytes } from "../cpu/row_kernel.ts";

/** Weights that share a scale, as in `wasm/product_layout.ts`. */
export const BLOCK = 32;
export const GROUP = 4;
const [BLOCK_BYTES, ZEROS_BLOCK_BYTES] = [80, 88];
/** Bytes of a plane's levels of a block. */
const PLANE_BYTES = BLOCK / 2;
/** The zero point that the kernel takes where a matrix has none. */
const ZERO = 8;

/** A matrix of `outputs` by `k`, as its file has it. */
export interface NbitsMatrix {
  readonly k: number;
  readonly outputs: number;
  readonly bits: LevelBits;
  /** Weights of a scale: 16, or a multiple of {@linkcode BLOCK}. */
  readonly blockSize: number;
  readonly hasZeroPoints: boolean;
}

/** Reads its parts; blocks are `ceil(k / blockSize)`. */
export interface NbitsSource {
  /** u8 `[outputs, blocks, blockSize * bits / 8]`. */
  readonly levels: ReadBytes;
  /** f32 `[outputs, blocks]`. */
  readonly scales: ReadBytes;
  /** u8 `[outputs, ceil(blocks * bits / 8)]`. */
  readonly zeroPoints?: ReadBytes | undefined;
}

/** Planes of a matrix. */
export function numPlanes({ bits, blockSize }: Pick<NbitsMatrix, "bits" | "blockSize">): number {
  return (bits === 8 ? 2 : 1) * (blockSize < BLOCK ? 2 : 1);
}

/** Whether the kernel reads zero points: of 1 and 2 bits they are taken off the levels. */
export function hasZeros(
  { bits, hasZeroPoints }: Pick<NbitsMatrix, "bits" | "hasZeroPoints">,
): boolean {
  return bits === 8 || (bits === 4 && hasZeroPoints);
}

/** Elements of f32 that a matrix takes. */
export function nbitsMatrixLength(matrix: NbitsMatrix): number {
  const { k, outputs } = matrix;
  const bytes = hasZeros(matrix) ? ZEROS_BLOCK_BYTES : BLOCK_BYTES;
  return outputs / GROUP * (k / BLOCK) * numPlanes(matrix) * bytes / 4;
}

/** Addresses of memory for the part of a matrix that is being packed. */
export interface StagedMatrix {
  readonly levels: number;
  /** A quarter of the levels' bytes. */
  readonly scales: number;
  /** A sixteenth of them. */
  readonly zeros: number;
  /** Bytes that levels may take. */
  readonly length: number;
}

/** Packs a matrix at address `at`, {@linkcode GROUP} outputs side by side. */
export async function packNbits(
  { memory, exports, staged, at }: {
    readonly memory: WebAssembly.Memory;
    readonly exports: Pick<AttentionExports, "packBlocks">;
    readonly staged: StagedMatrix;
    readonly at: number;
  },
  matrix: NbitsMatrix,
  source: NbitsSource,
): Promise<void> {
  const { k, outputs } = matrix;
  const blocks = k / BLOCK * numPlanes(matrix);
  const groupBytes = nbitsMatrixLength({ ...matrix, outputs: GROUP }) * 4;
  const most = Math.max(1, Math.floor(staged.length / (blocks * PLANE_BYTES * GROUP)));
  const bytes = new Uint8Array(memory.buffer);
  const zeros = hasZeros(matrix) ? staged.zeros : 0;
  const perOutput = fileBytes(matrix);
  // Files are not read into shared memory.
  const read = async (part: keyof NbitsSource, first: number, count: number) => {
    const into = new Uint8Array(count * perOutput[part]);
    await source[part]!(first * perOutput[part], into);
    return into;
  };
  for (let first = 0; first < outputs; first += most * GROUP) {
    const count = Math.min(most * GROUP, outputs - first);
    const planes = planesOf(matrix, {
      levels: await read("levels", first, count),
      scales: new Float32Array((await read("scales", first, count)).buffer),
      zeroPoints: matrix.hasZeroPoints ? await read("zeroPoints", first, count) : undefined,
    });
    bytes.set(planes.levels, staged.levels);
    bytes.set(new Uint8Array(planes.scales.buffer), staged.scales);
    if (zeros) bytes.set(planes.zeros, zeros);
    const { levels, scales } = staged;
    const to = at + first / GROUP * groupBytes;
    exports.packBlocks(levels, scales, zeros, blocks, count / GROUP, to);
  }
}

/** Bytes of an output in the parts of a file. */
function fileBytes({ k, bits, blockSize }: NbitsMatrix): Record<keyof NbitsSource, number> {
  const blocks = Math.ceil(k / blockSize);
  return {
    levels: blocks * blockSize * bits / 8,
    scales: blocks * Float32Array.BYTES_PER_ELEMENT,
    zeroPoints: Math.ceil(blocks * bits / 8),
  };
}

/** Some outputs of a file. */
interface FilePart {
  readonly levels: Uint8Array;
  readonly scales: Float32Array;
  readonly zeroPoints: Uint8Array | undefined;
}

/** Planes of some outputs, as `packBlocks` reads them. */
interface Planes {
  /** `[outputs, blocks, planes, 16]`, two levels in a byte, the first in its lower half. */
  readonly levels: Uint8Array;
  /** `[outputs, blocks, planes]`. */
  readonly scales: Float32Array;
  readonly zeros: Uint8Array;
}

function planesOf(matrix: NbitsMatrix, part: FilePart): Planes {
  const { k, bits, blockSize } = matrix;
  const perOutput = fileBytes(matrix);
  const [fileBlocks, halves, blocks] = [perOutput.scales / 4, blockSize < BLOCK ? 2 : 1, k / BLOCK];
  const outputs = part.scales.length / fileBlocks;
  const length = outputs * blocks * numPlanes(matrix);
  const isPlain = bits === 4 && halves === 1 && k === fileBlocks * blockSize;
  const levels = isPlain ? part.levels : new Uint8Array(length * PLANE_BYTES);
  const [scales, zeros] = [new Float32Array(length), new Uint8Array(length)];
  let plane = 0;
  for (let output = 0; output < outputs; output++) {
    for (let block = 0; block < blocks * halves; block++) {
      const scaleAt = Math.floor(block * BLOCK / halves / blockSize);
      const scale = part.scales[output * fileBlocks + scaleAt]!;
      const zero = part.zeroPoints
        ? levelAt(part.zeroPoints, bits, output * perOutput.zeroPoints * 8 / bits + scaleAt)
        : 2 ** (bits - 1);
      // Of half a block all of it is unpacked.
      const from = output * perOutput.levels + Math.floor(block / halves) * BLOCK * bits / 8;
      for (let shift = 0; shift < bits; shift += 4, plane++) {
        scales[plane] = scale * 2 ** shift;
        zeros[plane] = bits < 4 ? ZERO : (zero >> shift) & 15;
        if (isPlain) continue;
        const into = levels.subarray(plane * PLANE_BYTES, (plane + 1) * PLANE_BYTES);
        unpackBlock(part.levels, into, { bits, from, shift, added: bits < 4 ? ZERO - zero : 0 });
        // The other half of the block adds nothing.
        const rest = (block + 1) % 2 * PLANE_BYTES / 2;
        if (halves === 2) into.fill(zeros[plane]! * 0x11, rest, rest + PLANE_BYTES / 2);
      }
    }
  }
  return { levels, scales, zeros };
}

/** Level number `index` of some, the first in the lowest bits. */
function levelAt(levels: Uint8Array, bits: number, index: number): number {
  return (levels[Math.floor(index * bits / 8)]! >> (index * bits % 8)) & (2 ** bits - 1);
}

/**
 * A plane of a block.
 *
 * @param how.from the byte of its first level.
 * @param how.shift the first of the bits that it has of each level.
 * @param how.added what is added to each level.
 */
function unpackBlock(
  levels: Uint8Array,
  into: Uint8Array,
  { bits, from, shift, added }: {
    readonly bits: number;
    readonly from: number;
    readonly shift: number;
    readonly added: number;
  },
): void {
  const first = from * 8 / bits;
  for (let i = 0; i < PLANE_BYTES; i++) {
    const low = (levelAt(levels, bits, first + 2 * i) >> shift) + added;
    const high = (levelAt(levels, bits, first + 2 * i + 1) >> shift) + added;
    into[i] = (low & 15) | (high & 15) << 4;
  }
}
