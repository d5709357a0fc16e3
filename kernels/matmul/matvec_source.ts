/**
 * The WGSL of `matvec`, put together and expanded for a product and a division of its work.
 *
 * Deno's WebGPU adds a counter to each loop and a bounds check to each array access. So drivers do not unroll loops,
 * and arrays that a loop indexes are kept in memory. For graphics cards, each sum is therefore a variable of its own,
 * and a thread issues its loads one right after the other.
 *
 * @module
 */
import activationSource from "../common/activation.wgsl" with { type: "text" };
import { ELEM, expand, FOUR, type Values } from "../common/wgsl.ts";
import tileTemplate from "./matmul_tile.wgsl" with { type: "text" };
import matrixTemplate from "./matrix.wgsl" with { type: "text" };
import matvecTemplate from "./matvec.wgsl" with { type: "text" };
import {
  chooseValues,
  countSumsPerPass,
  listFinishConstants,
  listRowConstants,
  type MatvecParams,
  type MatvecVariant,
  numSums,
  TILE,
} from "./matvec_params.ts";
import unrolledTemplate from "./matvec_unrolled.wgsl" with { type: "text" };
import rowsTemplate from "./rows.wgsl" with { type: "text" };

type Blocks = Extract<MatvecParams["weights"], { kind: "nbits" }>;

/** The source and the constants that specialise the kernel. */
interface MatvecSource {
  readonly source: string;
  readonly constants: Readonly<Record<string, number>>;
}

/** The kernel for some rows. */
export function describeKernel(params: MatvecParams, variant: MatvecVariant): MatvecSource {
  const { lanes, groups, outs, rows } = variant;
  const isUnrolled = variant.isUnrolled && !isPadded(params);
  const division = {
    ...{ GROUPS: groups, OUTS: outs, ROWS: rows, THREADS: lanes * groups },
    SUMS: numSums(params, { ...variant, isUnrolled }),
    ...isUnrolled
      ? {}
      : { LANES: lanes, ROW_FOURS: Math.ceil(rows / 4), UNITS_FIRST: variant.unitsFirst ? 1 : 0 },
  };
  const products = isUnrolled ? makeUnrolledSource(params, variant) : "";
  return joinSource(params, { division, products, isLooped: !isUnrolled });
}

/** The kernel for many rows; see matmul_tile.wgsl. */
export function describeTile(params: MatvecParams): MatvecSource {
  const division = { GROUPS: 1, OUTS: TILE_OUTS, ROWS: 1, THREADS: TILE_THREADS, SUMS: 1 };
  return joinSource(params, { division, products: tileSource(params), isLooped: false });
}

function joinSource(params: MatvecParams, { division, products, isLooped }: {
  readonly division: Readonly<Record<string, number>>;
  /** The products and the entry point; empty if `isLooped`, since matvec.wgsl has both. */
  readonly products: string;
  readonly isLooped: boolean;
}): MatvecSource {
  const { elem, k, sum } = params;
  return {
    source: [
      ...[ELEM[elem], FOUR[elem], rowsSource(params), makeMatrixSource(params, isLooped)],
      ...[expand(matvecTemplate, { IS_LOOPED: isLooped }), products],
    ].join(""),
    constants: {
      ...division,
      ...listRowConstants(params),
      ...listMatrixConstants(params, isLooped),
      ...sum ? { SUM_EPSILON: sum.epsilon, BIAS_AT: countAffineVectors(params) * k / 4 } : {},
    },
  };
}

/** Declares the rows of a product, and how they are read. */
export function rowsSource({ sum }: Pick<MatvecParams, "sum">): string {
  return expand(rowsTemplate, { HAS_SUM: sum !== undefined });
}

/** Declares the matrix of a product, and the function that turns sums into outputs. */
export function makeMatrixSource(
  { weights, matrixRows, sum }: MatvecParams,
  isLooped = false,
): string {
  const words = weights.kind === "nbits" ? countChunkWords(weights) : 0;
  return activationSource +
    expand(matrixTemplate, {
      HAS_SUM: sum !== undefined,
      IS_ROWS: weights.kind === "rows",
      IS_COLUMNS: weights.kind === "columns",
      IS_NBITS: weights.kind === "nbits",
      IS_ALIGNED: matrixRows % 4 === 0,
      IS_LOOPED: isLooped,
      HAS_FLOAT_ZERO_POINTS: weights.kind === "nbits" && (weights.hasFloatZeroPoints ?? false),
      CHUNK: words === 1 ? "array<u32, 1>" : `vec${words}<u32>`,
      CHUNK_WORDS: words,
    });
}

/** The constants of {@linkcode makeMatrixSource}. */
export function listMatrixConstants(
  params: MatvecParams,
  isLooped = false,
): Record<string, number> {
  const { weights, matrixRows, k } = params;
  const finish = listFinishConstants(params);
  if (weights.kind === "rows") return finish;
  if (weights.kind === "columns") return { ...finish, COLUMNS: matrixRows };
  const { bits, blockSize, hasZeroPoints } = weights;
  return {
    ...finish,
    BITS: bits,
    BLOCKS: Math.ceil(k / blockSize),
    HAS_ZERO_POINTS: hasZeroPoints ? 1 : 0,
    ...isLooped && {
      CHUNKS_PER_BLOCK: blockSize * bits / 32 / countChunkWords(weights),
      IS_PADDED: isPadded(params) ? 1 : 0,
    },
  };
}

/** Number of words of a quantised row that are read at a time: at most a block. */
function countChunkWords({ bits, blockSize }: Blocks): number {
  return Math.min(4, blockSize * bits / 32);
}

