/**
 * Encoders cut at their attention nodes. The texts of a batch follow each other on one axis of tokens, so none is
 * padded.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import type { PackedAttention } from "../../device/encoder_attention.ts";
import { selfBounds } from "../../../kernels/attention/packed_attention.ts";
import { openSegments, releaseSessions } from "../../decoder/open_segments.ts";
import {
  type AxisSizes,
  computeBytes,
  planStorage,
  resolveDims,
} from "../../decoder/activations.ts";
import { StepExecutor } from "../../decoder/step_executor.ts";
import { countPerRow, type EncoderCut, type TensorPort } from "../../graph/graph_cut.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { type GraphSession, Tensor } from "../../device/ort/ort.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";
import { fillTokens, MAX_TEXTS } from "./whole_encoders.ts";
import { fillPooling, findPickedToken, type PoolingMode } from "./pooling.ts";
import type { Encoder } from "./text_batcher.ts";

/** The result computed from each text's rows: the row of one token, or weighted sums of all rows. */
export type TextSummary =
  | { readonly kind: "token"; readonly which: "first" | "last" }
  | { readonly kind: "sums"; readonly modes: readonly PoolingMode[] };

/**
 * Determines the summary for a pooling. If no pooling is given, the graph itself reads the first token.
 *
 * @returns `undefined` for maximum pooling, which needs padded texts.
 */
export function toSummary(pooling: readonly PoolingMode[] = ["cls"]): TextSummary | undefined {
  if (pooling.includes("max")) return undefined;
  const which = findPickedToken(pooling);
  return which ? { kind: "token", which } : { kind: "sums", modes: pooling };
}

interface PackedEncoderOptions {
  readonly backend: Backend;
  readonly files: ModelFiles;
  /** The result per text. For `token`, `cut.answer` must gather rows; for `sums`, it must compute weighted sums. */
  readonly summary: TextSummary;
  /** Number of tokens of the longest text. */
  readonly longestText: number;
}

/** Memory for tensors passed between segments, unless one text needs more. */
const ACTIVATION_BYTES = 256 * 2 ** 20;
const MAX_TOKENS = 16_384;

/** An encoder that runs on packed batches. It owns the sessions, the attention kernel and the memory. */
export class PackedEncoder implements Encoder {
  readonly maxTexts = MAX_TEXTS;
  readonly maxTokens: number;
  readonly pads = false;
  readonly width: number;
  readonly #backend: Backend;
  readonly #cut: EncoderCut;
  readonly #summary: TextSummary;
  readonly #attention: PackedAttention;
  readonly #runner: StepExecutor<EncoderCut>;

