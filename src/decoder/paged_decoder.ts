/**
 * A decoder that runs a cut graph: steps of many sequences, which share a paged KV cache.
 *
 * @module
 */
import type { Backend, LogitRows, TokenSampler } from "../device/backend.ts";
import type { PagedAttention } from "../device/attention.ts";
import type { ExpertLayers, SequenceStates } from "../device/kernel_nodes.ts";
import type { DeviceWeights } from "../device/device_weights.ts";
import type { GraphCut, TensorPort } from "../graph/graph_cut.ts";
import type { Tensor } from "../device/ort/ort.ts";
import {
  type Decoder,
  type DecoderLimits,
  listRows,
  type SampledToken,
  type SampleRow,
  type StepBatch,
  type Suspension,
  type SuspensionLimits,
} from "./decoder.ts";
import { type AxisSizes, resolveDims } from "./activations.ts";
import type { StepExecutor } from "./step_executor.ts";
import { StepInputs } from "./step_inputs.ts";
import { divideStep, type StepPart, StepSlices, type UnitTimes } from "./step_division.ts";
import type { TokenEmbeddings } from "./token_embeddings.ts";

/** The parts of a paged decoder. The decoder owns all of them. */
interface PagedDecoderParts<Token extends SampledToken> {
  readonly backend: Backend;
  readonly cut: GraphCut;
  /** Embeddings for a cut that begins with them. */
  readonly embeddings?: TokenEmbeddings | undefined;
  readonly executor: StepExecutor<GraphCut>;
  /**
   * Maximum number of decoding sequences in a step whose rows run with the lowering for few rows: see `kernel_rule.ts`.
   */
  readonly maxFewRows: number;
  /** Whether kernels run every step completely, without ONNX Runtime. */
  readonly runsAll?: boolean | undefined;
  /** Whether kernels run everything and are exact; see `KernelExecutor`. */
  readonly isExact?: boolean | undefined;
  /** Whether the result of a row depends on other rows that run with it, so that each sequence must run by itself. */
  readonly isApart?: boolean | undefined;
  /** Weights that the executor reads. */
  readonly weights?: DeviceWeights | undefined;
  readonly attention: PagedAttention;
  /** Recurrent states, for a cut that has any. */
  readonly states?: SequenceStates | undefined;
  /** Mixtures of experts, for a cut that has any. */
  readonly experts?: ExpertLayers | undefined;
  readonly limits: DecoderLimits;
  /** Turns the wanted rows into a step's result. */
  readonly sampler: TokenSampler<Token>;
  /** Whether the machine has memory for this many more blocks of a pool; if absent, only the device is asked. */
  readonly hasRoom?: ((numBlocks: number, pool: number) => boolean) | undefined;
  /** Changes logits `[1, rows, vocabSize]` in place, before a token of each row is chosen. */
  readonly processLogits?: LogitsProcessor | undefined;
}

/** Changes logits in place, before a token of each row is chosen. */
export type LogitsProcessor = (logits: Tensor, rows: readonly SampleRow[]) => void;

/** The wanted rows of one part of a step. */
interface WantedRows {
  readonly rows: Tensor;
  readonly batch: StepBatch;
}

/**
 * Number of prompt tokens that fill a tile of 32 rows together with eight next tokens. In such a tile, most of the time
 * is taken by reading the weights.
 */
const EXACT_PROMPT_TOKENS = 24;

export class PagedDecoder<Token extends SampledToken = SampledToken> implements Decoder<Token> {
  readonly limits: DecoderLimits;
  readonly #parts: PagedDecoderParts<Token>;
  readonly #inputs: StepInputs;
  /** Inputs for decode steps, which may run while another step is suspended. */
  readonly #decodingInputs: StepInputs;
  readonly #unitTimes: UnitTimes = new WeakMap();
  /** Number of blocks of each pool: the main pool, then the window pools. */
  readonly #numBlocks: number[];

  constructor(parts: PagedDecoderParts<Token>) {
    const { backend, cut, limits } = parts;
    this.#parts = parts;
    this.limits = limits;
    this.#numBlocks = [limits, ...limits.windows ?? []].map(({ numBlocks }) => numBlocks);
    const ports = { ...cut, tokens: findIdsPort(parts) };
    this.#inputs = new StepInputs(backend, ports, limits);
    this.#decodingInputs = new StepInputs(backend, ports, toDecodingLimits(limits));
  }

  get suspension(): SuspensionLimits {
    const { isExact, backend } = this.#parts;
    return {
      // A step that takes two passes over the weights is no faster than two steps.
      mostBeside: isExact ? EXACT_PROMPT_TOKENS : 0,
      isQueued: backend.kind === "webgpu",
    };
  }

  /** Two tokens, which run the lowering for many rows, are enough if nothing is compiled for each shape. */
  get warmUpTokens(): number | undefined {
    const { runsAll, backend } = this.#parts;
    return runsAll || backend.kind === "cpu" ? 2 : undefined;
  }

  /** The output whose rows {@linkcode forward} returns. */
  get output(): GraphCut["output"] {
    return this.#parts.cut.output;
  }

