/**
 * Measures up to how many rows a compiled step is faster than one in ONNX Runtime.
 *
 * @module
 */
import { type DecoderLimits, GREEDY, type StepBatch } from "./decoder.ts";

/** What is measured. */
export interface CrossoverOptions {
  /** Most rows of a step to measure. */
  readonly most: number;
  /** Sets the limit: steps of more rows run in ONNX Runtime. */
  readonly limit: (maxRows: number) => void;
  /** Runs a step of this many rows and waits for its results. */
  readonly run: (numRows: number) => Promise<void>;
}

/** What was found. */
export interface Crossover {
  /** Steps of as many rows run compiled; 0 for none. */
  readonly mostRows: number;
  /** Milliseconds that were measured. */
  readonly steps: readonly {
    readonly rows: number;
    readonly compiled: string;
    readonly ort: string;
  }[];
}

/** Numbers of rows to measure first, the next where ONNX Runtime is faster at one. */
const ROWS = [16, 8, 4, 1];
const ROUNDS = 3;
/** No further size is measured after this time; one in progress is finished. */
const MAX_MILLISECONDS = 2000;
/** A larger step is measured when it has at least this many times the rows. */
const WORTH_TRYING = 1.5;

/**
 * Measures a step of 16 rows, smaller ones as long as ONNX Runtime is faster, then larger ones as long as it is slower; sets
 * the limit.
 *
 * The time of a compiled step grows at most in proportion to its rows, and that of ONNX Runtime does not fall: what is
 * twice as fast at 16 rows is no slower at 32. The next step is measured there, where it takes about as long as ONNX
 * Runtime took before.
 */
export async function findCrossover(options: CrossoverOptions): Promise<Crossover> {
  const { most, limit } = options;
  const end = performance.now() + MAX_MILLISECONDS;
  const steps: Crossover["steps"][number][] = [];
  const ratioAt = async (rows: number) => {
    const { compiled, ort } = await timesAt(rows, { ...options, end });
    steps.push({ rows, compiled: compiled.toFixed(1), ort: ort.toFixed(1) });
    return ort / compiled;
  };
  const isOver = () => performance.now() > end;
  let mostRows = 0;
  for (const size of new Set(ROWS.map((rows) => Math.min(rows, most)))) {
    let [rows, ratio] = [size, await ratioAt(size)];
    if (ratio < 1 && !isOver()) continue;
    mostRows = Math.floor(ratio < 1 ? rows / 2 : rows * ratio);
    while (ratio >= 1 && !isOver() && Math.min(mostRows, most) >= WORTH_TRYING * rows) {
      rows = Math.min(mostRows, most);
      ratio = await ratioAt(rows);
      if (ratio >= 1) mostRows = Math.floor(rows * ratio);
    }
    break;
  }
  limit(mostRows);
  return { mostRows, steps };
}

/** The shortest times of steps of this many rows, in milliseconds. */
async function timesAt(
  rows: number,
  { limit, run, end }: CrossoverOptions & { readonly end: number },
): Promise<{ compiled: number; ort: number }> {
  const times = { compiled: Infinity, ort: Infinity };
  // The first round compiles programs; the others alternate, because the machine may be busy.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [way, maxRows] of [["compiled", rows], ["ort", 0]] as const) {
      limit(maxRows);
      const start = performance.now();
      await run(rows);
      if (round > 0) times[way] = Math.min(times[way], performance.now() - start);
    }
    if (round > 0 && performance.now() > end) break;
  }
  return times;
}

/** A step of the first tokens of as many sequences as there may be, evenly divided among them. */
export function firstTokens(
  numTokens: number,
  { maxSequences, blockSize }: Pick<DecoderLimits, "maxSequences" | "blockSize">,
): StepBatch {
  const numSequences = Math.min(numTokens, maxSequences);
  const starts = Int32Array.from(
    { length: numSequences + 1 },
    (_, s) => Math.floor(s * numTokens / numSequences),
  );
  const lengths = starts.subarray(1).map((end, s) => end - starts[s]!);
  const maxBlocksPerSequence = Math.ceil(Math.max(...lengths) / blockSize);
  const sample = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 };
  return {
    sequences: Array.from({ length: numSequences }, (_, s) => ({ sequenceId: -1 - s, sample })),
    numTokens,
    tokenIds: new Int32Array(numTokens),
    positions: Int32Array.from(
      { length: numTokens },
      (_, t) => t - starts.findLast((start) => start <= t)!,
    ),
    queryStarts: starts,
    kvLengths: lengths,
    blockTables: Int32Array.from({ length: numSequences * maxBlocksPerSequence }, (_, i) => i),
    maxBlocksPerSequence,
  };
}
