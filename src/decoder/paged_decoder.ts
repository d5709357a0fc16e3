/**
 * The cut decoder: ONNX Runtime runs the segments of the graph, our kernels the attention between them, over a
 * paged KV cache that all sequences share.
 *
 * @module
 */
import type { Backend, TokenSampler } from "../backend/backend.ts";
import type { PagedAttention } from "../backend/paged_attention.ts";
import type { DeviceWeights } from "../backend/device_weights.ts";
import type { CompiledSegments } from "../backend/compiled_segments.ts";
import { log } from "../log.ts";
import type { GraphCut, TensorPort } from "../onnx/graph_cut.ts";
import type { GraphSession, Tensor } from "../onnx/runtime/ort.ts";
import {
  type Decoder,
  type DecoderLimits,
  rowsOf,
  type SampledToken,
  type SampleRow,
  type StepBatch,
} from "./decoder.ts";
import { type AxisSizes, dimsOf, SegmentRunner } from "./segment_runner.ts";
import { chooseWay, Crossover, firstTokens, type MeasuredSteps } from "./crossover.ts";
import { StepInputs } from "./step_inputs.ts";
import type { TokenEmbeddings } from "./token_embeddings.ts";

/** What a paged decoder is made of. It owns all of it. */
interface PagedDecoderParts {
  readonly backend: Backend;
  readonly cut: GraphCut;
  /** For a cut that begins with embeddings. */
  readonly embeddings?: TokenEmbeddings | undefined;
  /** Of the cut's segments. */
  readonly sessions: readonly GraphSession[];
  /** That the sessions read. */
  readonly weights?: DeviceWeights | undefined;
  readonly attention: PagedAttention;
  readonly limits: DecoderLimits;
  /** Whether the machine has memory for so many more blocks; only the device is asked if absent. */
  readonly hasRoom?: ((numBlocks: number) => Promise<boolean>) | undefined;
  /** Changes logits `[1, rows, vocabSize]` in place, before a token of each row is chosen. */
  readonly processLogits?: LogitsProcessor | undefined;
}

/** See {@linkcode PagedDecoderParts.processLogits}. */
export type LogitsProcessor = (logits: Tensor, rows: readonly SampleRow[]) => void;

