/**
 * The decoder of an encoder-decoder model, cut at its attentions: rows of any age share a step.
 *
 * Of Optimum's merged graph two are made: one projects the encoder's output to keys and values, once per input, and the
 * other is cut.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import { EncoderDecoderAttention } from "../../decoder/encoder_decoder_attention.ts";
import { openPagedDecoder } from "../../decoder/open_paged_decoder.ts";
import type { PagedDecoder } from "../../decoder/paged_decoder.ts";
import { appendInCacheDtype } from "../../onnx/cache_dtype.ts";
import { isCrossCache, presentName } from "../../onnx/cache_names.ts";
import { type CrossInputs, nameStepAttentions } from "../../onnx/step_attention.ts";
import type { FolderFiles } from "../../onnx/external_data.ts";
import type { AttentionSite, GraphCut } from "../../onnx/graph_cut.ts";
import { fuseSkipNorms } from "../../onnx/fuse_skip_norms.ts";
import { keepOutputs, takeBranch } from "../../onnx/if_branch.ts";
import type { Session, Tensor } from "../../onnx/ort.ts";
import type { Model } from "../../onnx/proto.ts";
import { splitGraph } from "../../onnx/split.ts";
import { swapHeadsAndTokens } from "../../onnx/swap_outputs.ts";
import { openChangedGraph } from "../changed_graph.ts";
import { type DecoderRow, stepOfRows } from "./row_step.ts";
import { TextAligner } from "./text_aligner.ts";

/** What it is made of. */
export interface DecoderGraphs {
  /** From `encoder_hidden_states` to `present.*.encoder.*`. */
  readonly project: Model;
  /** From `input_ids` and `past_key_values.*` to `logits`, one token after the other. */
  readonly step: Model;
}

/** How to open it. */
export interface CutDecoderOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** Most tokens of a row. */
  readonly contextLength: number;
  /** Places of the encoder's output. */
  readonly numPlaces: number;
  /** Most rows at a time; fewer where their keys and values take more than a GiB. */
  readonly maxRows: number;
  /** Most inputs that are encoded together. */
  readonly maxInputs: number;
}

/** Most tokens that a row may take in a step that all rows share: a prompt. */
export const MAX_ROW_TOKENS = 4;
/** Tokens that a step has room for however few rows there are: whole texts are aligned in it. */
const MIN_STEP_TOKENS = 16;

const BLOCK_SIZE = 16;
/** Memory for the keys and values of all rows, unless one needs more. */
const CACHE_BYTES = 2 ** 30;
const HIDDEN = "encoder_hidden_states";

interface Parts {
  readonly backend: Backend;
  readonly project: Session;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
  /** The projection's outputs, by the site in the cut that reads them. */
  readonly outputsOf: ReadonlyMap<number, CrossInputs>;
  readonly maxRows: number;
}

/** See the module. */
export class CutDecoder {
  readonly #parts: Parts;
  readonly #blocksPerRow: number;
  readonly #aligners: TextAligner[] = [];

  private constructor(parts: Parts) {
    const { contextLength, blockSize } = parts.decoder.limits;
    this.#parts = parts;
    this.#blocksPerRow = Math.ceil(contextLength / blockSize);
  }

  /**
   * Opens a decoder.
   *
   * @returns in one sentence why the graph is not cut, where it is not.
   * @throws {RangeError} when the kernels cannot run one of its attentions.
   */
  static async open(
    graphs: DecoderGraphs,
    options: CutDecoderOptions,
  ): Promise<CutDecoder | { readonly refused: string }> {
    const { backend, files } = options;
    const step = appendInCacheDtype(graphs.step);
    const { model, crossInputs } = nameStepAttentions(step, isCrossCache);
    if (crossInputs.size === 0) return { refused: "It has no attention to an encoder known here." };
    const { contextLength } = options;
    const result = splitGraph(fuseSkipNorms(model), { contextLength });
    if ("refused" in result) return result;
    const { cut } = result;
    const isCrossSite = ({ name }: AttentionSite) => crossInputs.has(name);
    const maxRows = Math.min(options.maxRows, rowsThatFit(cut, options, isCrossSite));
    const { decoder, attention } = await openCut(cut, { ...options, maxRows }, isCrossSite);
    const projection = swapHeadsAndTokens(graphs.project);
    const project = await openChangedGraph(projection, { files, backend });
    const outputsOf = new Map(cut.attentions.flatMap(({ name, layer }) => {
      const inputs = crossInputs.get(name);
      if (inputs === undefined) return [];
      return [[layer, { keys: presentName(inputs.keys), values: presentName(inputs.values) }]];
    }));
    return new CutDecoder({ backend, project, decoder, attention, outputsOf, maxRows });
  }

