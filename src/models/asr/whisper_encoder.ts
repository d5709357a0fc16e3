/**
 * Whisper's encoder as Optimum exports it.
 *
 * @module
 */
import { basename, join } from "node:path";
import { StartupError } from "../../errors.ts";
import { FolderFiles } from "../../onnx/external_data.ts";
import { readModel } from "../../onnx/proto_read.ts";
import type { CompanionContext } from "../companion_graph.ts";
import { type FeatureEncoder, openFeatureEncoder } from "./feature_encoder.ts";

const ENCODER = "encoder_model";
const FEATURES = "input_features";

/** How to open it. */
export interface WhisperEncoderOptions extends CompanionContext {
  /** Most windows at a time. */
  readonly maxInputs: number;
  /** Most windows per call if its graph is not cut. */
  readonly maxWholeInputs: number;
}

/** @throws {StartupError} when the folder lacks the graph, or it is not as Optimum exports it. */
export async function openWhisperEncoder(
  { folder, graphs, backend, onProgress, ...limits }: WhisperEncoderOptions,
): Promise<FeatureEncoder> {
  const { path } = graphs.of(ENCODER);
  onProgress({ what: `loading ${path}` });
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const encoder = await openFeatureEncoder(await readModel(files, basename(path)), {
    ...{ backend, files, ...limits },
    input: FEATURES,
    output: "last_hidden_state",
  });
  const unknown = encoder.inputs.map(({ name }) => name).filter((name) => name !== FEATURES);
  if (unknown.length === 0) return encoder;
  throw new StartupError(
    `onnx/${ENCODER} wants inputs that are not known: ${
      unknown.join(", ")
    }. Wanted is Optimum's export of Whisper.`,
  );
}
