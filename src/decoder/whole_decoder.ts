/**
 * The uncut decoder: the whole graph in ONNX Runtime, its KV cache kept on the device, one sequence at a time.
 * It serves what the graph cut does not understand.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import {
  type ExternalData,
  type Session,
  Tensor,
  type Tensors,
  type ValueInfo,
} from "../onnx/ort.ts";
import type { Decoder, DecoderLimits, SampledToken, StepBatch } from "./decoder.ts";

/** Tokens per block of the engine's bookkeeping; this cache itself is one run of keys and values. */
const BLOCK_SIZE = 16;
/** The graph gives logits for every token of a step; this bounds what they take. */
const MAX_LOGITS_BYTES = 128 * 2 ** 20;
const MAX_STEP_TOKENS = 512;

/** A graph that this decoder cannot drive. */
export class UnsupportedGraphError extends Error {
  override readonly name = "UnsupportedGraphError";
}

/** What to load. */
export interface WholeDecoderOptions {
  readonly backend: Backend;
  /** Bytes of the graph's ModelProto. */
  readonly model: Uint8Array;
  readonly externalData?: readonly ExternalData[] | undefined;
  readonly contextLength: number;
  readonly vocabSize: number;
}

/** See the module. */
export class WholeDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly #backend: Backend;
  readonly #session: Session;
  readonly #cacheInputs: readonly ValueInfo[];
  /** Keys, values and other state of the sequence at hand, by input name. */
  #cache: Record<string, Tensor> = {};

  private constructor(session: Session, options: WholeDecoderOptions) {
    this.#session = session;
    this.#backend = options.backend;
    this.#cacheInputs = session.inputs.filter(({ name }) => name.startsWith("past"));
    const rows = Math.floor(MAX_LOGITS_BYTES / (4 * options.vocabSize));
    this.limits = {
      contextLength: options.contextLength,
      vocabSize: options.vocabSize,
      maxSequences: 1,
      maxBatchTokens: Math.max(1, Math.min(rows, MAX_STEP_TOKENS, options.contextLength)),
      numBlocks: Math.ceil(options.contextLength / BLOCK_SIZE),
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    };
  }

  /**
   * Loads the graph.
   *
   * @throws {UnsupportedGraphError} naming the inputs it does not know.
   */
  static async load(options: WholeDecoderOptions): Promise<WholeDecoder> {
    const session = await options.backend.openSession(options.model, options.externalData);
    const unknown = session.inputs.filter(({ name }) =>
      !name.startsWith("past") && !STEP_INPUTS.has(name)
    );
    const cacheless = session.outputs.some(({ name }) => name === "logits")
      ? []
      : ["it has no output named logits"];
    const faults = [...unknown.map(({ name }) => `its input "${name}" is not known`), ...cacheless];
    if (faults.length === 0) return new WholeDecoder(session, options);
    await session.release();
    throw new UnsupportedGraphError(`The decoder graph cannot be run: ${faults.join(", ")}.`);
  }

  async run(batch: StepBatch): Promise<SampledToken[]> {
    const { numTokens } = batch;
    const firstPosition = batch.positions[0] ?? 0;
    if (firstPosition === 0) this.#startSequence();
    const outputs = await this.#session.run(this.#feeds(batch, firstPosition));
    this.#keepCache(outputs);
    const logits = outputs["logits"] as Tensor;
    try {
      const sample = batch.sequences[0]?.sample;
      if (!sample) return [];
      const row = (logits.dims[1] ?? 1) === 1 ? 0 : numTokens - 1;
      return await this.#backend.sample(logits, row, [sample]);
    } finally {
      logits.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.#disposeCache();
    await this.#session.release();
  }

  #feeds(batch: StepBatch, firstPosition: number): Tensors {
    const { numTokens } = batch;
    const feeds: Record<string, Tensor> = { ...this.#cache };
    for (const { name } of this.#session.inputs) {
      const make = STEP_INPUTS.get(name);
      if (make) feeds[name] = make(batch, firstPosition + numTokens);
    }
    return feeds;
  }

  #startSequence(): void {
    this.#disposeCache();
    this.#cache = Object.fromEntries(
      this.#cacheInputs.map((input) => [input.name, emptyState(input)]),
    );
  }

  #keepCache(outputs: Tensors): void {
    this.#disposeCache();
    this.#cache = Object.fromEntries(this.#cacheInputs.map(({ name }) => [
      name,
      outputs[presentName(name)] as Tensor,
    ]));
  }

  #disposeCache(): void {
    for (const tensor of Object.values(this.#cache)) tensor.dispose();
    this.#cache = {};
  }
}

/** Makes an input from a step and the length of the sequence after it. */
type MakeInput = (batch: StepBatch, length: number) => Tensor;

/** The inputs that are not cache. */
const STEP_INPUTS: ReadonlyMap<string, MakeInput> = new Map<string, MakeInput>([
  ["input_ids", ({ tokenIds, numTokens }) => int64Row(tokenIds.subarray(0, numTokens))],
  ["position_ids", ({ positions, numTokens }) => int64Row(positions.subarray(0, numTokens))],
  [
    "attention_mask",
    (_, length) => new Tensor("int64", new BigInt64Array(length).fill(1n), [1, length]),
  ],
  // Exports that can skip the vocabulary projection take how many last rows to project.
  ["num_logits_to_keep", () => new Tensor("int64", [1n], [])],
]);

function int64Row(values: Int32Array): Tensor {
  return new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
}

/** The output that continues a cache input: `past_key_values.0.key` → `present.0.key`. */
function presentName(pastName: string): string {
  return pastName.replace(/^past_key_values/, "present").replace(/^past/, "present");
}

/** State of a sequence that has not begun: no keys yet, other state zero. */
function emptyState({ name, type, shape }: ValueInfo): Tensor {
  const dims = shape.map((size) =>
    typeof size === "number" ? size : size.includes("batch") ? 1 : 0
  );
  const count = dims.reduce((product, size) => product * size, 1);
  if (type === "float32") return new Tensor(type, new Float32Array(count), dims);
  if (type === "float16") return new Tensor(type, new Uint16Array(count), dims);
  throw new UnsupportedGraphError(
    `The cache input "${name}" has element type ${type}; wanted float32 or float16.`,
  );
}
