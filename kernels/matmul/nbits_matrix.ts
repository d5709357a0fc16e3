/**
 * The layout of a quantised matrix (`MatMulNBits`) in the memory of `row_products.ts`.
 *
 * The kernel multiplies levels of 4 bits in blocks of 32 that share a scale. A matrix in another format is split into
 * planes, which are matrices of that kind whose products are added. If levels have 8 bits, the planes are their lower
 * and their upper halves; if blocks have 16 weights, the planes are the even and the odd blocks. The planes of a block
 * lie one after the other, and a quantised row has a copy of each of its blocks for every plane.
 *
 * A zero point `z` between levels is a plane too, whose weights are all 1 and whose scale is `scale * (middle - z)`:
 * `scale * (level - z)` is `scale * (level - middle) + scale * (middle - z)`.
 *
 * @module
 */
import type { KernelExports } from "../cpu/kernel_module.ts";
import type { LevelBits } from "./matvec_params.ts";
import type { ReadBytes } from "../cpu/arena.ts";

/** Number of weights that share a scale, as in `wasm/product_layout.ts`. */
export const BLOCK = 32;
export const GROUP = 4;
const [BLOCK_BYTES, ZEROS_BLOCK_BYTES] = [80, 88];
/** Bytes of a block's levels in a plane. */
const PLANE_BYTES = BLOCK / 2;
/** The kernel's default zero point. */
const ZERO = 8;

/** A matrix of `outputs` by `k` as stored in the file. */
export interface NbitsMatrix {
  readonly k: number;
  readonly outputs: number;
  readonly bits: LevelBits;
  /** Number of weights per scale: 16, or a multiple of {@linkcode BLOCK}. */
  readonly blockSize: number;
  readonly hasZeroPoints: boolean;
  /** Whether zero points are floats, and lie between levels. */
  readonly hasFloatZeroPoints?: boolean | undefined;
}

/** Reads the parts of a matrix; the number of blocks is `ceil(k / blockSize)`. */
export interface NbitsSource {
  /** u8 `[outputs, blocks, blockSize * bits / 8]`. */
  readonly levels: ReadBytes;
  /** f32 `[outputs, blocks]`. */
  readonly scales: ReadBytes;
  /** u8 `[outputs, ceil(blocks * bits / 8)]`, or f32 `[outputs, blocks]`. */
  readonly zeroPoints?: ReadBytes | undefined;
}

/** Number of planes of a matrix. */
export function numPlanes(
  matrix: Pick<NbitsMatrix, "bits" | "blockSize" | "hasFloatZeroPoints">,
): number {
  return planesPerPart(matrix) * (matrix.blockSize < BLOCK ? 2 : 1);
}

/** Number of planes of a block, or of half a block if blocks are split. */
function planesPerPart(
  { bits, hasFloatZeroPoints }: Pick<NbitsMatrix, "bits" | "hasFloatZeroPoints">,
): number {
  return (bits === 8 ? 2 : 1) + (hasFloatZeroPoints ? 1 : 0);
}

/** Whether the kernel reads zero points. For 1 and 2 bits, they are subtracted when the levels are packed. */
export function hasZeros(
  { bits, hasZeroPoints, hasFloatZeroPoints }: Pick<
    NbitsMatrix,
    "bits" | "hasZeroPoints" | "hasFloatZeroPoints"
  >,
): boolean {
  return bits === 8 || (bits === 4 && hasZeroPoints && !hasFloatZeroPoints);
}

/** Number of f32 elements that a packed matrix takes. */
export function countNbitsMatrixElements(matrix: NbitsMatrix): number {
  const { k, outputs } = matrix;
  const bytes = hasZeros(matrix) ? ZEROS_BLOCK_BYTES : BLOCK_BYTES;
  return outputs / GROUP * (k / BLOCK) * numPlanes(matrix) * bytes / 4;
}

