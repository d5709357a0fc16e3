/**
 * Measures up to how many rows a compiled step is faster than one in ONNX Runtime.
 *
 * @module
 */
import { GREEDY, type StepBatch } from "./decoder.ts";

/** What is measured. */
export interface CrossoverOptions {
  /** Most rows of a step. */
  readonly most: number;
  /** Sets the limit: steps of more rows run in ONNX Runtime. */
  readonly limit: (maxRows: number) => void;
  /** Runs a step of this many rows and waits for its results. */
  readonly run: (numRows: number) => Promise<void>;
}

/** The result. */
export interface Crossover {
  /** Steps of as many rows run compiled; 0 for none. */
  readonly mostRows: number;
  /** Measured milliseconds. */
  readonly steps: readonly {
    readonly rows: number;
    readonly compiled: string;
    readonly ort: string;
  }[];
}

/** Numbers of rows to measure: one workgroup's, and several workgroups'. */
const ROWS = [16, 8, 4, 1];
const ROUNDS = 3;
/** No further size is measured after this time; one in progress is finished. */
const MAX_MILLISECONDS = 2000;

/** Measures the largest step first, and smaller ones as long as ONNX Runtime is faster; then sets the limit. */
export async function findCrossover(
  { most, limit, run }: CrossoverOptions,
): Promise<Crossover> {
  const end = performance.now() + MAX_MILLISECONDS;
  const steps: Crossover["steps"][number][] = [];
  let mostRows = 0;
  const sizes = [...new Set(ROWS.map((rows) => Math.min(rows, most)))];
  for (const rows of sizes) {
    const times = { compiled: Infinity, ort: Infinity };
    // The first round compiles programs; the others alternate, because the machine may be busy.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [way, maxRows] of [["compiled", rows], ["ort", 0]] as const) {
        limit(maxRows);
        const start = performance.now();
        await run(rows);
        const isMeasured = round > 0 || performance.now() > end;
        if (isMeasured) times[way] = Math.min(times[way], performance.now() - start);
      }
      if (performance.now() > end) break;
    }
    const { compiled, ort } = times;
    steps.push({ rows, compiled: compiled.toFixed(1), ort: ort.toFixed(1) });
    if (compiled <= ort || performance.now() > end) {
      // If compiled steps win at the largest size, they are assumed to win beyond it.
      mostRows = rows === most ? Infinity : rows;
      if (compiled > ort) mostRows = Math.floor(rows / 2);
      break;
    }
  }
  limit(mostRows);
  return { mostRows: Math.min(mostRows, ROWS[0]!), steps };
}

/** A step of the first tokens of `numSequences` sequences, each in a block of its own. */
export function firstTokens(numSequences: number): StepBatch {
  const indices = Int32Array.from({ length: numSequences + 1 }, (_, s) => s);
  const sample = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 };
  return {
    sequences: Array.from({ length: numSequences }, (_, s) => ({ sequenceId: -1 - s, sample })),
    numTokens: numSequences,
    tokenIds: new Int32Array(numSequences),
    positions: new Int32Array(numSequences),
    queryStarts: indices,
    kvLengths: new Int32Array(numSequences).fill(1),
    blockTables: indices,
    maxBlocksPerSequence: 1,
  };
}