/** Whether the last block of a row extends beyond K. */
function isPadded({ weights, k }: MatvecParams): boolean {
  return weights.kind === "nbits" && k % weights.blockSize !== 0;
}

/** Number of vectors of `k` elements in `affine`. */
function countAffineVectors({ sum, norm }: MatvecParams): number {
  return (sum ? 1 : 0) + (norm ? 1 : 0) + (norm?.hasBeta ? 1 : 0);
}

/** Maximum number of chunks of a lane whose loads all come before the first use. */
const MOST_CHUNKS = 4;
/** Number of vec4s that a lane loads in one iteration of the loop. */
const FOURS_AT_ONCE = 4;

/** Products of few rows on a graphics card, their sums over lanes, and the entry point. */
function makeUnrolledSource(params: MatvecParams, variant: MatvecVariant): string {
  const { k, norm, weights } = params;
  const { lanes, groups, outs, rows, unitsFirst } = variant;
  const { count, perRow } = chooseValues(params, variant);
  const perPass = countSumsPerPass(params, variant);
  const units = weights.kind === "nbits" ? k * weights.bits / 32 / countChunkWords(weights) : k / 4;
  const steps = chooseSteps(weights.kind, units / lanes);
  return expand(unrolledTemplate, {
    ...{ LANES: lanes, GROUPS: groups, OUTS: outs, ROWS: rows, UNITS_FIRST: unitsFirst },
    ...{ VALUES: count, PER_ROW: perRow, CHAINS: Math.min(4, lanes) },
    ...{ PASS_VALUES: perPass, PASSES: Math.ceil(count / perPass) },
    ...{ UNITS: units, STEPS: steps, LOOPS: units !== steps * lanes },
    HAS_NORM: norm !== undefined,
    HAS_OFFSETS: norm?.hasBeta ?? false,
    IS_RMS: norm?.kind === "rms",
    IS_LAYER: norm?.kind === "layer",
    IS_ROWS: weights.kind === "rows",
    IS_COLUMNS: weights.kind === "columns",
    IS_NBITS: weights.kind === "nbits",
    ...weights.kind === "nbits" ? listChunkValues(weights) : {},
  });
}

/** Number of units that a lane loads at a time, given the number that each lane has. */
function chooseSteps(kind: MatvecParams["weights"]["kind"], perLane: number): number {
  if (kind !== "nbits") return perLane % FOURS_AT_ONCE === 0 ? FOURS_AT_ONCE : 1;
  return Number.isInteger(perLane) && perLane <= MOST_CHUNKS ? perLane : 1;
}

/** Values that describe a chunk of quantised weights. */
function listChunkValues(weights: Blocks): Values {
  const { bits, blockSize, hasZeroPoints } = weights;
  const words = countChunkWords(weights);
  return {
    BITS: bits,
    MASK: (2 ** bits - 1) * 0x01010101,
    HALF: 2 ** (bits - 1),
    IS_BYTES: bits === 8,
    HAS_ZERO_POINTS: hasZeroPoints,
    BLOCK_UNITS: blockSize * bits / 32 / words,
    WORDS: words,
    WORD_FOURS: 8 / bits,
  };
}

/** Number of elements of K staged at a time. */
const DEPTH = 32;
/** Number of columns per thread; if outputs are gated, half of them belong to the gate. */
const TILE_OUTS = 8;
/** Number of groups of four along a tile's side. */
const QUADS = TILE / 4;
/** Number of threads: each stages four rows and four columns, four elements of K deep. */
const TILE_THREADS = QUADS * DEPTH / 4;
/** Number of unrolled steps along K in one iteration of the loop. */
const STEPS = 8;

/** Whether a product of many rows can be computed in tiles. */
export function takesTiles({ k, norm, sum, weights }: MatvecParams): boolean {
  const isWhole = weights.kind !== "nbits" || k % weights.blockSize === 0;
  return k % DEPTH === 0 && isWhole && norm?.kind !== "layer" && sum === undefined;
}

/** Number of outputs of a tile. */
export function countTileOutputs({ gate }: MatvecParams): number {
  return gate ? TILE / 2 : TILE;
}

/** Products of many rows on a graphics card, and the entry point. */
function tileSource({ k, weights, norm, gate }: MatvecParams): string {
  return expand(tileTemplate, {
    TILE,
    DEPTH,
    QUADS,
    STEPS,
    THREADS: TILE_THREADS,
    LANES: TILE / TILE_OUTS,
    K_FOURS: k / 4,
    HAS_NORM: norm !== undefined,
    HAS_OFFSETS: norm?.hasBeta ?? false,
    IS_GATED: gate !== undefined,
    IS_ROWS: weights.kind === "rows",
    IS_COLUMNS: weights.kind === "columns",
    IS_NBITS: weights.kind === "nbits",
    ...weights.kind === "nbits" ? listWordValues(k, weights) : {},
  });
}

/** Values that describe how quantised weights lie in words. */
function listWordValues(
  k: number,
  weights: Blocks,
): Values {
  const { bits, blockSize, hasZeroPoints } = weights;
  const chunkWords = countChunkWords(weights);
  return {
    BITS: bits,
    MASK: 2 ** bits - 1,
    HALF: 2 ** (bits - 1),
    IS_BYTES: bits === 8,
    HAS_ZERO_POINTS: hasZeroPoints,
    // Number of vec4s per word, and per block.
    PER_WORD: 8 / bits,
    BLOCK_FOURS: blockSize / 4,
    CHUNK_WORDS: chunkWords,
    CHUNKS: k * bits / 32 / chunkWords,
  };
}