/** Addresses of memory for the part of a matrix that is being packed. */
export interface StagedMatrix {
  readonly levels: number;
  /** The scales take a quarter of the levels' bytes. */
  readonly scales: number;
  /** The zero points take a sixteenth of the levels' bytes. */
  readonly zeros: number;
  /** Maximum number of bytes of levels. */
  readonly length: number;
}

/** Packs a matrix, with {@linkcode GROUP} outputs side by side, and writes it to address `at`. */
export async function packNbits(
  { memory, exports, staged, at }: {
    readonly memory: WebAssembly.Memory;
    readonly exports: Pick<KernelExports, "packBlocks">;
    readonly staged: StagedMatrix;
    readonly at: number;
  },
  matrix: NbitsMatrix,
  source: NbitsSource,
): Promise<void> {
  const { k, outputs } = matrix;
  const blocks = k / BLOCK * numPlanes(matrix);
  const groupBytes = countNbitsMatrixElements({ ...matrix, outputs: GROUP }) * 4;
  const most = Math.max(1, Math.floor(staged.length / (blocks * PLANE_BYTES * GROUP)));
  const bytes = new Uint8Array(memory.buffer);
  const zeros = hasZeros(matrix) ? staged.zeros : 0;
  const perOutput = fileBytes(matrix);
  // A buffer is needed, since files cannot be read into shared memory.
  const read = async (part: keyof NbitsSource, first: number, count: number) => {
    const into = new Uint8Array(count * perOutput[part]);
    await source[part]!(first * perOutput[part], into);
    return into;
  };
  for (let first = 0; first < outputs; first += most * GROUP) {
    const count = Math.min(most * GROUP, outputs - first);
    const planes = splitPlanes(matrix, {
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

/** Bytes of an output in each part of the file. */
function fileBytes(
  { k, bits, blockSize, hasFloatZeroPoints }: NbitsMatrix,
): Record<keyof NbitsSource, number> {
  const blocks = Math.ceil(k / blockSize);
  const scales = blocks * Float32Array.BYTES_PER_ELEMENT;
  return {
    levels: blocks * blockSize * bits / 8,
    scales,
    zeroPoints: hasFloatZeroPoints ? scales : Math.ceil(blocks * bits / 8),
  };
}

/** Some outputs, as stored in the file. */
interface FilePart {
  readonly levels: Uint8Array;
  readonly scales: Float32Array;
  readonly zeroPoints: Uint8Array | undefined;
}

/** Planes of some outputs, in the layout that `packBlocks` reads. */
interface Planes {
  /** `[outputs, blocks, planes, 16]`, two levels per byte, the first in its lower half. */
  readonly levels: Uint8Array;
  /** `[outputs, blocks, planes]`. */
  readonly scales: Float32Array;
  readonly zeros: Uint8Array;
}

function splitPlanes(matrix: NbitsMatrix, part: FilePart): Planes {
  const { k, bits, blockSize, hasFloatZeroPoints } = matrix;
  const perOutput = fileBytes(matrix);
  const [fileBlocks, halves] = [perOutput.scales / 4, blockSize < BLOCK ? 2 : 1];
  const outputs = part.scales.length / fileBlocks;
  const floatZeros = hasFloatZeroPoints ? new Float32Array(part.zeroPoints!.buffer) : undefined;
  const planesOfPart = planesPerPart(matrix);
  const isPlain = bits === 4 && planesOfPart * halves === 1 && k === fileBlocks * blockSize;
  // The file already has the kernel's layout.
  if (isPlain && blockSize === BLOCK && !part.zeroPoints) {
    return { levels: part.levels, scales: part.scales, zeros: new Uint8Array(0) };
  }
  const numParts = k / BLOCK * halves;
  const length = outputs * numParts * planesOfPart;
  const levels = isPlain ? part.levels : new Uint8Array(length * PLANE_BYTES);
  const [scales, zeros] = [new Float32Array(length), new Uint8Array(length)];
  const partsPerScale = blockSize * halves / BLOCK;
  const partBytes = BLOCK * bits / 8;
  const middle = 1 << (bits - 1);
  let plane = 0;
  for (let output = 0; output < outputs; output++) {
    for (let i = 0; i < numParts; i++) {
      const scaleAt = Math.floor(i / partsPerScale);
      const scale = part.scales[output * fileBlocks + scaleAt]!;
      const zero = part.zeroPoints && !floatZeros
        ? levelAt(part.zeroPoints, bits, output * perOutput.zeroPoints * 8 / bits + scaleAt)
        : middle;
      if (!isPlain) {
        // The whole block is unpacked, even if the plane has only one half of it.
        const from = output * perOutput.levels + Math.floor(i / halves) * partBytes;
        unpackBlock(part.levels, levels, { bits, zero, from, to: plane * PLANE_BYTES });
      }
      for (let p = 0; p < planesOfPart; p++, plane++) {
        scales[plane] = p === 0 ? scale : scale * 16;
        zeros[plane] = bits < 4 ? ZERO : (zero >> (4 * p)) & 15;
        if (floatZeros && p === planesOfPart - 1) {
          scales[plane] = scale * (middle - floatZeros[output * fileBlocks + scaleAt]!);
          zeros[plane] = ZERO;
          levels.fill((ZERO + 1) * 0x11, plane * PLANE_BYTES, (plane + 1) * PLANE_BYTES);
        }
        if (halves === 1) continue;
        // The other half of the block is filled with levels that add nothing.
        const rest = plane * PLANE_BYTES + (i + 1) % 2 * PLANE_BYTES / 2;
        levels.fill(zeros[plane]! * 0x11, rest, rest + PLANE_BYTES / 2);
      }
    }
  }
  return { levels, scales, zeros };
}

/** Level number `index`; the first is in the lowest bits. */
function levelAt(levels: Uint8Array, bits: number, index: number): number {
  return (levels[index * bits >> 3]! >> (index * bits & 7)) & ((1 << bits) - 1);
}

/** Writes a block's planes from byte `to` on; its first level is in byte `from`. */
function unpackBlock(
  levels: Uint8Array,
  into: Uint8Array,
  { bits, zero, from, to }: {
    readonly bits: LevelBits;
    readonly zero: number;
    readonly from: number;
    readonly to: number;
  },
): void {
  if (bits === 4) {
    for (let i = 0; i < PLANE_BYTES; i++) into[to + i] = levels[from + i]!;
    return;
  }
  if (bits === 8) {
    for (let i = 0; i < PLANE_BYTES; i++) {
      const [first, second] = [levels[from + 2 * i]!, levels[from + 2 * i + 1]!];
      into[to + i] = (first & 15) | (second & 15) << 4;
      into[to + PLANE_BYTES + i] = (first >> 4) | (second & 0xf0);
    }
    return;
  }
  const table = makeTable(bits, zero);
  const perByte = 4 / bits;
  for (let i = 0; i < PLANE_BYTES / perByte; i++) {
    const first = levels[from + i]! * perByte;
    for (let j = 0; j < perByte; j++) into[to + i * perByte + j] = table[first + j]!;
  }
}

const tables = new Map<number, Uint8Array>();

/** For each byte of 1-bit or 2-bit levels, the same levels in 4 bits, moved so that the zero point becomes 8. */
function makeTable(bits: 1 | 2, zero: number): Uint8Array {
  const key = bits * 4 + zero;
  let table = tables.get(key);
  if (table === undefined) {
    const perByte = 4 / bits;
    table = Uint8Array.from({ length: 256 * perByte }, (_, at) => {
      const byte = Uint8Array.of(Math.floor(at / perByte));
      const [low, high] = [0, 1].map((i) =>
        levelAt(byte, bits, at % perByte * 2 + i) + ZERO - zero
      ) as [number, number];
      return low | high << 4;
    });
    tables.set(key, table);
  }
  return table;
}