  private constructor(
    cut: EncoderCut,
    { backend, summary, longestText }: PackedEncoderOptions,
    parts: {
      readonly sessions: readonly (GraphSession | undefined)[];
      readonly maxTokens: number;
    },
  ) {
    const { maxTokens, sessions } = parts;
    this.#backend = backend;
    this.#cut = cut;
    this.#summary = summary;
    this.maxTokens = Math.max(maxTokens, longestText);
    this.width = countPerRow(cut.output) * countRowsPerText(summary);
    const attention = backend.openPackedAttention({
      nodes: cut.attentions,
      maxRows: this.maxTokens,
      maxSequences: MAX_TEXTS,
    });
    this.#attention = attention;
    this.#runner = new StepExecutor({
      backend,
      cut,
      sessions,
      most: { tokens: this.maxTokens, rows: MAX_TEXTS * countRowsPerText(summary) },
      attend: ({ layer }, { tensors, output }) => attention.run(layer, tensors, output),
    });
  }

  /**
   * Opens the segments and runs a text to compile the kernels.
   *
   * @throws {RangeError} when the kernel cannot run one of the graph's attention nodes.
   * @throws {Error} with ONNX Runtime's message when it refuses a segment.
   */
  static async open(cut: EncoderCut, options: PackedEncoderOptions): Promise<PackedEncoder> {
    const { backend } = options;
    const { maxBufferBytes } = backend;
    // Opened and disposed of at once, so that an unsupported node fails before the weights are read.
    backend.openPackedAttention({ nodes: cut.attentions, maxRows: 1, maxSequences: 1 }).dispose();
    const { chunks } = planStorage(cut, (port) => computeBytes(port, { tokens: 1, rows: 1 }));
    const perToken = chunks.reduce((sum, bytes) => sum + bytes, 0);
    const fitting = Math.min(ACTIVATION_BYTES / perToken, maxBufferBytes / Math.max(...chunks));
    const maxTokens = Math.min(MAX_TOKENS, Math.floor(fitting));
    const sessions = await openSegments(cut, options);
    let encoder: PackedEncoder | undefined;
    try {
      encoder = new PackedEncoder(cut, options, { sessions, maxTokens });
      await encoder.run([{ ids: [0, 0] }]);
      return encoder;
    } catch (error) {
      if (encoder) await encoder.dispose();
      else await releaseSessions(sessions);
      throw error;
    }
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const lengths = texts.map(({ ids }) => ids.length);
    const sizes = {
      tokens: lengths.reduce((sum, length) => sum + length, 0),
      rows: texts.length * countRowsPerText(this.#summary),
    };
    const tensors = this.#inputs(texts, sizes);
    this.#attention.begin(selfBounds(lengths));
    await this.#runner.run(tensors, sizes);
    return await this.#backend.read(tensors.get(this.#cut.output.name)!);
  }

  async dispose(): Promise<void> {
    this.#attention.dispose();
    await this.#runner.dispose();
  }

  #inputs(texts: readonly EncodedText[], sizes: AxisSizes): Map<string, Tensor> {
    const { tokens, positions, uncountedId, types, answer } = this.#cut;
    const tensors = new Map<string, Tensor>();
    const fill = (
      port: TensorPort | undefined,
      fillText: (text: EncodedText, row: BigInt64Array) => void,
    ) => {
      if (port === undefined) return;
      const values = new BigInt64Array(sizes.tokens);
      forEachText(texts, (text, start, end) => fillText(text, values.subarray(start, end)));
      tensors.set(port.name, new Tensor("int64", values, resolveDims(port, sizes)));
    };
    fill(tokens, (text, row) => fillTokens("input_ids", text, row));
    fill(types, (text, row) => fillTokens("token_type_ids", text, row));
    fill(positions, ({ ids }, row) => fillPositions(ids, row, uncountedId));
    tensors.set(answer.input.name, this.#answerInput(texts, sizes));
    return tensors;
  }

  #answerInput(texts: readonly EncodedText[], sizes: AxisSizes): Tensor {
    const { input } = this.#cut.answer;
    const dims = resolveDims(input, sizes);
    if (this.#summary.kind === "token") {
      const { which } = this.#summary;
      const rows = new BigInt64Array(texts.length);
      forEachText(texts, (_, start, end, index) => {
        rows[index] = BigInt(which === "first" ? start : end - 1);
      });
      return new Tensor("int64", rows, dims);
    }
    const { modes } = this.#summary;
    const weights = new Float32Array(sizes.rows * sizes.tokens);
    forEachText(texts, ({ countsFrom }, start, end, index) => {
      const own = new Float32Array(modes.length * (end - start));
      fillPooling(modes, own, { numTokens: end - start, from: countsFrom });
      modes.forEach((_, mode) => {
        const row = index * modes.length + mode;
        weights.set(
          own.subarray(mode * (end - start), (mode + 1) * (end - start)),
          row * sizes.tokens + start,
        );
      });
    });
    return new Tensor("float32", weights, dims);
  }
}

/** Fills in the position of each token in its text. Tokens with `uncountedId` are not counted. */
function fillPositions(
  ids: readonly number[],
  row: BigInt64Array,
  uncountedId: number | undefined,
): void {
  let position = -1n;
  ids.forEach((id, token) => row[token] = id === uncountedId ? position : ++position);
}

/** Calls `visit` with each text and its range of tokens. */
function forEachText(
  texts: readonly EncodedText[],
  visit: (text: EncodedText, start: number, end: number, index: number) => void,
): void {
  let start = 0;
  texts.forEach((text, index) => visit(text, start, start += text.ids.length, index));
}

function countRowsPerText(summary: TextSummary): number {
  return summary.kind === "token" ? 1 : summary.modes.length;
}
