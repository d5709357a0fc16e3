/**
 * The input of a decoder that takes embeddings: those of token ids, and for placeholders an encoder's output.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../device/ort/ort.ts";
import { type EmbeddingSpan, EncoderError } from "./embedding_span.ts";

/** Packed tokens to embed. */
interface TokensToEmbed {
  /** int64 `[1, tokens]`. */
  readonly ids: Tensor;
  /** Spans among them; their first token is relative to these ids. */
  readonly spans: readonly EmbeddingSpan[];
  /** i32 `[tokens]`: positions in their completions, for graphs that take them; below 1 in prompts. */
  readonly completionPositions?: Int32Array | undefined;
}

/** The input of graphs whose embeddings depend on where in its completion a token is. */
const POSITIONS = "position_ids";

/** How to open. */
interface TokenEmbeddingsOptions {
  readonly backend: Backend;
  /** Token ids to embeddings; owned from here on. */
  readonly session: GraphSession;
  /** The graph's outputs to compute, embeddings first; those alone if absent. */
  readonly outputs?: readonly string[] | undefined;
  /** Device memory for outputs of the largest step, by their names; allocated step by step where absent. */
  readonly storages?: ReadonlyMap<string, Storage> | undefined;
  /** The same of the largest step of next tokens alone. */
  readonly storagesOfDecoding?: ReadonlyMap<string, Storage> | undefined;
}

export class TokenEmbeddings {
  readonly #options: TokenEmbeddingsOptions;
  /** Types and shapes of the outputs that are computed, embeddings first. */
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

  /** Names of the outputs that are computed, embeddings first. */
  get outputs(): readonly string[] {
    return this.#outputs.map(({ name }) => name);
  }

  /**
   * Embeds tokens.
   *
   * @param options.dims of outputs that go to their storages, by name.
   * @param options.isDecoding whether they go to those of next tokens.
   * @returns the outputs by name; the caller disposes of those that are not in a storage.
   * @throws {EncoderError} when a span's rows cannot be made.
   */
  async embed(
    tokens: TokensToEmbed,
    { dims, isDecoding = false }: {
      readonly dims?: ReadonlyMap<string, readonly number[]>;
      readonly isDecoding?: boolean;
    } = {},
  ): Promise<Tensors> {
    const { ids, spans } = tokens;
    const { session, storages, storagesOfDecoding } = this.#options;
    const fetches: Record<string, Tensor | null> = {};
    for (const { name, type } of this.#outputs) {
      const size = dims?.get(name);
      const storage = size && (isDecoding ? storagesOfDecoding : storages)?.get(name);
      fetches[name] = storage?.tensor(type as "float32" | "float16", size!) ?? null;
    }
    const positions = this.#takesPositions ? { [POSITIONS]: makePositions(tokens) } : {};
    const outputs = await session.run({ [this.idsName]: ids, ...positions }, fetches);
    for (const span of spans) await this.#insert(span, outputs[this.outputs[0]!]!);
    return outputs;
  }

  async dispose(): Promise<void> {
    const { storages, storagesOfDecoding } = this.#options;
    for (const each of [storages, storagesOfDecoding]) {
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

/** What stands for tokens of a prompt, which have no position in a completion, gets the first. */
function makePositions({ ids, completionPositions }: TokensToEmbed): Tensor {
  const values = BigInt64Array.from(
    { length: ids.size },
    (_, token) => BigInt(Math.max(0, completionPositions?.[token] ?? 0)),
  );
  return new Tensor("int64", values, ids.dims);
}

/** The tokens `start` to `end` of some, and their spans counted from `start`. */
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
