/**
 * The encoder of a speech model, cut at its attentions where its graph allows it.
 *
 * @module
 */
import { selfBounds } from "../../../kernels/packed_bounds.ts";
import type { Backend, Storage } from "../../backend/backend.ts";
import type { PackedAttention } from "../../backend/packed_attention.ts";
import { planStorage, type StoragePlan } from "../../decoder/storage_plan.ts";
import type { EncoderSite } from "../../onnx/encoder_cut.ts";
import type { FolderFiles } from "../../onnx/external_data.ts";
import type { Segment, TensorPort } from "../../onnx/graph_cut.ts";
import type { Session, Tensor, ValueInfo } from "../../onnx/ort.ts";
import type { Model } from "../../onnx/proto.ts";
import { loadSegments } from "../../onnx/segment_loader.ts";
import { type FeatureCut, splitFeatures } from "../../onnx/split_features.ts";
import { openChangedGraph } from "../changed_graph.ts";

/** Turns features into what a decoder attends to. */
export interface FeatureEncoder {
  /** Most inputs in one call. */
  readonly maxInputs: number;
  readonly inputs: readonly ValueInfo[];
  /**
   * Encodes inputs of one size.
   *
   * @param features `[inputs, …]`.
   * @returns `[inputs, tokens, width]`, the caller's.
   */
  encode(features: Tensor): Promise<Tensor>;
  release(): Promise<void>;
}

/** How to open one. */
export interface FeatureEncoderOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  readonly input: string;
  readonly output: string;
  /** Most inputs that are ever encoded together. */
  readonly maxInputs: number;
  /** Most inputs of a graph that is not cut, since its scores take memory. */
  readonly maxWholeInputs: number;
}

/** Beyond this many inputs a device gets no faster, and those that arrive later wait longer. */
const MAX_INPUTS = 16;
/** Memory for what crosses between segments, unless one input needs more. */
const ACTIVATION_BYTES = 2 ** 28;

/** @throws {Error} with ONNX Runtime's message when it refuses the graph. */
export async function openFeatureEncoder(
  model: Model,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  const cut = splitFeatures(model, options.output);
  if (cut !== undefined) {
    try {
      return await CutFeatureEncoder.open(cut, options);
    } catch (error) {
      // Heads that the kernel cannot run.
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const { input, output, maxInputs, maxWholeInputs } = options;
  const session = await openChangedGraph(model, options);
  return {
    maxInputs: Math.min(maxInputs, MAX_INPUTS, maxWholeInputs),
    inputs: session.inputs,
    encode: async (features) => (await session.run({ [input]: features }))[output]!,
    release: () => session.release(),
  };
}

class CutFeatureEncoder implements FeatureEncoder {
  readonly maxInputs: number;
  readonly inputs: readonly ValueInfo[];
  readonly #cut: FeatureCut;
  readonly #input: string;
  readonly #attention: PackedAttention;
  readonly #plan: StoragePlan;
  readonly #pieces: readonly (Storage | undefined)[];
  readonly #sessions: readonly Session[];
  readonly #sitesAfter: readonly (readonly EncoderSite[])[];

  private constructor(
    cut: FeatureCut,
    { backend, input, maxInputs }: FeatureEncoderOptions,
    parts: { readonly sessions: readonly Session[]; readonly attention: PackedAttention },
  ) {
    const { sessions, attention } = parts;
    this.#cut = cut;
    this.#input = input;
    this.#sessions = sessions;
    this.#attention = attention;
    this.maxInputs = maxInputs;
    this.inputs = sessions[0]!.inputs;
    this.#plan = planStorage(cut, (port) => bytesPerInput(port) * maxInputs);
    this.#pieces = this.#plan.pieces.map((bytes) => backend.allocate(bytes));
    this.#sitesAfter = cut.segments.map(({ index }) =>
      cut.attentions.filter(({ afterSegment }) => afterSegment === index)
    );
  }

  /** @throws {RangeError} when the kernel cannot run one of the cut's attentions. */
  static async open(cut: FeatureCut, options: FeatureEncoderOptions): Promise<CutFeatureEncoder> {
    const { backend, files } = options;
    const { pieces } = planStorage(cut, bytesPerInput);
    const perInput = pieces.reduce((sum, bytes) => sum + bytes, 0);
    const fitting = Math.min(
      ACTIVATION_BYTES / perInput,
      backend.maxBufferBytes / Math.max(...pieces),
    );
    const maxInputs = Math.max(1, Math.min(options.maxInputs, MAX_INPUTS, Math.floor(fitting)));
    const attention = backend.openPackedAttention({
      sites: cut.attentions,
      maxRows: maxInputs * cut.numTokens,
      maxSequences: maxInputs,
    });
    const sessions: Session[] = [];
    try {
      for await (const { segment, externalData } of loadSegments(cut, files)) {
        sessions.push(await backend.openSession(segment.model, externalData));
      }
    } catch (error) {
      for (const session of sessions) await session.release();
      attention.dispose();
      throw error;
    }
    return new CutFeatureEncoder(cut, { ...options, maxInputs }, { sessions, attention });
  }

  async encode(features: Tensor): Promise<Tensor> {
    const { segments, numTokens, output } = this.#cut;
    const numInputs = features.dims[0]!;
    const tensors = new Map([[this.#input, features]]);
    this.#attention.begin(selfBounds(new Array(numInputs).fill(numTokens)));
    for (const segment of segments) {
      await this.#runSegment(segment, tensors, numInputs);
      for (const site of this.#sitesAfter[segment.index]!) {
        const place = this.#place(site.output, numInputs);
        const rows = this.#attention.run(site.layer, tensors, place);
        tensors.set(site.output.name, rows.reshape(dimsOf(site.output, numInputs)));
      }
    }
    return tensors.get(output.name)!;
  }

  async release(): Promise<void> {
    for (const piece of this.#pieces) piece?.dispose();
    this.#attention.dispose();
    for (const session of this.#sessions) await session.release();
  }

  async #runSegment(
    { index, inputs, outputs }: Segment,
    tensors: Map<string, Tensor>,
    numInputs: number,
  ): Promise<void> {
    const feeds = Object.fromEntries(inputs.map(({ name }) => [name, tensors.get(name)!]));
    const places = outputs.map((port) =>
      [port.name, this.#place(port, numInputs) ?? null] as const
    );
    const results = await this.#sessions[index]!.run(feeds, Object.fromEntries(places));
    for (const [name, tensor] of Object.entries(results)) tensors.set(name, tensor);
  }

  /** Where a tensor goes; the result, which is the caller's, nowhere in particular. */
  #place(port: TensorPort, numInputs: number): Tensor | undefined {
    if (port.name === this.#cut.output.name) return undefined;
    const piece = this.#pieces[this.#plan.pieceOf.get(port.name)!];
    return piece?.tensor(port.dtype as "float32" | "float16", dimsOf(port, numInputs));
  }
}

function dimsOf({ shape }: TensorPort, numInputs: number): number[] {
  const [, ...sizes] = shape as [string, ...number[]];
  return [numInputs, ...sizes];
}

function bytesPerInput(port: TensorPort): number {
  const elementBytes = port.dtype === "float16" ? 2 : 4;
  return dimsOf(port, 1).reduce((product, size) => product * size, elementBytes);
}
