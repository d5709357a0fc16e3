/**
 * Partial evaluations of a graph with known lengths. They show what the graph computes from lengths, masks and
 * positions.
 *
 * @module
 */
import { countElements } from "./file/tensor.ts";
import { Evaluation } from "./evaluate/evaluation.ts";
import type { Value } from "./evaluate/value.ts";
import type { GraphIndex } from "./graph_index.ts";
import type { ValueInfo } from "./file/proto.ts";

/** The inputs of a decoder's or an encoder's graph, by their roles. */
export interface DecoderInputs {
  readonly tokens: ValueInfo;
  readonly kind: "ids" | "embeddings";
  readonly mask: ValueInfo | undefined;
  readonly positions: ValueInfo | undefined;
  /** The per-layer embeddings of each token (Gemma 3n and 4). */
  readonly perLayer?: ValueInfo | undefined;
  /** Token type ids of an encoder. */
  readonly types?: ValueInfo | undefined;
  /** Id of the padding token, if the graph may test for it. Evaluations then feed only other ids. */
  readonly padTokenId?: number | undefined;
  /** Whether positions count only tokens other than padding. */
  readonly skipsPadding?: boolean | undefined;
  /** Names of the inputs for past keys and values. */
  readonly caches: ReadonlySet<string>;
  /** Names of inputs for recurrent states, whose size does not depend on the number of tokens. */
  readonly states?: ReadonlySet<string> | undefined;
}

/** Lengths of a partial evaluation: one sequence, `numTokens` new tokens after `pastLength` cached ones. */
export interface Lengths {
  readonly pastLength: number;
  readonly numTokens: number;
}

/**
 * A value without elements. The sizes that the input leaves open are taken from `symbols`, in order; `undefined` if
 * there are too few.
 */
function makeSizes({ dtype, shape }: ValueInfo, symbols: readonly number[]): Value | undefined {
  if (dtype === undefined || shape === undefined) return undefined;
  const open = symbols.values();
  const sizes = shape.map((size) => typeof size === "number" ? size : open.next().value);
  return sizes.includes(undefined) ? undefined : { dtype, shape: sizes as number[] };
}

/** The value of an input for one sequence of these lengths; `undefined` if its role, type or shape is not known. */
function makeFeed(
  info: ValueInfo,
  inputs: DecoderInputs,
  { pastLength, numTokens }: Lengths,
): Value | undefined {
  const { dtype, shape } = info;
  const total = pastLength + numTokens;
  if (dtype === undefined || shape === undefined) return undefined;
  if (inputs.caches.has(info.name)) {
    return makeSizes(info, typeof shape[0] === "number" ? [pastLength] : [1, pastLength]);
  }
  if (inputs.states?.has(info.name)) return makeSizes(info, [1]);
  if (info === inputs.tokens) {
    const sizes = inputs.kind === "ids" ? [1, numTokens] : [1, numTokens, shape[2]];
    const value = makeSizes({ ...info, shape: sizes }, []);
    const { padTokenId } = inputs;
    return value && padTokenId !== undefined
      ? { ...value, data: makeIdsOtherThan(padTokenId, numTokens) }
      : value;
  }
  if (info === inputs.perLayer) {
    return makeSizes({ ...info, shape: [1, numTokens, ...shape.slice(2)] }, []);
  }
  if (info === inputs.types) return { dtype, shape: [1, numTokens] };
  if (info === inputs.mask && shape.length === 2) {
    return { dtype, shape: [1, total], data: new Float64Array(total).fill(1) };
  }
  if (info === inputs.positions) {
    const sections = makeSizes({ ...info, shape: shape.slice(0, -2) }, [])?.shape;
    if (sections === undefined) return undefined;
    const data = Float64Array.from(
      { length: countElements(sections) * numTokens },
      (_, i) => pastLength + i % numTokens,
    );
    return { dtype, shape: [...sections, 1, numTokens], data };
  }
  return undefined;
}

/** Irregular token ids, so that nothing computed from them is mistaken for positions. */
function makeIdsOtherThan(padTokenId: number, count: number): Float64Array {
  const first = padTokenId < 3 ? 3 : 0;
  const skips = (id: number) => id >= padTokenId && padTokenId >= 3 ? id + 1 : id;
  return Float64Array.from({ length: count }, (_, t) => skips(first + (t * t * 5 + 2) % 7));
}

/** Partial evaluations of one graph, cached by their lengths. */
export class Probes {
  readonly index: GraphIndex;
  readonly inputs: DecoderInputs;
  readonly #known: (lengths: Lengths) => ReadonlyMap<string, Value>;
  readonly #runs = new Map<string, Evaluation>();

  /** @param known returns the outputs of nodes that the evaluation has no rules for. */
  constructor(
    index: GraphIndex,
    inputs: DecoderInputs,
    known: (lengths: Lengths) => ReadonlyMap<string, Value> = () => new Map(),
  ) {
    this.index = index;
    this.inputs = inputs;
    this.#known = known;
  }

  /** The run with these lengths. For a graph without a cache the past length is taken as 0. */
  at(asked: Lengths): Evaluation {
    const lengths = this.#hasPast ? asked : { ...asked, pastLength: 0 };
    const key = `${lengths.pastLength}+${lengths.numTokens}`;
    let run = this.#runs.get(key);
    if (run === undefined) {
      const feeds = new Map(this.#known(lengths));
      for (const info of this.index.inputs.values()) {
        const value = makeFeed(info, this.inputs, lengths);
        if (value !== undefined) feeds.set(info.name, value);
      }
      run = new Evaluation(this.index, feeds);
      this.#runs.set(key, run);
    }
    return run;
  }

  /** The runs of {@linkcode SHORT_LENGTHS}. */
  short(): Evaluation[] {
    return SHORT_LENGTHS.map((lengths) => this.at(lengths));
  }

  /** A long run: it distinguishes constants from tensors that are only constant for short sequences. */
  long(contextLength: number): Evaluation {
    return this.at(
      this.#hasPast
        ? { pastLength: contextLength - 1, numTokens: 1 }
        : { pastLength: 0, numTokens: Math.min(contextLength, LONG_TEXT) },
    );
  }

  /**
   * The constant that a tensor adds to the positions of the tokens.
   *
   * @returns `undefined` if the tensor does not hold positions plus a constant.
   */
  positionOffset(name: string): number | undefined {
    const offsets = SHORT_LENGTHS.map((lengths) => {
      const data = this.at(lengths).value(name)?.data;
      if (data?.length !== lengths.numTokens) return NaN;
      const offset = data[0]! - (this.#hasPast ? lengths.pastLength : 0);
      return data.every((x, t) => x - data[0]! === t) ? offset : NaN;
    });
    return offsets.every((offset) => offset === offsets[0]) ? offsets[0] : undefined;
  }

  get #hasPast(): boolean {
    return this.inputs.caches.size > 0;
  }
}

/** Number of tokens in the long run of a graph without a cache. */
const LONG_TEXT = 150;

/** Three short runs. The first two differ only in the past length, the first and the last in both lengths. */
export const SHORT_LENGTHS: readonly [Lengths, Lengths, Lengths] = [
  { pastLength: 0, numTokens: 3 },
  { pastLength: 4, numTokens: 3 },
  { pastLength: 2, numTokens: 5 },
];
