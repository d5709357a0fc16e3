/**
 * Generates the WGSL of `matvec` for graphics cards, with unrolled loops over rows, outputs and elements.
 *
 * Deno's WebGPU adds a counter to each loop and a bounds check to each array access. So drivers do not unroll loops,
 * and arrays that a loop indexes are kept in memory. Here each sum is a variable of its own, and the loads of a thread
 * stand side by side.
 *
 * @module
 */
import { expand, type Values } from "../common/expand.ts";
import type { MatvecParams } from "./matvec_params.ts";
import { chooseValues, type MatvecVariant, numSumsPerPass } from "./matvec_shape.ts";
import template from "./matvec_unrolled.wgsl" with { type: "text" };

/** Most chunks of a lane whose loads all come before the first use. */
const MOST_CHUNKS = 4;
/** Number of vec4s that a lane loads between two tests of the loop's end. */
const FOURS_AT_ONCE = 4;

/**
 * The source that must follow matvec_common.wgsl and the declarations of the matrix: products, their sums over lanes,
 * the entry point.
 */
export function unrolledSource(params: MatvecParams, variant: MatvecVariant): string {
  const { k, norm, weights } = params;
  const { lanes, groups, outs, rows, unitsFirst } = variant;
  const { count, perRow } = chooseValues(params, variant);
  const perPass = numSumsPerPass(params, variant);
  const units = weights.kind === "nbits" ? k / chunkLevels(weights) : k / 4;
  const steps = chooseSteps(weights.kind, units / lanes);
  return expand(template, {
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
    ...weights.kind === "nbits" ? nbitsValues(weights) : {},
  });
}

/** Number of units that a lane loads at a time, given the number that each lane has. */
function chooseSteps(kind: MatvecParams["weights"]["kind"], perLane: number): number {
  if (kind !== "nbits") return perLane % FOURS_AT_ONCE === 0 ? FOURS_AT_ONCE : 1;
  return Number.isInteger(perLane) && perLane <= MOST_CHUNKS ? perLane : 1;
}

type Blocks = Extract<MatvecParams["weights"], { kind: "nbits" }>;

/** Number of levels that a lane reads at a time: four words, or a block. */
function chunkLevels({ bits, blockSize }: Blocks): number {
  return Math.min(128, blockSize * bits) / bits;
}

function nbitsValues(weights: Blocks): Values {
  const { bits, blockSize, hasZeroPoints } = weights;
  const levels = chunkLevels(weights);
  return {
    BITS: bits,
    MASK: (2 ** bits - 1) * 0x01010101,
    HALF: 2 ** (bits - 1),
    IS_BYTES: bits === 8,
    HAS_ZERO_POINTS: hasZeroPoints,
    BLOCK_UNITS: blockSize / levels,
    WORDS: levels * bits / 32,
    WORD_FOURS: 8 / bits,
  };
}