  /** Rows that have room at a time: slots 0 to this, exclusive. */
  get maxRows(): number {
    return this.#parts.maxRows;
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#parts.decoder.output.dtype as "float32" | "float16";
  }

  /**
   * Keeps what rows are to attend to.
   *
   * @param hidden the encoder's output, `[inputs, numPlaces, width]`; it is freed.
   * @param slots of each input.
   */
  async keep(hidden: Tensor, slots: readonly number[]): Promise<void> {
    const { project, attention, outputsOf } = this.#parts;
    const projected = await project.run({ [HIDDEN]: hidden });
    hidden.dispose();
    for (const [site, { keys, values }] of outputsOf) {
      attention.keep(site, { keys: projected[keys]!, values: projected[values]! }, slots);
    }
    for (const tensor of Object.values(projected)) tensor.dispose();
  }

  /** Runs the tokens of some rows. @returns the logits after each row's last, `[1, rows, vocabSize]`, good until the next step. */
  async step(rows: readonly DecoderRow[]): Promise<Tensor> {
    return (await this.#parts.decoder.forward(stepOfRows(rows, this.#blocksPerRow)))!;
  }

  /** What tells how texts lie along what their rows attend to, by where these heads look. It is freed with the decoder. */
  openAligner(sites: readonly SiteHeads[]): TextAligner {
    const { backend, decoder, attention } = this.#parts;
    const blocksPerRow = this.#blocksPerRow;
    const aligner = new TextAligner({ backend, decoder, attention, sites, blocksPerRow });
    this.#aligners.push(aligner);
    return aligner;
  }

  /** Frees all of it. */
  async release(): Promise<void> {
    for (const aligner of this.#aligners) aligner.dispose();
    await this.#parts.project.release();
    await this.#parts.decoder.dispose();
  }
}

/** Rows whose keys and values memory has room for, at least one. */
function rowsThatFit(
  cut: GraphCut,
  { backend, contextLength, numPlaces }: CutDecoderOptions,
  isCross: (site: AttentionSite) => boolean,
): number {
  const perSite = cut.attentions.map((site) => {
    const elementBytes = site.dtype === "float16" && backend.kind === "webgpu" ? 2 : 4;
    const numKeys = isCross(site) ? numPlaces : contextLength;
    return Math.ceil(numKeys / BLOCK_SIZE) * BLOCK_SIZE * site.kvHeads * site.headDim *
      elementBytes;
  });
  const perRow = 2 * perSite.reduce((sum, bytes) => sum + bytes, 0);
  const fitting = Math.min(CACHE_BYTES / perRow, backend.maxBufferBytes / Math.max(...perSite));
  return Math.max(1, Math.floor(fitting));
}

async function openCut(
  cut: GraphCut,
  options: CutDecoderOptions,
  isCross: (site: AttentionSite) => boolean,
): Promise<{ decoder: PagedDecoder; attention: EncoderDecoderAttention }> {
  const { backend, files, numPlaces, maxRows, maxInputs } = options;
  const contextLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  let attention: EncoderDecoderAttention;
  const decoder = await openPagedDecoder({
    backend,
    cut,
    files,
    limits: {
      contextLength,
      vocabSize: cut.output.width,
      maxSequences: maxRows,
      maxBatchTokens: Math.max(maxRows * MAX_ROW_TOKENS, MIN_STEP_TOKENS),
      numBlocks: maxRows * Math.ceil(contextLength / BLOCK_SIZE),
      blockSize: BLOCK_SIZE,
      sharesBlocks: false,
    },
    openAttention: (own) =>
      attention = new EncoderDecoderAttention({ ...own, backend, isCross, numPlaces, maxInputs }),
    openEmbedding: () => Promise.reject(new Error("The graph takes embeddings.")),
    onProgress: () => {},
  });
  return { decoder, attention: attention! };
}

/** The two graphs of a merged decoder; `undefined` where it is not merged of two. */
export function divideMerged(merged: Model): DecoderGraphs | undefined {
  const project = takeBranch(merged, "else_branch");
  const step = takeBranch(merged, "then_branch");
  if (project === undefined || step === undefined) return undefined;
  const crossOutputs = project.graph.outputs.map(({ name }) => name).filter(isCrossCache);
  return { project: keepOutputs(project, crossOutputs), step: keepOutputs(step, ["logits"]) };
}
