/**
 * Decides how the next token of a sequence is chosen.
 *
 * @module
 */
import type {
  SampleRow,
  SamplingParams,
  TokenAdjustments,
} from "../../kernels/sample/sample_row.ts";
import { type DryOptions, DryPenalty, type TokenRules } from "./token_rules.ts";
import { toRefusal } from "./grammar/compiler.ts";
import type { Grammar } from "./grammar/grammar.ts";
import { Int32List } from "./int32_list.ts";

/** A mask that allows no token, long enough for any vocabulary. */
const NO_TOKENS = new Uint32Array(2 ** 16);

/** Options of a sequence's sampling. */
export interface SamplingOptions {
  readonly params: SamplingParams;
  /** Values added to the logits of these token ids. */
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** Tokens that a completion must have before one of `endTokenIds` may be chosen. */
  readonly minTokens?: number | undefined;
  /** Tokens that end a completion. */
  readonly endTokenIds?: readonly number[] | undefined;
  /** A penalty on tokens that would continue a repetition. */
  readonly dry?: DryOptions | undefined;
  /**
   * How many of the most likely tokens to report with each chosen one, 0 to 20; if absent, no log-probabilities are
   * reported.
   */
  readonly topLogprobs?: number | undefined;
  /** A grammar that the completion must match. */
  readonly grammar?: Grammar | undefined;
  /** Constraints on the tokens if there is no grammar. */
  readonly rules?: TokenRules | undefined;
}

/**
 * Decides how the next token of a sequence is chosen, and is updated token by token. It is itself the sequence's
 * {@linkcode SampleRow}, the same object at every step.
 */
export class SamplingState implements SampleRow {
  readonly params: SamplingParams;
  readonly topLogprobs: number | undefined;
  /** Absent if there are neither penalties nor biases, which spares the kernel the work. */
  readonly adjustments: TokenAdjustments | undefined;
  readonly #table: AdjustmentTable | undefined;
  readonly #options: SamplingOptions;
  readonly #rules: TokenRules | undefined;
  readonly #dry: RepetitionBias | undefined;
  #failure: unknown;
  #tokenIndex = 0;

  constructor(promptTokens: Int32Array, options: SamplingOptions) {
    this.params = options.params;
    this.topLogprobs = options.topLogprobs;
    this.#options = options;
    const { minTokens = 0, endTokenIds = [], logitBias } = options;
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = options.params;
    const hasPenalties = repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
    if (hasPenalties || (logitBias?.size ?? 0) > 0 || minTokens > 0 || options.dry !== undefined) {
      this.#table = new AdjustmentTable({ hasPenalties, window: options.params.repetitionWindow });
      for (const [tokenId, bias] of logitBias ?? []) this.#table.setBias(tokenId, bias);
      if (minTokens > 0) { for (const id of endTokenIds) this.#table.setBias(id, -Infinity); }
      this.#table.addPrompt(promptTokens, repetitionPenalty !== 1);
      if (options.dry !== undefined) {
        this.#dry = new RepetitionBias(promptTokens, options.dry, {
          setBias: (tokenId, bias) => this.#table!.setBias(tokenId, bias),
          getBias: (tokenId) => this.#getBias(tokenId),
        });
      }
    }
    this.adjustments = this.#table;
    this.#rules = options.grammar?.createMatcher() ?? options.rules;
  }

  /**
   * A mask of the tokens that the grammar or the rules allow. The mask is computed when the sampler reads it (on a GPU,
   * while the device runs the step). If the computation fails, the mask allows nothing.
   */
  get mask(): Uint32Array | undefined {
    const mask = this.#guard(() => this.#rules?.mask);
    return this.#failure === undefined ? mask : NO_TOKENS;
  }

  get rule(): SampleRow["rule"] {
    return this.#rules?.rule;
  }

  /** The grammar's error, which ends only this completion's request. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Whether the completion matches its grammar, and no further token could follow. */
  get isFinished(): boolean {
    return this.#rules?.isFinished ?? false;
  }

  /** Index, within the completion, of the token to choose next. */
  get tokenIndex(): number {
    return this.#tokenIndex;
  }

  /** Records a chosen token. */
  push(tokenId: number): void {
    this.#tokenIndex++;
    this.#table?.addCompletion(tokenId);
    this.#guard(() => this.#rules?.accept?.(tokenId));
    const { minTokens = 0, endTokenIds = [] } = this.#options;
    if (this.#tokenIndex === minTokens) {
      for (const id of endTokenIds) this.#table?.setBias(id, this.#getBias(id));
    }
    this.#dry?.push(tokenId);
  }

  /** The bias that the request adds to a token's logit at this position. */
  #getBias(tokenId: number): number {
    const { minTokens = 0, endTokenIds = [], logitBias } = this.#options;
    if (this.#tokenIndex < minTokens && endTokenIds.includes(tokenId)) return -Infinity;
    return logitBias?.get(tokenId) ?? 0;
  }

  #guard<T>(use: () => T): T | undefined {
    if (this.#failure !== undefined) return undefined;
    try {
      return use();
    } catch (error) {
      this.#failure = toRefusal(error);
      return undefined;
    }
  }
}

