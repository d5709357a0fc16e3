/**
 * How an encoder is opened.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import type { EncoderCut } from "../../onnx/cut/encoder_cut.ts";
import type { FolderFiles } from "../../onnx/file/external_data.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import { type BatchEncoder, Encoder } from "./encoder.ts";
import { PackedEncoder, type TextSummary } from "./packed_encoder.ts";
import type { PoolingMode } from "./pooling.ts";

/** A graph cut at its attentions, or one that runs whole on padded texts. */
export type EncoderPlan =
  | {
    readonly kind: "packed";
    readonly cut: EncoderCut;
    readonly summary: TextSummary;
    /** Tokens of the longest text that will be run. */
    readonly longestText: number;
  }
  | {
    readonly kind: "padded";
    readonly model: ModelProto;
    /** Its one output: f32, one row per text. */
    readonly output: string;
    /** The pooling added to it, if any. */
    readonly poolingModes: readonly PoolingMode[] | undefined;
    readonly padTokenId: number;
  };

/**
 * Opens an encoder.
 *
 * @throws {RangeError} when the kernel cannot run one of the attentions of a cut.
 * @throws {StartupError} when the graph has unknown inputs.
 */
export async function openEncoder(
  plan: EncoderPlan,
  { backend, files }: { readonly backend: Backend; readonly files: FolderFiles },
): Promise<BatchEncoder> {
  if (plan.kind === "packed") {
    return await PackedEncoder.open(plan.cut, { ...plan, backend, files });
  }
  const session = await backend.openModel(plan.model, files);
  return await Encoder.create({ ...plan, backend, session });
}
