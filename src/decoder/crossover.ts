/**
 * Up to how many rows a compiled step is faster than one in ONNX Runtime: found in a moment before the first request,
 * refined by the steps that are served.
 *
 * @module
 */
import { type DecoderLimits, GREEDY, type StepBatch } from "./decoder.ts";

/** A step's rows, how it ran, and how long it took. */
interface TimedStep {
  readonly rows: number;
  readonly way: "compiled" | "ort";
  readonly ms: number;
}

/** What is measured. */
interface CrossoverOptions {
  /** Most rows of a step that can run compiled. */
  readonly most: number;
  /** Number of rows from which on compiled steps cost less a row than with few, if there is one. */
  readonly many?: number | undefined;
  /** Sets the limit: steps of more rows run in ONNX Runtime. */
  readonly limit: (maxRows: number) => void;
  /** Runs a step of this many rows and waits for its results. */
  readonly run: (numRows: number) => Promise<void>;
}

/** Numbers of rows to measure, the next where ONNX Runtime is faster at one. */
const ROWS = [16, 8, 4, 1];
/** Rounds where one way takes at most half as long as the other, and where it takes more. */
const ROUNDS = { clear: 2, close: 3 };
/** No further size is measured after this time; one in progress is finished. */
const MAX_MILLISECONDS = 500;
/** Compiling the few programs of a step takes less: a first step that takes longer spends the time computing. */
const MAX_COMPILE_MILLISECONDS = 2000;
/** Served steps of about as many rows until the fastest of them counts: the first may have compiled programs. */
const MIN_STEPS = 3;

/** Of steps of as many rows, in milliseconds. */
type StepTimes = Readonly<Record<TimedStep["way"], number>>;

/** Times of steps before the first request. */
export interface MeasuredSteps extends StepTimes {
  readonly rows: number;
}

/** Steps of one way whose rows reach the same power of two. */
interface SeenSteps {
  readonly fastest: TimedStep;
  readonly numSteps: number;
}

/**
 * The time of a compiled step grows at most in proportion to its rows, and that of ONNX Runtime does not fall: what is
 * twice as fast at 16 rows is no slower at 32, and what is slower than ONNX Runtime with more rows is too slow.
 */
export class Crossover {
  /** What the first limit is of. */
  readonly measured: MeasuredSteps[] = [];
  readonly #options: CrossoverOptions;
  readonly #seen = new Map<string, SeenSteps>();
  #mostRows = 0;

  private constructor(options: CrossoverOptions) {
    this.#options = options;
  }

  /**
   * Measures a step of 16 rows, smaller ones as long as ONNX Runtime is faster, and one of many rows where those may be
   * cheaper; sets the limit.
   */
  static async find(options: CrossoverOptions): Promise<Crossover> {
    const { most, many } = options;
    const crossover = new Crossover(options);
    const end = performance.now() + MAX_MILLISECONDS;
    for (const rows of new Set(ROWS.map((rows) => Math.min(rows, most)))) {
      const isFaster = await crossover.#measure(rows, end);
      if (isFaster || performance.now() > end) break;
    }
    crossover.#choose();
    if (many !== undefined && many <= most && crossover.#mostRows < most) {
      await crossover.#measure(many, end);
      crossover.#choose();
    }
    return crossover;
  }

  /** Whether compiled steps of this many rows are the faster. */
  async #measure(rows: number, end: number): Promise<boolean> {
    const { compiled, ort } = await timesAt(rows, { ...this.#options, end });
    this.measured.push({ rows, compiled, ort });
    this.#keep({ rows, way: "compiled", ms: compiled }, MIN_STEPS);
    this.#keep({ rows, way: "ort", ms: ort }, MIN_STEPS);
    return compiled <= ort;
  }

  /** Steps of as many rows run compiled; 0 for none. */
  get mostRows(): number {
    return this.#mostRows;
  }

  /** Learns from a served step, which must be like those measured: all tokens of its sequences are new. */
  observe(step: TimedStep): void {
    this.#keep(step);
    this.#choose();
  }

  /** The fastest steps that count. */
  #steps(way: TimedStep["way"]): TimedStep[] {
    return [...this.#seen.values()].flatMap(({ fastest, numSteps }) =>
      fastest.way === way && numSteps >= MIN_STEPS ? [fastest] : []
    );
  }

