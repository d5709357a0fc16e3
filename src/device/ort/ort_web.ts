/**
 * onnxruntime-web: for WebGPU, and for the CPU where onnxruntime-node is not used. One build (jspi) serves both.
 *
 * @module
 */
import "./no_location.ts";
import * as ort from "onnxruntime-web/jspi";
import { runStep } from "../../base/threads.ts";
import { describeValues, type GraphSession, type Tensor, toHearthTensors } from "./session.ts";

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

/** Weights outside the graph, under the path that the graph names. */
export interface ExternalData {
  readonly path: string;
  readonly data: Uint8Array;
}

/** onnxruntime-web mistakes Deno for Node, and replaces the global Worker by Node's when it starts. */
const { Worker } = globalThis;

let lastCall: Promise<unknown> = Promise.resolve();

/** Queues calls, because onnxruntime-web allows one at a time ("Session already started"). */
function exclusively<T>(call: () => Promise<T>): Promise<T> {
  const result = lastCall.then(call);
  lastCall = result.catch(() => {});
  return result;
}

/**
 * Opens a graph.
 *
 * @param model the bytes of its ModelProto.
 * @param options.device device to run on, which keeps the outputs; without it, everything runs on the CPU.
 * @throws {Error} with ONNX Runtime's own message when it refuses the graph.
 */
export async function openWebSession(
  model: Uint8Array,
  { device, externalData = [] }: {
    readonly device?: GPUDevice | undefined;
    readonly externalData?: readonly ExternalData[] | undefined;
  },
): Promise<GraphSession> {
  const session = await exclusively(() =>
    ort.InferenceSession.create(model, {
      executionProviders: device
        ? [{ name: "webgpu", device, validationMode: "disabled" }]
        : ["wasm"],
      // Hides its warning that shapes are computed on the CPU, which is intended.
      logSeverityLevel: 3,
      // Off, because it would keep a plan for every shape, and texts have many lengths.
      enableMemPattern: false,
      ...(device ? { preferredOutputLocation: "gpu-buffer" as const } : {}),
      ...(externalData.length > 0 ? { externalData: [...externalData] } : {}),
    })
  );
  globalThis.Worker = Worker;
  return {
    inputs: describeValues(session.inputMetadata),
    outputs: describeValues(session.outputMetadata),
    run: async (feeds, fetches) => {
      const outputs = fetches && toOrtTensors(fetches);
      const run = () => outputs ? session.run(feeds, outputs) : session.run(feeds);
      return toHearthTensors(await exclusively(() => runStep(run)), fetches);
    },
    release: () => exclusively(() => session.release()),
  };
}

/** Converts tensors to ONNX Runtime's own Tensor class, since it would mistake any other class for options. */
function toOrtTensors(
  fetches: Readonly<Record<string, Tensor | null>>,
): Record<string, ort.Tensor | null> {
  return Object.fromEntries(
    Object.entries(fetches).map(([name, tensor]) => [name, tensor && theirTensor(tensor)]),
  );
}

function theirTensor(tensor: Tensor): ort.Tensor {
  const { type, dims } = tensor;
  if (tensor.location === "cpu") {
    return new ort.Tensor(type as "float32", tensor.data as Float32Array, dims);
  }
  return ort.Tensor.fromGpuBuffer(tensor.gpuBuffer, { dataType: type as "float32", dims });
}
