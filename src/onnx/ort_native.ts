/**
 * onnxruntime-node: the CPU, on all its cores, with weights mapped from disk.
 *
 * @module
 */
import type { InferenceSession } from "onnxruntime-common";
import { describeValues, type GraphSession, ownTensors, type Tensor } from "./session.ts";

/**
 * A variable, so that the module graph does not know of it: the package holds the libraries of all platforms, and is
 * to be fetched by those who run models on the CPU, when they do.
 */
const PACKAGE = "onnxruntime-node";

type Native = Pick<typeof import("onnxruntime-common"), "InferenceSession" | "Tensor" | "env">;

let loaded: Promise<Native> | undefined;

/** Loads the library, and fetches it first where that never happened. @throws {Error} where it cannot be had. */
export function loadNative(): Promise<Native> {
  loaded ??= import(PACKAGE).then((native: Native) => {
    // What it refuses it throws too.
    native.env.logLevel = "fatal";
    return native;
  });
  return loaded;
}

/** How long threads look out for more work before they sleep. */
const SPIN_US = "20";

/** How to open a graph. */
export interface NativeSessionOptions {
  /** Threads that share the work of one operation. */
  readonly threads: number;
  /** Folder of the files that its external data lies in; they are mapped, not read. */
  readonly weightsFolder?: string | undefined;
}

/** Sessions of this thread. Terminating a worker frees none of them. */
const open = new Set<InferenceSession>();

/** Frees all sessions of this thread, before it returns: there may be no later. */
export async function releaseNativeSessions(): Promise<void> {
  const releasing = Array.from(open, (session) => session.release());
  open.clear();
  await Promise.all(releasing);
}

/**
 * Opens a graph.
 *
 * @param model the bytes of its ModelProto.
 * @throws {Error} with ONNX Runtime's own message when it refuses the graph.
 */
export async function openNativeSession(
  model: Uint8Array,
  { threads, weightsFolder }: NativeSessionOptions,
): Promise<GraphSession> {
  const native = await loadNative();
  const session = await native.InferenceSession.create(model, {
    executionProviders: ["cpu"],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 4,
    // It would keep a plan for every shape it ever meets, and texts come in all lengths.
    enableMemPattern: false,
    extra: {
      // From one operation to the next, which a sleeping thread would be late for; not from run to run, where it would
      // burn a core.
      "session.intra_op.spin_duration_us": SPIN_US,
      ...(weightsFolder === undefined
        ? {}
        : { "session.model_external_initializers_file_folder_path": weightsFolder }),
    },
  });
  open.add(session);
  return {
    inputs: describeValues(session.inputMetadata),
    outputs: describeValues(session.outputMetadata),
    run: async (feeds, fetches) => {
      const given = theirTensors(native, feeds);
      const results = fetches
        ? await session.run(given, theirTensors(native, fetches))
        : await session.run(given);
      return ownTensors(results, fetches);
    },
    release: async () => {
      if (open.delete(session)) await session.release();
    },
  };
}

/**
 * What is to be filled must be of its own class of tensors: others it takes for options. Deno's Node-API does not know
 * Float16Array: its bytes are handed over as a Uint16Array.
 */
function theirTensors<T extends Tensor | null>(
  { Tensor }: Native,
  tensors: Readonly<Record<string, T>>,
): Record<string, T> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => {
      if (tensor === null) return [name, tensor];
      const { type, dims } = tensor;
      const theirs = new Tensor(type as "float32", tensor.data as Float32Array, dims);
      if (type === "float16") {
        const { buffer, byteOffset, length } = tensor.data as Uint16Array;
        Object.defineProperty(theirs, "data", {
          value: new Uint16Array(buffer, byteOffset, length),
        });
      }
      return [name, theirs as T];
    }),
  );
}
