/**
 * ONNX Runtime: the only access to its two builds. onnxruntime-node runs on all cores of the CPU, with weights mapped
 * from disk. onnxruntime-web runs on WebGPU, and on the CPU where onnxruntime-node is not used.
 *
 * @module
 */
import type { InferenceSession } from "onnxruntime-common";
import { runStartupStep } from "../../base/errors.ts";
import { runStep } from "../../base/threads.ts";
import { keepFreedBlocks } from "../../base/memory.ts";
import { describeValues, type GraphSession, type Tensor, toHearthTensors } from "./session.ts";
import { buildCast } from "../../graph/built_models.ts";
import type { ExternalData } from "./ort_web.ts";

export type { ExternalData } from "./ort_web.ts";
export {
  disposeTensors,
  type GraphSession,
  Tensor,
  type Tensors,
  type ValueInfo,
} from "./session.ts";

/**
 * A variable, so that the package is not part of the module graph: it holds the libraries of all platforms, and must
 * only be downloaded when a model first runs on the CPU.
 */
const PACKAGE = "onnxruntime-node";

type Native = Pick<typeof import("onnxruntime-common"), "InferenceSession" | "Tensor" | "env">;

let loaded: Promise<Native> | undefined;

/** The environment variable that turns off ONNX Runtime's telemetry. */
const DISABLE_TELEMETRY = "ORT_DISABLE_TELEMETRY";

/**
 * Loads the library, downloading it the first time. The library's telemetry keeps a device id and a record of each
 * opened graph in the user's cache folder, and sends the records to Microsoft. It is off unless the variable is set
 * otherwise.
 *
 * @throws {Error} when it cannot be loaded.
 */
export function loadNative(): Promise<Native> {
  if (!Deno.env.get(DISABLE_TELEMETRY)) Deno.env.set(DISABLE_TELEMETRY, "1");
  loaded ??= import(PACKAGE).then((native: Native) => {
    // Errors are thrown too, so they are not logged.
    native.env.logLevel = "fatal";
    // Sessions that keep no memory allocate each tensor anew, so freed blocks are kept for them.
    keepFreedBlocks();
    return native;
  });
  return loaded;
}

/** Microseconds for which threads spin before they sleep. */
const SPIN_US = "20";

/** Options for opening a graph in onnxruntime-node. */
export interface NativeSessionOptions {
  /** Threads that share the work of one operation. */
  readonly threads: number;
  /** Folder of the files with the graph's external data, which are mapped rather than read. */
  readonly weightsFolder?: string | undefined;
  /**
   * Whether the session keeps the memory of its largest run for the next one; true if absent. Tensors of many
   * megabytes, such as those of images, take a sixth longer in memory that the system has to clear first. But if many
   * sessions run in turn, each of them would keep memory that only one needs at a time.
   */
  readonly keepsMemory?: boolean | undefined;
}

/** This thread's sessions. Terminating a worker does not free them. */
const open = new Set<InferenceSession>();

/** Frees all sessions of this thread. It resolves once they are freed, and the thread may then end. */
export async function releaseNativeSessions(): Promise<void> {
  const releasing = Array.from(open, (session) => session.release());
  open.clear();
  await Promise.all(releasing);
}

async function openNativeSession(
  model: Uint8Array,
  { threads, weightsFolder, keepsMemory = true }: NativeSessionOptions,
): Promise<GraphSession> {
  const native = await loadNative();
  const session = await native.InferenceSession.create(model, {
    executionProviders: ["cpu"],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 4,
    // Off, because it would keep a plan for every shape, and texts have many lengths.
    enableMemPattern: false,
    enableCpuMemArena: keepsMemory,
    extra: {
      // Threads spin between operations, where waking up would be slow, but not between runs, where spinning wastes a
      // core.
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
      const given = toOrtTensors(native, feeds);
      const outputs = fetches && toOrtTensors(native, fetches);
      const results = await runStep(() =>
        outputs ? session.run(given, outputs) : session.run(given)
      );
      return toHearthTensors(results, fetches);
    },
    release: async () => {
      if (open.delete(session)) await session.release();
    },
  };
}

/**
 * Converts tensors to ONNX Runtime's own Tensor class, since it would mistake any other class for options. Deno's
 * Node-API does not know Float16Array, so its bytes are passed as a Uint16Array.
 */
function toOrtTensors<T extends Tensor | null>(
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
 * @throws {StartupError} with ONNX Runtime's own message when it refuses the graph.
 */
export async function openSession(
  model: Uint8Array,
  options: SessionOptions = {},
): Promise<GraphSession> {
  return await runStartupStep(async () => {
    if (options.runtime === "native") return await openNativeSession(model, options);
    // Imported on demand: loading is slow, and the other build does not need it.
    const { openWebSession } = await import("./ort_web.ts");
    return await openWebSession(model, options);
  }, (reason) => `ONNX Runtime cannot open a graph of this model: ${reason}`);
}