export class PagedDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly #parts: PagedDecoderParts;
  readonly #runner: SegmentRunner<GraphCut>;
  readonly #inputs: StepInputs;
  readonly #sampler: TokenSampler;
  #compiled: CompiledSegments | undefined;
  #crossover: Crossover | undefined;
  #numBlocks: number;

  constructor(parts: PagedDecoderParts) {
    const { attention, backend, cut, sessions, limits } = parts;
    this.#parts = parts;
    this.limits = limits;
    this.#numBlocks = limits.numBlocks;
    this.#runner = new SegmentRunner({
      backend,
      cut,
      sessions,
      most: mostOf(limits),
      attend: ({ layer }, { tensors, output }) => attention.run(layer, tensors, output),
    });
    this.#inputs = new StepInputs(backend, { ...cut, tokens: idsPort(parts) }, limits);
    this.#sampler = backend.openSampler({
      vocabSize: limits.vocabSize,
      dtype: cut.output.dtype as "float32" | "float16",
      maxRows: limits.maxSequences,
    });
  }

  /** Buffers of the tensors that cross between segments. */
  get buffers(): Map<string, GPUBuffer> {
    return this.#runner.buffers;
  }

  /** Has segments run compiled in steps of few rows; they are the decoder's to dispose. */
  useCompiled(compiled: CompiledSegments): void {
    this.#compiled = compiled;
    this.#runner.useCompiled(compiled);
  }

  /** How many rows a step may have for its segments to run compiled. */
  limitCompiledRows(maxRows: number): void {
    if (this.#compiled) this.#runner.useCompiled(this.#compiled, maxRows);
  }

  calibrate(): Promise<void> {
    return this.calibrateWith((batch) => this.run(batch));
  }

  /** Calibrates with steps that `run` runs, and waits for. */
  async calibrateWith(run: (batch: StepBatch) => Promise<unknown>): Promise<void> {
    if (this.#compiled === undefined) return;
    const crossover = await Crossover.find(this.#measured(this.#compiled, run));
    this.#note(crossover.mostRows, { compiled: this.#compiled, steps: crossover.measured });
    if (crossover.mostRows > 0) this.#crossover = crossover;
    else this.#releaseCompiled();
  }

  /**
   * Has all steps run in the way that is faster with few rows, and frees what the other way needs: for decoders that
   * seldom see more. Steps that `run` runs are measured.
   */
  async chooseWith(run: (batch: StepBatch) => Promise<unknown>): Promise<void> {
    if (this.#compiled === undefined) return;
    const { way, steps } = await chooseWay(this.#measured(this.#compiled, run));
    this.#note(way === "compiled" ? "all" : 0, { compiled: this.#compiled, steps });
    if (way === "compiled") await this.#runner.useCompiledAlone();
    else this.#releaseCompiled();
  }

  /** Served steps cannot change it, and on the CPU the segments hold a second copy of weights. */
  #releaseCompiled(): void {
    this.#compiled = undefined;
    this.#runner.releaseCompiled();
  }

  #measured({ maxRows, manyRows }: CompiledSegments, run: (batch: StepBatch) => Promise<unknown>) {
    const { limits } = this;
    return {
      // No sequence has more blocks than tokens.
      most: Math.min(
        ...[maxRows, limits.maxBatchTokens, limits.numBlocks],
        limits.maxSequences * limits.contextLength,
      ),
      many: manyRows,
      limit: (maxRows: number) => this.limitCompiledRows(maxRows),
      run: async (numRows: number) => void await run(firstTokens(numRows, limits)),
    };
  }

  #note(
    rows: number | "all",
    { compiled: { numCompiled, refusal }, steps }: {
      readonly compiled: CompiledSegments;
      readonly steps: readonly MeasuredSteps[];
    },
  ): void {
    const measured = steps.map(({ rows, compiled, ort }) =>
      `${rows}: ${compiled.toFixed(1)} against ${ort.toFixed(1)}`
    );
    log.info("small steps run in Hearth's kernels, others in ONNX Runtime", {
      segments: `${numCompiled} of ${this.#parts.cut.segments.length}`,
      rows,
      ms: measured.join(", "),
      ...refusal === undefined ? {} : { reason: refusal },
    });
  }

  /** The output whose rows {@linkcode forward} returns. */
  get output(): GraphCut["output"] {
    return this.#parts.cut.output;
  }

  async run(batch: StepBatch): Promise<SampledToken[]> {
    return await this.timed(batch, async () => {
      const logits = await this.forward(batch);
      if (logits === undefined) return [];
      const samples = batch.sequences.flatMap(rowsOf);
      this.#parts.processLogits?.(logits, samples);
      return await this.#sampler.sample(logits, samples);
    });
  }

  /** Runs a step with what reads its results, and has the crossover learn from the time. */
  async timed<T>(batch: StepBatch, run: () => Promise<readonly T[]>): Promise<T[]> {
    const crossover = this.#crossover;
    const isCompiled = crossover !== undefined && batch.numTokens <= crossover.mostRows;
    const startMs = performance.now();
    const results = await run();
    // Without results nothing was waited for.
    if (crossover !== undefined && results.length > 0 && isFirstTokens(batch)) {
      const ms = performance.now() - startMs;
      crossover.observe({ rows: batch.numTokens, way: isCompiled ? "compiled" : "ort", ms });
    }
    return results as T[];
  }

  /**
   * Runs the step without sampling.
   *
   * @returns the wanted rows, `[1, rows, width]`, good until the next step; `undefined` if none is wanted.
   */
  async forward(batch: StepBatch): Promise<Tensor | undefined> {
    const { cut, sessions, attention } = this.#parts;
    const rows = rowsToSample(batch);
    const sizes = { tokens: batch.numTokens, rows: rows.length };
    const tensors = this.#inputs.write(batch, rows);
    await this.#embed(tensors, batch);
    attention.begin(batch);
    // If no rows are wanted, the keys and values are all that is needed.
    await this.#runner.run(tensors, sizes, sessions.length - (rows.length > 0 ? 0 : 1));
    return rows.length > 0 ? tensors.get(cut.output.name)! : undefined;
  }

  async resizeCache(numBlocks: number): Promise<boolean> {
    const { attention, hasRoom } = this.#parts;
    const numNew = numBlocks - this.#numBlocks;
    if (numNew > 0 && hasRoom !== undefined && !await hasRoom(numNew)) return false;
    if (!await attention.resize?.(numBlocks)) return false;
    this.#numBlocks = numBlocks;
    return true;
  }

  async dispose(): Promise<void> {
    this.#inputs.dispose();
    this.#sampler.dispose();
    this.#parts.attention.dispose();
    await this.#parts.embeddings?.dispose();
    await this.#runner.dispose();
    this.#parts.weights?.dispose();
  }

  async #embed(tensors: Map<string, Tensor>, batch: StepBatch): Promise<void> {
    const { cut, embeddings } = this.#parts;
    if (embeddings === undefined) return;
    const { embeddings: spans = [], completionPositions } = batch;
    const tokens = { ids: tensors.get(embeddings.idsName)!, spans, completionPositions };
    const dims = dimsOf(cut.tokens, { tokens: batch.numTokens, rows: 0 });
    const outputs = await embeddings.embed(tokens, dims);
    tensors.set(cut.tokens.name, Object.values(outputs)[0]!);
  }
}

/** Whether all tokens of its sequences are new, and embedded as usual: what takes time is the rows. */
function isFirstTokens({ numTokens, sequences, kvLengths, embeddings = [] }: StepBatch): boolean {
  let numKeys = 0;
  for (let s = 0; s < sequences.length; s++) numKeys += kvLengths[s]!;
  return numKeys === numTokens && embeddings.length === 0;
}

/** Indices of the packed tokens whose rows are wanted. */
function rowsToSample(batch: StepBatch): number[] {
  return batch.sequences.flatMap((sequence, index) => {
    const { length } = rowsOf(sequence);
    const end = batch.queryStarts[index + 1]!;
    return Array.from({ length }, (_, row) => end - length + row);
  });
}

/** Where token ids enter: at the embedding's graph, or at the cut itself. */
function idsPort({ cut, embeddings }: PagedDecoderParts): TensorPort {
  if (embeddings === undefined) return cut.tokens;
  return { name: embeddings.idsName, dtype: "int64", shape: [1, "tokens"] };
}

/** The largest step. */
export function mostOf(
  { maxBatchTokens, maxSequences }: Pick<DecoderLimits, "maxBatchTokens" | "maxSequences">,
): AxisSizes {
  return { tokens: maxBatchTokens, rows: maxSequences };
}
