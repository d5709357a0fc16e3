/**
 * The cut decoder: ONNX Runtime runs the segments of the graph, our kernels the attention between them, over a
 * paged KV cache that all sequences share.
 *
 * @module
 */
import type { Backend, PagedAttention, Sampler, Storage } from "../backend/backend.ts";
import type { AttentionSite, GraphCut, Segment, TensorPort } from "../onnx/graph_cut.ts";
import type { Session, Tensor, Tensors } from "../onnx/ort.ts";
import type { Decoder, DecoderLimits, SampledToken, StepBatch } from "./decoder.ts";
import { StepInputs } from "./step_inputs.ts";
import type { TokenEmbeddings } from "./token_embeddings.ts";
import { planStorage, type StoragePlan } from "./storage_plan.ts";

/** A segment of a cut and the session that runs it. */
export interface OpenSegment {
  readonly segment: Segment;
  readonly session: Session;
}

/** What a paged decoder is made of. It owns all of it. */
export interface PagedDecoderParts {
  readonly backend: Backend;
  readonly cut: GraphCut;
  /** For a cut that begins with embeddings. */
  readonly embeddings?: TokenEmbeddings | undefined;
  readonly segments: readonly OpenSegment[];
  readonly attention: PagedAttention;
  readonly limits: DecoderLimits;
}

/** See the module. */
export class PagedDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly #parts: PagedDecoderParts;
  readonly #plan: StoragePlan;
  readonly #pieces: readonly (Storage | undefined)[];
  readonly #inputs: StepInputs;
  readonly #sampler: Sampler;
  /** The attention sites that run after each segment. */
  readonly #sitesAfter: readonly (readonly AttentionSite[])[];

  constructor(parts: PagedDecoderParts) {
    const { backend, cut, segments, limits } = parts;
    this.#parts = parts;
    this.limits = limits;
    this.#plan = planStorage(cut, (port) => bytesOfPort(port, limits));
    this.#pieces = this.#plan.pieces.map((numBytes) => backend.allocate(numBytes));
    this.#inputs = new StepInputs(backend, { ...cut, tokens: idsPort(parts) }, limits);
    this.#sampler = backend.openSampler({
      vocabSize: limits.vocabSize,
      dtype: cut.output.dtype as "float32" | "float16",
      maxRows: limits.maxSequences,
    });
    this.#sitesAfter = segments.map(({ segment }) =>
      cut.attentions.filter(({ afterSegment }) => afterSegment === segment.index)
    );
  }

  /** What {@linkcode forward} gives rows of. */
  get output(): GraphCut["output"] {
    return this.#parts.cut.output;
  }

  async run(batch: StepBatch): Promise<SampledToken[]> {
    const logits = await this.forward(batch);
    if (logits === undefined) return [];
    const samples = batch.sequences.flatMap(({ sample }) => sample ?? []);
    return await this.#sampler.sample(logits, samples);
  }

  /**
   * Runs the step without sampling.
   *
   * @returns the last row of each sequence that asks for a token, `[1, rows, width]`, good until the next step;
   * `undefined` when none asks.
   */
  async forward(batch: StepBatch): Promise<Tensor | undefined> {
    const { cut, segments, attention } = this.#parts;
    const rows = rowsToSample(batch);
    const sizes = { tokens: batch.numTokens, rows: rows.length };
    const tensors = this.#inputs.write(batch, rows);
    await this.#embed(tensors, batch);
    attention.begin(batch);
    // Where no sequence has come to its last token, the keys and values are all that is wanted.
    const wanted = rows.length > 0 ? segments : segments.slice(0, -1);
    for (const { segment, session } of wanted) {
      await this.#runSegment(segment, session, tensors, sizes);
      for (const site of this.#sitesAfter[segment.index]!) {
        const output = this.#place(site.output, sizes);
        tensors.set(site.output.name, attention.run(site.layer, tensors, output));
      }
    }
    return rows.length > 0 ? tensors.get(cut.output.name)! : undefined;
  }

  async dispose(): Promise<void> {
    for (const piece of this.#pieces) piece?.dispose();
    this.#inputs.dispose();
    this.#sampler.dispose();
    this.#parts.attention.dispose();
    await this.#parts.embeddings?.dispose();
    for (const { session } of this.#parts.segments) await session.release();
  }

  async #embed(tensors: Map<string, Tensor>, batch: StepBatch): Promise<void> {
    const { cut, embeddings } = this.#parts;
    if (embeddings === undefined) return;
    const tokens = { ids: tensors.get(embeddings.idsName)!, spans: batch.embeddings ?? [] };
    const dims = dimsOf(cut.tokens, { tokens: batch.numTokens, rows: 0 });
    const outputs = await embeddings.embed(tokens, dims);
    tensors.set(cut.tokens.name, Object.values(outputs)[0]!);
  }

  async #runSegment(
    segment: Segment,
    session: Session,
    tensors: Map<string, Tensor>,
    sizes: Sizes,
  ): Promise<void> {
    const feeds = Object.fromEntries(segment.inputs.map(({ name }) => [name, tensors.get(name)!]));
    const outputs = await session.run(feeds, this.#places(segment, sizes));
    for (const [name, tensor] of Object.entries(outputs)) tensors.set(name, tensor);
  }

  #places(segment: Segment, sizes: Sizes): Tensors | undefined {
    const places: Record<string, Tensor> = {};
    for (const port of segment.outputs) {
      const place = this.#place(port, sizes);
      if (place === undefined) return undefined;
      places[port.name] = place;
    }
    return places;
  }

  #place(port: TensorPort, sizes: Sizes): Tensor | undefined {
    const piece = this.#pieces[this.#plan.pieceOf.get(port.name)!];
    return piece && tensorAt(piece, port, sizes);
  }
}

interface Sizes {
  readonly tokens: number;
  readonly rows: number;
}

/** Index of the last packed token of each sequence that asks for a token. */
function rowsToSample(batch: StepBatch): number[] {
  return batch.sequences.flatMap(({ sample }, sequence) =>
    sample === undefined ? [] : [batch.queryStarts[sequence + 1]! - 1]
  );
}

/** Where token ids enter: at the embedding's graph, or at the cut itself. */
function idsPort({ cut, embeddings }: PagedDecoderParts): TensorPort {
  if (embeddings === undefined) return cut.tokens;
  return { name: embeddings.idsName, dtype: "int64", shape: [1, "tokens"] };
}

function tensorAt(storage: Storage, port: TensorPort, sizes: Sizes): Tensor {
  return storage.tensor(port.dtype as "float32" | "float16", dimsOf(port, sizes));
}

function dimsOf({ shape }: TensorPort, sizes: Sizes): number[] {
  return shape.map((dim) => typeof dim === "number" ? dim : sizes[dim]);
}

/** Most bytes that a tensor takes. */
export function bytesOfPort(port: TensorPort, limits: DecoderLimits): number {
  const sizes = { tokens: limits.maxBatchTokens, rows: limits.maxSequences };
  const count = dimsOf(port, sizes).reduce((product, size) => product * size, 1);
  return count * (port.dtype === "float16" ? 2 : 4);
}
