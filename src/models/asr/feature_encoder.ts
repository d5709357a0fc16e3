/**
 * The encoder of a speech model, cut at its attentions where its graph allows it.
 *
 * @module
 */
import { selfBounds } from "../../../kernels/attention/packed_attention.ts";
import type { Backend } from "../../device/backend.ts";
import { openSegments } from "../../decoder/open_segments.ts";
import {
  type AxisSizes,
  computeBytes,
  planStorage,
  resolveDims,
} from "../../decoder/activations.ts";
import { StepExecutor } from "../../decoder/step_executor.ts";
import type { FolderFiles } from "../../graph/file/external_data.ts";
import type { Tensor, ValueInfo } from "../../device/ort/ort.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { fuseAttention } from "../../graph/rewrite/fused_operators.ts";
import { type FeatureCut, splitFeatures } from "../../graph/cut/split_features.ts";

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

export interface FeatureEncoderOptions {
  readonly backend: Backend;
  readonly files: FolderFiles;
  /** Most inputs encoded together. */
  readonly maxInputs: number;
  /** Most inputs of a graph that is not cut, since its scores take memory. */
  readonly maxWholeInputs: number;
}

/** The names that Optimum gives to the graph's input and output. */
export const FEATURES = "input_features";
const HIDDEN = "last_hidden_state";
/** Larger batches are no faster per input, and make later inputs wait longer. */
const MAX_INPUTS = 16;
/** Memory for tensors passed between segments, unless one input needs more. */
const ACTIVATION_BYTES = 2 ** 28;

/** @throws {Error} with ONNX Runtime's message when it refuses the graph. */
export async function openFeatureEncoder(
  model: ModelProto,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  // ONNX Runtime's own attention has wider vectors than ours: the whole graph took 0.9 CPU seconds, the cut one 2.5.
  const isCut = options.backend.runtime !== "native";
  const cut = isCut ? splitFeatures(model, HIDDEN) : undefined;
  if (cut !== undefined) {
    try {
      return await openCutEncoder(cut, options);
    } catch (error) {
      // The kernel cannot run these heads.
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const { maxInputs, maxWholeInputs } = options;
  const whole = isCut ? model : fuseAttention(model);
  const session = await options.backend.openModel(whole, options.files);
  return {
    // One input keeps all cores busy; batches only take more memory.
    maxInputs: isCut ? Math.min(maxInputs, MAX_INPUTS, maxWholeInputs) : 1,
    inputs: session.inputs,
    encode: async (features) => (await session.run({ [FEATURES]: features }))[HIDDEN]!,
    release: () => session.release(),
  };
}

/** @throws {RangeError} when the kernel cannot run one of the graph's attention nodes. */
async function openCutEncoder(
  cut: FeatureCut,
  options: FeatureEncoderOptions,
): Promise<FeatureEncoder> {
  const { backend } = options;
  const { chunks } = planStorage(cut, (port) => computeBytes(port, computeSizes(1)));
  const perInput = chunks.reduce((sum, bytes) => sum + bytes, 0);
  const fitting = Math.min(
    ACTIVATION_BYTES / perInput,
    backend.maxBufferBytes / Math.max(...chunks),
  );
  const maxInputs = Math.max(1, Math.min(options.maxInputs, MAX_INPUTS, Math.floor(fitting)));
  const attention = backend.openPackedAttention({
    nodes: cut.attentions,
    maxRows: maxInputs * cut.numTokens,
    maxSequences: maxInputs,
  });
  const sessions = await openSegments(cut, options).catch((error) => {
    attention.dispose();
    throw error;
  });
  const runner = new StepExecutor({
    backend,
    cut,
    sessions,
    most: computeSizes(maxInputs),
    attend: ({ layer, output }, { tensors, output: into, sizes }) =>
      attention.run(layer, tensors, into).reshape(resolveDims(output, sizes)),
    callerOwnsOutput: true,
  });
  return {
    maxInputs,
    inputs: sessions[0]!.inputs,
    encode: async (features) => {
      const numInputs = features.dims[0]!;
      const tensors = new Map([[FEATURES, features]]);
      attention.begin(selfBounds(new Array(numInputs).fill(cut.numTokens)));
      await runner.run(tensors, computeSizes(numInputs));
      return tensors.get(cut.output.name)!;
    },
    release: async () => {
      attention.dispose();
      await runner.dispose();
    },
  };
}

/** Every axis of variable size is the number of inputs. */
function computeSizes(numInputs: number): AxisSizes {
  return { tokens: 0, rows: numInputs };
}
