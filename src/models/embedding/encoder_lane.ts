/**
 * Entry of a lane: an encoder of its own on the CPU, in a thread of its own. See `encoder_lanes.ts`.
 *
 * @module
 */
import { CpuBackend } from "../../backend/cpu.ts";
import { FolderFiles } from "../../onnx/external_data.ts";
import type { BatchEncoder } from "./encoder.ts";
import { type EncoderPlan, openEncoder } from "./encoder_plan.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** To a lane: first what to open, then batches, answered in their order. */
export type ToLane =
  | {
    readonly type: "open";
    readonly plan: EncoderPlan;
    /** Where the files are that hold its weights. */
    readonly folder: string;
  }
  | { readonly type: "run"; readonly texts: readonly EncodedText[] };

/** The answer to either. */
export type FromLane =
  | { readonly type: "open" }
  | { readonly type: "rows"; readonly rows: Float32Array; readonly durationMs: number }
  | { readonly type: "failed"; readonly reason: string };

const scope = globalThis as unknown as {
  postMessage(message: FromLane): void;
  onmessage: (event: MessageEvent<ToLane>) => void;
};

let encoder: BatchEncoder | undefined;
/** Messages are answered one after the other. */
let lastAnswer: Promise<void> = Promise.resolve();

scope.onmessage = ({ data: message }) => {
  lastAnswer = lastAnswer.then(async () => {
    try {
      scope.postMessage(await answer(message));
    } catch (error) {
      scope.postMessage({ type: "failed", reason: (error as Error).message });
    }
  });
};

async function answer(message: ToLane): Promise<FromLane> {
  if (message.type === "open") {
    await using files = new FolderFiles(message.folder);
    encoder = await openEncoder(message.plan, { backend: new CpuBackend(), files });
    return { type: "open" };
  }
  const startedAtMs = performance.now();
  const rows = await encoder!.run(message.texts);
  return { type: "rows", rows, durationMs: performance.now() - startedAtMs };
}
