/**
 * Entry of a lane: an encoder of its own on the CPU, in a thread of its own. See `encoder_lanes.ts`.
 *
 * @module
 */
import { CpuBackend } from "../backend/cpu.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import type { Model } from "../onnx/proto.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { Encoder, type EncoderParts } from "./encoder.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** What a lane is to run. */
export interface LaneOptions extends Omit<EncoderParts, "backend" | "session"> {
  /** The graph, its weights not read. */
  readonly model: Model;
  /** Folder of the files that hold its weights. */
  readonly folder: string;
}

/** To a lane: first what to load, then batches, each after the answer to the one before. */
export type ToLane =
  | { readonly type: "load"; readonly options: LaneOptions }
  | { readonly type: "run"; readonly texts: readonly EncodedText[] };

/** The answer to either. */
export type FromLane =
  | { readonly type: "ready" }
  | { readonly type: "rows"; readonly rows: Float32Array<ArrayBuffer> }
  | { readonly type: "failed"; readonly reason: string };

const scope = globalThis as unknown as {
  postMessage(message: FromLane): void;
  onmessage: (event: MessageEvent<ToLane>) => void;
};

let encoder: Encoder | undefined;

scope.onmessage = async ({ data: message }) => {
  try {
    scope.postMessage(await answer(message));
  } catch (error) {
    scope.postMessage({ type: "failed", reason: (error as Error).message });
  }
};

async function answer(message: ToLane): Promise<FromLane> {
  if (message.type === "run") {
    // A copy of its own, cut to size: the message takes it along.
    const rows = new Float32Array(await encoder!.run(message.texts));
    return { type: "rows", rows };
  }
  const { model, folder, ...parts } = message.options;
  const backend = new CpuBackend();
  await using files = new FolderFiles(folder);
  const session = await openChangedGraph(model, { files, backend });
  encoder = await Encoder.create({ ...parts, backend, session });
  return { type: "ready" };
}