  #keep(step: TimedStep, numSteps = 1): void {
    const key = `${step.way} ${Math.clz32(step.rows)}`;
    const seen = this.#seen.get(key);
    // Compiled steps are compared by the row, those of ONNX Runtime as they are.
    const cost = ({ rows, way, ms }: TimedStep) => way === "compiled" ? ms / rows : ms;
    const isFaster = seen === undefined || cost(step) < cost(seen.fastest);
    this.#seen.set(key, {
      fastest: isFaster ? step : seen.fastest,
      numSteps: numSteps + (seen?.numSteps ?? 0),
    });
  }

  #choose(): void {
    const [compiled, ort] = [this.#steps("compiled"), this.#steps("ort")];
    // A larger step of ONNX Runtime was faster.
    const fasterThan = (step: TimedStep) =>
      ort.find(({ rows, ms }) => rows >= step.rows && ms < step.ms);
    const kept = compiled.filter((step) => fasterThan(step) === undefined);
    const proven = kept.flatMap((step) =>
      ort.flatMap((other) => {
        const rows = Math.floor(step.rows * other.ms / step.ms);
        return rows >= Math.max(step.rows, other.rows) ? [rows] : [];
      })
    );
    const refuted = compiled.flatMap((step) => {
      const faster = fasterThan(step);
      if (faster === undefined) return [];
      const rows = Math.ceil(step.rows * Math.max(1 / 2, faster.ms / step.ms)) - 1;
      return [Math.max(rows, ...kept.map(({ rows }) => rows).filter((rows) => rows < step.rows))];
    });
    const ceiling = Math.min(...refuted);
    const { most, limit } = this.#options;
    // Where nothing is proven, time was up: half of what was not refuted.
    const rows = proven.length > 0 ? Math.max(...proven) : Math.ceil(ceiling / 2);
    this.#mostRows = Math.min(most, ceiling, rows);
    limit(this.#mostRows);
  }
}

/** Which way is the faster for all steps, and the steps that were measured. */
interface ChosenWay {
  readonly way: TimedStep["way"];
  readonly steps: readonly MeasuredSteps[];
}

/** Rounds at each size: few, since the start waits for them. */
const CHOICE_ROUNDS = 2;
/** How much slower the compiled steps of a size may be: times are those of a machine that does other things too. */
const MAX_LOSS = 1.1;

/**
 * Measures steps of `most` rows and of one. Compiled steps must be faster at one of them, and slower at none; no more
 * is measured once they are.
 */
export async function chooseWay(options: CrossoverOptions): Promise<ChosenWay> {
  const steps: MeasuredSteps[] = [];
  for (const rows of new Set([options.most, 1])) {
    let times = await timeRound(rows, options);
    for (let round = 1; round < CHOICE_ROUNDS; round++) {
      times = fastest(times, await timeRound(rows, options));
    }
    steps.push({ rows, ...times });
    if (times.compiled > MAX_LOSS * times.ort) return { way: "ort", steps };
  }
  const isFaster = steps.some(({ compiled, ort }) => compiled < ort);
  return { way: isFaster ? "compiled" : "ort", steps };
}

/** The shortest times of steps of this many rows, in milliseconds. */
async function timesAt(
  rows: number,
  options: CrossoverOptions & { readonly end: number },
): Promise<StepTimes> {
  const first = await timeRound(rows, options);
  if (first.compiled > MAX_COMPILE_MILLISECONDS) return first;
  // The first round compiled programs; the others alternate, because the machine may be busy.
  let times = await timeRound(rows, options);
  const isClear = () => Math.max(times.ort / times.compiled, times.compiled / times.ort) >= 2;
  for (let round = 2; round <= (isClear() ? ROUNDS.clear : ROUNDS.close); round++) {
    if (performance.now() > options.end) break;
    times = fastest(times, await timeRound(rows, options));
  }
  return times;
}

/** Times a step of this many rows in either way. */
async function timeRound(rows: number, { limit, run }: CrossoverOptions): Promise<StepTimes> {
  const times = { compiled: 0, ort: 0 };
  for (const [way, maxRows] of [["compiled", rows], ["ort", 0]] as const) {
    limit(maxRows);
    const start = performance.now();
    await run(rows);
    times[way] = performance.now() - start;
  }
  return times;
}

function fastest(some: StepTimes, others: StepTimes): StepTimes {
  return {
    compiled: Math.min(some.compiled, others.compiled),
    ort: Math.min(some.ort, others.ort),
  };
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
