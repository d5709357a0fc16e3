/**
 * Whisper's rules on timestamps and text, applied to rows of logits: `token_rules` on the GPU, and its reference, which
 * the CPU backend runs.
 *
 * Tokens that a row's rule allows are kept. If the timestamps among them are together more likely than any one of the
 * others, `ln Σ e^logit[timestamps] > max logit[others]`, the others are removed too. The logit of a removed token
 * becomes the lowest number. NaN is ignored, and infinity counts as the largest number, as in sampling.
 *
 * @see `ApplyTimestampRules` in openai/whisper's `decoding.py`
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext, uploadStorage } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { LOWEST_LOGIT, type TokenRule, type TokenRulesOptions } from "./sample_row.ts";
import source from "./token_rules.wgsl" with { type: "text" };
import { LARGEST_FLOAT32 } from "./sample_terms.ts";

const BINDINGS = { rows: "read", plain: "read", logits: "read_write" } as const;
const THREADS = 256;
/** Number of words in a `Rule` of the shader: text, end, first, last. */
const ROW_WORDS = 4;
const NO_RULE = [2, 0, 0, 0];

const PRELUDE: Readonly<Record<Elem, string>> = {
  f32: `alias elem = f32;\nconst LOWEST_ELEM = ${LOWEST_LOGIT.f32};\n`,
  f16: `enable f16;\nalias elem = f16;\nconst LOWEST_ELEM = ${LOWEST_LOGIT.f16}.0;\n`,
};

/** Applies rules on the GPU. All memory is allocated in the constructor. */
export class TokenRules {
  readonly #gpu: GpuContext;
  readonly #kernel: Kernel<typeof BINDINGS>;
  readonly #rows: GPUBuffer;
  readonly #plain: GPUBuffer;
  readonly #words: Uint32Array<ArrayBuffer>;

  /** @param options.elem data type of the logits. */
  constructor(gpu: GpuContext, options: TokenRulesOptions & { elem: Elem; maxRows: number }) {
    const { vocabSize, endToken, timestampsStart, plainTokens, elem, maxRows } = options;
    this.#gpu = gpu;
    this.#kernel = Kernel.get(gpu, {
      name: "token_rules",
      source: PRELUDE[elem] + source,
      bindings: BINDINGS,
      constants: {
        VOCAB: vocabSize,
        END: endToken,
        TIMESTAMPS: timestampsStart,
        WG: THREADS,
      },
    });
    this.#words = new Uint32Array(maxRows * ROW_WORDS);
    this.#rows = createStorage(gpu, "token_rules rows", this.#words.byteLength);
    this.#plain = uploadStorage(gpu, "token_rules plain", plainTokens);
  }

  /**
   * Uploads the rules of rows, and appends the work that applies them: one dispatch. Submit it before the next call,
   * which overwrites the upload.
   *
   * @param rules the rule of each row; a row without one is left unchanged.
   * @param logits elem `[rows, vocabSize]`, changed in place.
   */
  encode(
    pass: ComputePass,
    rules: readonly (TokenRule | undefined)[],
    logits: GPUBuffer,
  ): void {
    rules.forEach((rule, row) => {
      if (rule === undefined) return this.#words.set(NO_RULE, row * ROW_WORDS);
      const { allowsText, allowsEnd, firstTimestamp, lastTimestamp } = rule;
      this.#words.set(
        [Number(allowsText), Number(allowsEnd), firstTimestamp, lastTimestamp],
        row * ROW_WORDS,
      );
    });
    const { queue } = this.#gpu.device;
    queue.writeBuffer(this.#rows, 0, this.#words, 0, rules.length * ROW_WORDS);
    const tensors = { rows: this.#rows, plain: this.#plain, logits };
    this.#kernel.encode(pass, tensors, [rules.length]);
  }

  /** Frees the buffers. Work that has been submitted still runs. */
  dispose(): void {
    this.#rows.destroy();
    this.#plain.destroy();
  }
}

const ALL_BITS = 0xffffffff;

/**
 * Applies rules to logits on the CPU, in place.
 *
 * @param rules the rule of each row; a row without one is left unchanged.
 * @param logits f32 or f16 `[rules.length, vocabSize]`.
 */
export function applyTokenRules(
  logits: Float32Array | Float16Array,
  rules: readonly (TokenRule | undefined)[],
  options: TokenRulesOptions,
): void {
  rules.forEach((rule, index) => {
    if (rule === undefined) return;
    const start = index * options.vocabSize;
    applyRule(logits.subarray(start, start + options.vocabSize), rule, options);
  });
}

function applyRule(
  logits: Float32Array | Float16Array,
  { allowsText, allowsEnd, firstTimestamp, lastTimestamp }: TokenRule,
  { endToken, timestampsStart, plainTokens }: TokenRulesOptions,
): void {
  const lowest = logits instanceof Float32Array ? LOWEST_LOGIT.f32 : LOWEST_LOGIT.f16;
  let bestOther = -LARGEST_FLOAT32;
  for (let start = 0; start < timestampsStart; start += 32) {
    const end = Math.min(start + 32, timestampsStart);
    const plain = plainTokens[start >>> 5]!;
    // This case covers nearly all of a vocabulary.
    if (allowsText && plain === ALL_BITS && (endToken < start || endToken >= end)) {
      // Comparisons with NaN are false.
      for (let token = start; token < end; token++) {
        if (logits[token]! > bestOther) bestOther = logits[token]!;
      }
      continue;
    }
    for (let token = start; token < end; token++) {
      const isPlain = (plain >>> (token & 31) & 1) === 1;
      if (token === endToken ? !allowsEnd : !allowsText || !isPlain) logits[token] = lowest;
      else bestOther = Math.max(bestOther, bounded(logits[token]!));
    }
  }
  bestOther = bounded(bestOther);
  logits.fill(lowest, timestampsStart, Math.max(timestampsStart, firstTimestamp));
  logits.fill(lowest, Math.max(timestampsStart, lastTimestamp + 1));
  if (firstTimestamp > lastTimestamp) return;
  const times = logits.subarray(firstTimestamp, lastTimestamp + 1);
  let best = -LARGEST_FLOAT32;
  for (let i = 0; i < times.length; i++) best = Math.max(best, bounded(times[i]!));
  let sum = 0;
  for (let i = 0; i < times.length; i++) sum += Math.exp(bounded(times[i]!) - best);
  if (Math.log(sum) + best > bestOther) logits.fill(lowest, 0, timestampsStart);
}

function bounded(logit: number): number {
  return Number.isNaN(logit) ? -LARGEST_FLOAT32 : Math.min(logit, LARGEST_FLOAT32);
}
