/**
 * Static embeddings (model2vec, potion): a text's vector is the mean of its tokens' rows in a table. The graph computes
 * it as PyTorch's EmbeddingBag does: its inputs are the tokens of all texts one after the other, and the offset at
 * which each text begins.
 *
 * @see https://github.com/MinishLab/model2vec
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import type { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import { requireKnownInputs } from "../folder/graph_file.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";
import { MAX_TEXTS } from "./padded_encoder.ts";
import { POOLED_OUTPUT } from "./pooling.ts";
import type { Encoder } from "./text_batcher.ts";

const TOKENS = "input_ids";
const OFFSETS = "offsets";

/** Most tokens of a batch, and of a text: the graph gathers a row for each. */
export const MAX_BAG_TOKENS = 65_536;

/** Names of the output that has one row per text. */
export const BAG_OUTPUTS = ["embeddings", "sentence_embedding"];

/** Whether a graph takes texts in this layout. */
export function isBagGraph({ graph }: ModelProto): boolean {
  return graph.inputs.some(({ name }) => name === OFFSETS);
}

/** Runs batches of texts. It owns the session. */
export class BagEncoder implements Encoder {
  readonly maxTexts = MAX_TEXTS;
  readonly maxTokens = MAX_BAG_TOKENS;
  readonly pads = false;
  readonly width: number;
  readonly #backend: Backend;
  readonly #session: GraphSession;

  private constructor(backend: Backend, session: GraphSession, width: number) {
    this.#backend = backend;
    this.#session = session;
    this.width = width;
  }

  /**
   * Opens a graph with {@linkcode POOLED_OUTPUT}, and runs it once, which tells the width of its rows.
   *
   * @throws {StartupError} when the graph has unknown inputs.
   */
  static async open(
    graph: ModelProto,
    { backend, files }: { readonly backend: Backend; readonly files: FolderFiles },
  ): Promise<BagEncoder> {
    const session = await backend.openModel(graph, files, { keepsMemory: false });
    requireKnownInputs(session, {
      isKnown: (name) => name === TOKENS || name === OFFSETS,
      of: "The graph",
    });
    const rows = (await session.run(makeFeeds([{ ids: [0] }])))[POOLED_OUTPUT]!;
    const width = rows.dims.at(-1)!;
    rows.dispose();
    return new BagEncoder(backend, session, width);
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const rows = (await this.#session.run(makeFeeds(texts)))[POOLED_OUTPUT]!;
    try {
      return await this.#backend.read(rows);
    } finally {
      rows.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#session.release();
  }
}

function makeFeeds(texts: readonly EncodedText[]): Record<string, Tensor> {
  const ids = texts.flatMap((text) => text.ids);
  const offsets = new BigInt64Array(texts.length);
  let start = 0;
  texts.forEach((text, index) => {
    offsets[index] = BigInt(start);
    start += text.ids.length;
  });
  return {
    [TOKENS]: new Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]),
    [OFFSETS]: new Tensor("int64", offsets, [texts.length]),
  };
}