  /** Returns the same decoder with another sampler. This one must no longer be used. */
  async withSampler<Other extends SampledToken>(
    sampler: TokenSampler<Other>,
  ): Promise<PagedDecoder<Other>> {
    this.#disposeInputs();
    await this.#parts.sampler.dispose();
    return new PagedDecoder({ ...this.#parts, sampler });
  }

  async run(batch: StepBatch, suspension?: Suspension): Promise<Token[]> {
    return await this.#parts.sampler.sample(this.#logits(batch, suspension));
  }

  /**
   * Runs a step without sampling, part by part.
   *
   * @returns the wanted rows of each part that has any, `[1, rows, width]`, valid until the next part runs.
   */
  async *forward(batch: StepBatch, suspension?: Suspension): AsyncGenerator<WantedRows> {
    for (const part of divideStep(batch, this.#parts)) {
      const rows = await this.#forward(part, suspension);
      if (rows !== undefined) yield { rows, batch: part.batch };
    }
  }

  async *#logits(batch: StepBatch, suspension?: Suspension): AsyncGenerator<LogitRows> {
    for await (const { rows: logits, batch: { sequences } } of this.forward(batch, suspension)) {
      const rows = sequences.flatMap(listRows);
      this.#parts.processLogits?.(logits, rows);
      yield { logits, rows };
    }
  }

  async #forward(
    { batch, lowering }: StepPart,
    suspension: Suspension | undefined,
  ): Promise<Tensor | undefined> {
    const { backend, cut, executor, attention, states, isApart } = this.#parts;
    const rows = listWantedRows(batch);
    const sizes = { tokens: batch.numTokens, rows: rows.length };
    const isDecoding = batch.sequences.every((sequence) => sequence.isDecoding);
    const inputs = isDecoding ? this.#decodingInputs : this.#inputs;
    const tensors = inputs.write(batch, rows);
    await this.#embed(tensors, batch, isDecoding);
    attention.begin(batch);
    states?.begin(batch);
    const slices = suspension && new StepSlices({
      suspension,
      times: this.#unitTimes,
      divides: backend.kind === "cpu" && !isApart,
      onResume: () => {
        attention.begin(batch);
        states?.begin({ ...batch, stateCopies: undefined });
      },
    });
    await executor.run(tensors, sizes, { lowering, isDecoding, slices });
    return rows.length > 0 ? tensors.get(cut.output.name)! : undefined;
  }

  async resizeCache(numBlocks: number, pool = 0): Promise<boolean> {
    const { attention, hasRoom } = this.#parts;
    const numNew = numBlocks - this.#numBlocks[pool]!;
    if (numNew > 0 && hasRoom !== undefined && !hasRoom(numNew, pool)) return false;
    if (!await attention.resize?.(numBlocks, pool)) return false;
    this.#numBlocks[pool] = numBlocks;
    return true;
  }

  #disposeInputs(): void {
    this.#inputs.dispose();
    this.#decodingInputs.dispose();
  }

  async dispose(): Promise<void> {
    this.#disposeInputs();
    await this.#parts.sampler.dispose();
    this.#parts.attention.dispose();
    this.#parts.states?.dispose();
    this.#parts.experts?.dispose();
    await this.#parts.embeddings?.dispose();
    await this.#parts.executor.dispose();
    this.#parts.weights?.dispose();
  }

  async #embed(
    tensors: Map<string, Tensor>,
    batch: StepBatch,
    isDecoding: boolean,
  ): Promise<void> {
    const { cut, embeddings } = this.#parts;
    if (embeddings === undefined) return;
    const { embeddings: spans = [], completionPositions } = batch;
    const tokens = { ids: tensors.get(embeddings.idsName)!, spans, completionPositions };
    const ports = listEmbeddedPorts(cut, embeddings.outputs);
    const sizes = { tokens: batch.numTokens, rows: 0 };
    const dims = new Map(ports.map(({ output, port }) => [output, resolveDims(port, sizes)]));
    const outputs = await embeddings.embed(tokens, { dims, isDecoding });
    for (const { output, port } of ports) tensors.set(port.name, outputs[output]!);
  }
}

/**
 * Lists the outputs of the embeddings' graph, and the inputs of the cut that read them.
 *
 * @param outputs names of that graph's outputs; if none of them is the name of the cut's input, the first one is the
 * embeddings.
 */
export function listEmbeddedPorts(
  { tokens, perLayer }: Pick<GraphCut, "tokens" | "perLayer">,
  outputs: readonly string[],
): readonly { readonly output: string; readonly port: TensorPort }[] {
  const output = outputs.includes(tokens.name) ? tokens.name : outputs[0]!;
  const first = { output, port: tokens };
  return perLayer ? [first, { output: perLayer.name, port: perLayer }] : [first];
}

/** Indices of the packed tokens whose rows are wanted. */
function listWantedRows(batch: StepBatch): number[] {
  return batch.sequences.flatMap((sequence, index) => {
    const { length } = listRows(sequence);
    const end = batch.queryStarts[index + 1]!;
    return Array.from({ length }, (_, row) => end - length + row);
  });
}

/** The input that takes token ids: of the embeddings' graph, or of the cut itself. */
function findIdsPort(
  { cut, embeddings }: Pick<PagedDecoderParts<SampledToken>, "cut" | "embeddings">,
): TensorPort {
  if (embeddings === undefined) return cut.tokens;
  return { name: embeddings.idsName, dtype: "int64", shape: [1, "tokens"] };
}

/** The limits of a decode step, which only computes next tokens. */
export function toDecodingLimits(
  { maxBatchTokens, maxSequences }: Pick<DecoderLimits, "maxBatchTokens" | "maxSequences">,
): Pick<DecoderLimits, "maxBatchTokens" | "maxSequences"> {
  return { maxBatchTokens: Math.min(maxBatchTokens, maxSequences), maxSequences };
}

/** The sizes of the largest step. */
export function countMost(
  { maxBatchTokens, maxSequences }: Pick<DecoderLimits, "maxBatchTokens" | "maxSequences">,
): AxisSizes {
  return { tokens: maxBatchTokens, rows: maxSequences };
}
