/**
 * The encoder of a speech model, cut at its attentions where its graph allows it.
 *
 * @module
 */
import { selfBounds } from "../../../kernels/packed_bounds.ts";
import type { Backend } from "../../backend/backend.ts";
import type { PackedAttention } from "../../backend/packed_attention.ts";
import { openSegments } from "../../decoder/open_segments.ts";
import { type AxisSizes, bytesOf, dimsOf, SegmentRunner } from "../../decoder/segment_runner.ts";
import { planStorage } from "../../decoder/storage_plan.ts";
import type { FolderFiles } from "../../onnx/file/external_data.ts";
import type { GraphSession, Tensor, ValueInfo } from "../../onnx/runtime/ort.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import { fuseAttention } from "../../onnx/rewrite/fuse_attention.ts";
import { type FeatureCut, splitFeatures } from "../../onnx/cut/split_features.ts";

/** Encodes features for a decoder. */
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
  /** Most inputs encoded together. */
  readonly maxInputs: number;
  /** Most inputs of a graph that is not cut, since its scores take memory. */
  readonly maxWholeInputs: number;
}

/** Larger batches are no faster per input, and make later inputs wait longer. */
const MAX_INPUTS = 16;
/** Memory for what crosses between segments, unless one input needs more. */
const ACTIVATION_BYTES = 2 ** 28;

/** @throws {Error} with ONNX Runtime's message when it refuses the graph. */
export async function openFeatureEncoder(
  model: ModelProto,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  // ONNX Runtime's own attention has wider vectors than ours: the whole graph took 0.9 CPU seconds, the cut one 2.5.
  const isCut = options.backend.runtime !== "native";
  const cut = isCut ? splitFeatures(model, options.output) : undefined;
  if (cut !== undefined) {
    try {
      return await CutFeatureEncoder.open(cut, options);
    } catch (error) {
      // Heads that the kernel cannot run.
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const { input, output, maxInputs, maxWholeInputs } = options;
  const whole = isCut ? model : fuseAttention(model);
  const session = await options.backend.openModel(whole, options.files);
  return {
    // One input keeps all cores busy; batches only take more memory.
    maxInputs: isCut ? Math.min(maxInputs, MAX_INPUTS, maxWholeInputs) : 1,
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
  readonly #runner: SegmentRunner<FeatureCut>;

  private constructor(
    cut: FeatureCut,
    { backend, input, maxInputs }: FeatureEncoderOptions,
    { sessions, attention }: {
      readonly sessions: readonly GraphSession[];
      readonly attention: PackedAttention;
    },
  ) {
    this.#cut = cut;
    this.#input = input;
    this.#attention = attention;
    this.maxInputs = maxInputs;
    this.inputs = sessions[0]!.inputs;
    this.#runner = new SegmentRunner({
      backend,
      cut,
      sessions,
      most: sizesOf(maxInputs),
      attend: ({ layer, output }, { tensors, output: into, sizes }) =>
        attention.run(layer, tensors, into).reshape(dimsOf(output, sizes)),
      callerOwnsOutput: true,
    });
  }

  /** @throws {RangeError} when the kernel cannot run one of the cut's attentions. */
  static async open(cut: FeatureCut, options: FeatureEncoderOptions): Promise<CutFeatureEncoder> {
    const { backend } = options;
    const { pieces } = planStorage(cut, (port) => bytesOf(port, sizesOf(1)));
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
    const sessions = await openSegments(cut, options).catch((error) => {
      attention.dispose();
      throw error;
    });
    return new CutFeatureEncoder(cut, { ...options, maxInputs }, { sessions, attention });
  }

  async encode(features: Tensor): Promise<Tensor> {
    const { numTokens, output } = this.#cut;
    const numInputs = features.dims[0]!;
    const tensors = new Map([[this.#input, features]]);
    this.#attention.begin(selfBounds(new Array(numInputs).fill(numTokens)));
    await this.#runner.run(tensors, sizesOf(numInputs));
    return tensors.get(output.name)!;
  }

  async release(): Promise<void> {
    this.#attention.dispose();
    await this.#runner.dispose();
  }
}

/** All shapes count inputs. */
function sizesOf(numInputs: number): AxisSizes {
  return { tokens: 0, rows: numInputs };
}
