/**
 * The input of a decoder that takes embeddings: the embeddings of token ids, and for placeholder tokens the output of
 * an encoder.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../device/ort/ort.ts";
import { type EmbeddingSpan, EncoderError } from "./decoder.ts";

/** Packed tokens to embed. */
interface TokensToEmbed {
  /** Token ids: int64 `[1, tokens]`. */
  readonly ids: Tensor;
  /** Spans among the tokens. Their first tokens are indices into `ids`. */
  readonly spans: readonly EmbeddingSpan[];
  /** Positions of the tokens in their completions, for graphs that take them: i32 `[tokens]`; below 1 in prompts. */
  readonly completionPositions?: Int32Array | undefined;
}

/** Input of graphs whose embeddings depend on a token's position in its completion. */
const POSITIONS = "position_ids";

/** Options for opening the embeddings. */
interface TokenEmbeddingsOptions {
  readonly backend: Backend;
  /** The graph that turns token ids into embeddings. {@linkcode TokenEmbeddings} owns it. */
  readonly session: GraphSession;
  /** The outputs to compute, embeddings first; only the embeddings if absent. */
  readonly outputs?: readonly string[] | undefined;
  /** Device memory for the outputs of the largest step, by name; allocated at each step if absent. */
  readonly storages?: ReadonlyMap<string, Storage> | undefined;
  /** Device memory for the outputs of the largest decode step. */
  readonly decodingStorages?: ReadonlyMap<string, Storage> | undefined;
}

export class TokenEmbeddings {
  readonly #options: TokenEmbeddingsOptions;
  /** Types and shapes of the computed outputs, embeddings first. */
  readonly #outputs: readonly ValueInfo[];
  readonly #takesPositions: boolean;

  constructor(options: TokenEmbeddingsOptions) {
    const { session, outputs = [session.outputs[0]!.name] } = options;
    this.#options = options;
    this.#outputs = outputs.map((wanted) => session.outputs.find(({ name }) => name === wanted)!);
    this.#takesPositions = session.inputs.some(({ name }) => name === POSITIONS);
  }

  /** The name of the graph's input for token ids. */
  get idsName(): string {
    return this.#options.session.inputs[0]!.name;
  }

  /** Names of the computed outputs, embeddings first. */
  get outputs(): readonly string[] {
    return this.#outputs.map(({ name }) => name);
  }

  /**
   * Embeds tokens.
   *
   * @param options.dims dimensions of the outputs that go to device memory, by name.
   * @param options.isDecoding whether to use `decodingStorages` rather than `storages`.
   * @returns the outputs by name; the caller disposes of those that are not in one of these storages.
   * @throws {EncoderError} when a span's rows cannot be encoded.
   */
  async embed(
    tokens: TokensToEmbed,
    { dims, isDecoding = false }: {
      readonly dims?: ReadonlyMap<string, readonly number[]>;
      readonly isDecoding?: boolean;
    } = {},
  ): Promise<Tensors> {
    const { ids, spans } = tokens;
    const { session, storages, decodingStorages } = this.#options;
    const fetches: Record<string, Tensor | null> = {};
    for (const { name, type } of this.#outputs) {
      const size = dims?.get(name);
      const storage = size && (isDecoding ? decodingStorages : storages)?.get(name);
      fetches[name] = storage?.tensor(type as "float32" | "float16", size!) ?? null;
    }
    const positions = this.#takesPositions ? { [POSITIONS]: makePositions(tokens) } : {};
    const outputs = await session.run({ [this.idsName]: ids, ...positions }, fetches);
    for (const span of spans) await this.#insert(span, outputs[this.outputs[0]!]!);
    return outputs;
  }

  async dispose(): Promise<void> {
    const { storages, decodingStorages } = this.#options;
    for (const each of [storages, decodingStorages]) {
      for (const storage of each?.values() ?? []) storage.dispose();
    }
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

/** Positions of tokens in their completions, counted from 1; 0 for tokens of a prompt. */
function makePositions({ ids, completionPositions }: TokensToEmbed): Tensor {
  const values = BigInt64Array.from(
    { length: ids.size },
    (_, token) => BigInt(Math.max(0, completionPositions?.[token] ?? 0)),
  );
  return new Tensor("int64", values, ids.dims);
}

/** The tokens `start` to `end`, with spans relative to `start`. */
export function sliceTokens(
  { ids, spans, completionPositions }: Omit<TokensToEmbed, "ids"> & { readonly ids: Int32Array },
  start: number,
  end: number,
): TokensToEmbed {
  const values = BigInt64Array.from(ids.subarray(start, end), BigInt);
  return {
    ids: new Tensor("int64", values, [1, values.length]),
    completionPositions: completionPositions?.subarray(start, end),
    spans: spans.flatMap((span) => {
      const from = Math.max(start, span.firstToken);
      const to = Math.min(end, span.firstToken + span.numTokens);
      if (from >= to) return [];
      const firstRow = span.firstRow + from - span.firstToken;
      return [{ ...span, firstToken: from - start, numTokens: to - from, firstRow }];
    }),
  };
}
