/**
 * Whisper's rules on timestamps and text, applied to logits on the device.
 *
 * @see `ApplyTimestampRules` in openai/whisper's `decoding.py`
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createStorage, type GpuContext, uploadStorage } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import { LOWEST_LOGIT, type TokenRule, type TokenRulesOptions } from "./sample_row.ts";
import source from "./token_rules.wgsl" with { type: "text" };

const BINDINGS = { rows: "read", plain: "read", logits: "read_write" } as const;
const THREADS = 256;
/** Number of words in a `Rule` of the shader: text, end, first, last. */
const ROW_WORDS = 4;
const NO_RULE = [2, 0, 0, 0];

const PRELUDE: Readonly<Record<Elem, string>> = {
  f32: `alias elem = f32;\nconst LOWEST_ELEM = ${LOWEST_LOGIT.f32};\n`,
  f16: `enable f16;\nalias elem = f16;\nconst LOWEST_ELEM = ${LOWEST_LOGIT.f16}.0;\n`,
};

/** Applies rules: `write` the rules, then `encode` the dispatch. The formula is that of `token_rules_reference.ts`. */
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

  /** Frees its buffers; work submitted before still runs. */
  dispose(): void {
    this.#rows.destroy();
    this.#plain.destroy();
  }
}
