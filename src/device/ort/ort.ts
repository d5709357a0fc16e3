/**
 * ONNX Runtime: the only access to its two builds.
 *
 * @module
 */
import { buildCast } from "../../graph/built_models.ts";
import { type NativeSessionOptions, openNativeSession } from "./ort_native.ts";
import type { ExternalData } from "./ort_web.ts";
import type { GraphSession } from "./session.ts";

export { loadNative, releaseNativeSessions } from "./ort_native.ts";
export type { ExternalData } from "./ort_web.ts";
export {
  disposeTensors,
  type GraphSession,
  Tensor,
  type Tensors,
  type ValueInfo,
} from "./session.ts";

/** Options for opening a session. */
type SessionOptions =
  /** onnxruntime-web, on this device, or on the CPU without one. */
  | {
    readonly runtime?: "web";
    readonly device?: GPUDevice | undefined;
    readonly externalData?: readonly ExternalData[] | undefined;
  }
  /** onnxruntime-node, on the CPU. */
  | { readonly runtime: "native" } & NativeSessionOptions;

/** Loads onnxruntime-web for a device before there is a graph to open, which takes a second of processor time. */
export async function prepareRuntime(device: GPUDevice): Promise<void> {
  const model = buildCast({ from: "float32", to: "float32", shape: [] });
  const session = await openSession(model, { device });
  await session.release();
}

/**
 * Opens a graph.
 *
 * @param model the bytes of its ModelProto.
 * @throws {Error} with ONNX Runtime's own message when it refuses the graph.
 */
export async function openSession(
  model: Uint8Array,
  options: SessionOptions = {},
): Promise<GraphSession> {
  if (options.runtime === "native") return await openNativeSession(model, options);
  // Imported on demand: loading is slow, and the other build does not need it.
  const { openWebSession } = await import("./ort_web.ts");
  return await openWebSession(model, options);
}