/** Reads and writes the table of logit biases. */
interface Biases {
  setBias(tokenId: number, bias: number): void;
  getBias(tokenId: number): number;
}

/** Maintains the biases of tokens that would continue a repetition. */
class RepetitionBias {
  readonly #tokens: Int32List;
  readonly #penalty: DryPenalty;
  readonly #biases: Biases;
  #penalised: ReadonlyMap<number, number> = new Map();

  constructor(promptTokens: Int32Array, options: DryOptions, biases: Biases) {
    this.#tokens = new Int32List(promptTokens);
    this.#penalty = new DryPenalty(options);
    this.#biases = biases;
    this.#update();
  }

  push(tokenId: number): void {
    this.#tokens.push(tokenId);
    this.#update();
  }

  #update(): void {
    const { setBias, getBias } = this.#biases;
    for (const id of this.#penalised.keys()) setBias(id, getBias(id));
    this.#penalised = this.#penalty.compute(this.#tokens.view());
    for (const [id, penalty] of this.#penalised) setBias(id, getBias(id) - penalty);
  }
}

/** A growing table of {@linkcode TokenAdjustments}. Its capacity doubles; a token keeps its index. */
class AdjustmentTable implements TokenAdjustments {
  length = 0;
  tokenIds = new Uint32Array(32);
  completionCounts = new Uint32Array(32);
  inContext = new Uint32Array(32);
  bias = new Float32Array(32);
  /** Whether there are penalties. If so, every token of the completion must be listed. */
  readonly #hasPenalties: boolean;
  readonly #indexOf = new Map<number, number>();
  /** The tokens in the penalty window; absent if the window is unlimited. */
  readonly #recent: RecentTokens | undefined;

  /** @param options.window length of the penalty window in tokens; unlimited if absent. */
  constructor({ hasPenalties, window }: { hasPenalties: boolean; window: number | undefined }) {
    this.#hasPenalties = hasPenalties;
    if (window !== undefined && window < Infinity) this.#recent = new RecentTokens(window);
  }

  setBias(tokenId: number, bias: number): void {
    const index = this.#indexFor(tokenId);
    this.bias[index] = bias;
  }

  /**
   * Marks the tokens of the prompt that are in the penalty window. Tokens that are not listed yet are listed if `all`
   * is set, and skipped otherwise.
   */
  addPrompt(tokens: Int32Array, all: boolean): void {
    const recent = tokens.subarray(-Math.min(tokens.length, this.#recent?.size ?? Infinity));
    for (const tokenId of recent) {
      const index = all ? this.#indexFor(tokenId) : this.#indexOf.get(tokenId);
      if (index !== undefined) this.#enter(index);
    }
  }

  addCompletion(tokenId: number): void {
    const index = this.#hasPenalties ? this.#indexFor(tokenId) : this.#indexOf.get(tokenId);
    if (index === undefined) return;
    this.completionCounts[index]! += 1;
    this.#enter(index);
  }

  #enter(index: number): void {
    this.inContext[index] = 1;
    const left = this.#recent?.push(index);
    if (left !== undefined) this.inContext[left] = 0;
  }

  #indexFor(tokenId: number): number {
    const known = this.#indexOf.get(tokenId);
    if (known !== undefined) return known;
    if (this.length === this.tokenIds.length) this.#grow();
    const index = this.length++;
    this.tokenIds[index] = tokenId;
    this.#indexOf.set(tokenId, index);
    return index;
  }

  #grow(): void {
    const capacity = this.tokenIds.length * 2;
    this.tokenIds = copyInto(new Uint32Array(capacity), this.tokenIds);
    this.completionCounts = copyInto(new Uint32Array(capacity), this.completionCounts);
    this.inContext = copyInto(new Uint32Array(capacity), this.inContext);
    this.bias = copyInto(new Float32Array(capacity), this.bias);
  }
}

function copyInto<T extends Uint32Array | Float32Array>(target: T, source: T): T {
  target.set(source);
  return target;
}

/** The last `size` entries that were pushed. */
class RecentTokens {
  readonly size: number;
  readonly #entries: number[] = [];
  readonly #counts = new Map<number, number>();
  #next = 0;

  constructor(size: number) {
    this.size = size;
  }

  /** Adds an entry. @returns the entry that is then no longer among the last ones, if any. */
  push(entry: number): number | undefined {
    const oldest = this.#entries[this.#next];
    this.#entries[this.#next] = entry;
    this.#next = (this.#next + 1) % this.size;
    this.#counts.set(entry, (this.#counts.get(entry) ?? 0) + 1);
    if (oldest === undefined) return undefined;
    const count = this.#counts.get(oldest)! - 1;
    this.#counts.set(oldest, count);
    return count === 0 ? oldest : undefined;
  }
}
