/**
 * The input of a decoder that takes embeddings: those of token ids, and for placeholders an encoder's output.
 *
 * @module
 */
import type { Backend, Storage } from "../backend/backend.ts";
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../onnx/ort.ts";
import { type EmbeddingSpan, EncoderError } from "./embedding_span.ts";

/** Packed tokens to embed. */
export interface TokensToEmbed {
  /** int64 `[1, tokens]`. */
  readonly ids: Tensor;
  /** Spans among them; their first token is relative to these ids. */
  readonly spans: readonly EmbeddingSpan[];
}

/** How to open. */
export interface TokenEmbeddingsOptions {
  readonly backend: Backend;
  /** Token ids to embeddings; owned from here on. */
  readonly session: GraphSession;
  /** Device memory for the embeddings of the largest step; allocated step by step if absent. */
  readonly storage?: Storage | undefined;
  /** The graph's outputs to compute, embeddings first; those alone if absent. */
  readonly outputs?: readonly string[] | undefined;
}

export class TokenEmbeddings {
  readonly #options: TokenEmbeddingsOptions;
  /** Of the embeddings. */
  readonly #output: ValueInfo;
  readonly #fetches: Readonly<Record<string, null>>;

  constructor(options: TokenEmbeddingsOptions) {
    const { session, outputs = [session.outputs[0]!.name] } = options;
    this.#options = options;
    this.#output = session.outputs.find(({ name }) => name === outputs[0])!;
    this.#fetches = Object.fromEntries(outputs.map((name) => [name, null]));
  }

  /** The name of the graph's input for token ids. */
  get idsName(): string {
    return this.#options.session.inputs[0]!.name;
  }

  /** Names of the outputs that are computed, embeddings first. */
  get outputs(): readonly string[] {
    return Object.keys(this.#fetches);
  }

  /**
   * Embeds tokens.
   *
   * @param dims of the embeddings, where they go to the storage.
   * @returns the outputs by name; the caller disposes of those that are not in the storage.
   * @throws {EncoderError} when a span's rows cannot be made.
   */
  async embed({ ids, spans }: TokensToEmbed, dims?: readonly number[]): Promise<Tensors> {
    const { session, storage } = this.#options;
    const { name, type } = this.#output;
    const output = dims && storage?.tensor(type as "float32" | "float16", dims);
    const fetches = output ? { ...this.#fetches, [name]: output } : this.#fetches;
    const outputs = await session.run({ [this.idsName]: ids }, fetches);
    for (const span of spans) await this.#insert(span, outputs[name]!);
    return outputs;
  }

  async dispose(): Promise<void> {
    this.#options.storage?.dispose();
    await this.#options.session.release();
  }

  async #insert(span: EmbeddingSpan, embeddings: Tensor): Promise<void> {
    let rows: Tensor;
    try {
      rows = await span.source.rows();
    } catch (error) {
      throw new EncoderError([span.sequenceId], error);
    }
    this.#options.backend.copyRows(rows, embeddings, {
      fromRow: span.firstRow,
      toRow: span.firstToken,
      numRows: span.numTokens,
    });
  }
}

/** The tokens `start` to `end` of some, and their spans counted from `start`. */
export function sliceTokens(
  { ids, spans }: { readonly ids: Int32Array; readonly spans: readonly EmbeddingSpan[] },
  start: number,
  end: number,
): TokensToEmbed {
  const values = BigInt64Array.from(ids.subarray(start, end), BigInt);
  return {
    ids: new Tensor("int64", values, [1, values.length]),
    spans: spans.flatMap((span) => {
      const from = Math.max(start, span.firstToken);
      const to = Math.min(end, span.firstToken + span.numTokens);
      if (from >= to) return [];
      const firstRow = span.firstRow + from - span.firstToken;
      return [{ ...span, firstToken: from - start, numTokens: to - from, firstRow }];
    }),
  };
}
