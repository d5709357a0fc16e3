/**
 * Runs of a decoder graph on paper with known lengths: the cut asks them what the graph computes from
 * lengths, masks and positions.
 *
 * @module
 */
import { Evaluation } from "./evaluate/evaluation.ts";
import { int64Value, type Value } from "./evaluate/value.ts";
import type { GraphIndex } from "./graph_index.ts";
import type { DecoderInputs } from "./decoder_inputs.ts";
import type { ValueInfo } from "./proto.ts";

/** Lengths of a run on paper: one sequence, `numTokens` new tokens after `pastLength` cached ones. */
export interface Lengths {
  readonly pastLength: number;
  readonly numTokens: number;
}

function range(start: number, length: number): number[] {
  return Array.from({ length }, (_, i) => start + i);
}

/** Sizes of an input, with `symbols` in place of the symbolic ones; `undefined` when the rank is open. */
function sizesOf(info: ValueInfo, symbols: readonly number[]): Value | undefined {
  if (info.dtype === undefined || info.shape === undefined) return undefined;
  const open = symbols.values();
  const shape = info.shape.map((size) =>
    typeof size === "number" ? size : open.next().value ?? undefined
  );
  if (shape.includes(undefined)) return undefined;
  return { dtype: info.dtype, shape: shape as number[] };
}

/** What the inputs look like for one sequence of these lengths. */
function feedsFor(
  index: GraphIndex,
  inputs: DecoderInputs,
  { pastLength, numTokens }: Lengths,
): Map<string, Value> {
  const total = pastLength + numTokens;
  const feeds = new Map<string, Value>();
  for (const info of index.inputs.values()) {
    let value: Value | undefined;
    if (inputs.caches.has(info.name)) {
      value = sizesOf(info, typeof info.shape?.[0] === "number" ? [pastLength] : [1, pastLength]);
    } else if (info === inputs.mask) {
      value = int64Value([1, total], range(0, total).fill(1));
    } else if (info === inputs.positions) {
      const sections = info.shape?.length === 3 ? [Number(info.shape[0])] : [];
      const row = range(pastLength, numTokens);
      const rows = sections.length ? range(0, sections[0]!).flatMap(() => row) : row;
      value = int64Value([...sections, 1, numTokens], rows);
    } else if (info === inputs.tokens) {
      value = inputs.kind === "ids"
        ? { dtype: info.dtype ?? "int64", shape: [1, numTokens] }
        : sizesOf({ ...info, shape: [1, numTokens, info.shape?.[2]] }, []);
    }
    if (value !== undefined) feeds.set(info.name, value);
  }
  return feeds;
}

/** Runs on paper of one graph, each made once. */
export class Probes {
  readonly index: GraphIndex;
  readonly inputs: DecoderInputs;
  readonly #known: (lengths: Lengths) => ReadonlyMap<string, Value>;
  readonly #runs = new Map<string, Evaluation>();

  /** @param known what else is known of a run: tensors whose nodes the evaluation does not know. */
  constructor(
    index: GraphIndex,
    inputs: DecoderInputs,
    known: (lengths: Lengths) => ReadonlyMap<string, Value> = () => new Map(),
  ) {
    this.index = index;
    this.inputs = inputs;
    this.#known = known;
  }

  /** The run with these lengths. */
  at(lengths: Lengths): Evaluation {
    const key = `${lengths.pastLength}+${lengths.numTokens}`;
    let run = this.#runs.get(key);
    if (run === undefined) {
      const feeds = feedsFor(this.index, this.inputs, lengths);
      for (const [name, value] of this.#known(lengths)) feeds.set(name, value);
      run = new Evaluation(this.index, feeds);
      this.#runs.set(key, run);
    }
    return run;
  }

  /** The runs of {@linkcode SHORT_LENGTHS}. */
  short(): Evaluation[] {
    return SHORT_LENGTHS.map((lengths) => this.at(lengths));
  }
}

/** Three short runs: the first two differ in the past alone, the first and the last in both. */
export const SHORT_LENGTHS: readonly [Lengths, Lengths, Lengths] = [
  { pastLength: 0, numTokens: 3 },
  { pastLength: 4, numTokens: 3 },
  { pastLength: 2, numTokens: 5 },
];
