/**
 * onnxruntime-web: WebGPU, and the CPU where onnxruntime-node does not load. One build (jspi) serves both.
 *
 * @module
 */
import "./no_location.ts";
import * as ort from "onnxruntime-web/jspi";
import { runStep } from "../../base/running_steps.ts";
import { describeValues, type GraphSession, ownTensors, type Tensor } from "./session.ts";

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

/** Weights kept outside the graph, under the path the graph names. */
export interface ExternalData {
  readonly path: string;
  readonly data: Uint8Array;
}

/** It takes Deno for Node, and replaces the global Worker with Node's when it starts. */
const { Worker } = globalThis;

let lastCall: Promise<unknown> = Promise.resolve();

/** It allows one call at a time ("Session already started"); others wait here. */
function exclusively<T>(call: () => Promise<T>): Promise<T> {
  const result = lastCall.then(call);
  lastCall = result.catch(() => {});
  return result;
}

/**
 * Opens a graph.
 *
 * @param model the bytes of its ModelProto.
 * @param options.device run on this device and leave the outputs there; without it, all on the CPU.
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
      // It warns that shapes are computed on the CPU, which is intended.
      logSeverityLevel: 3,
      // Off: it keeps a plan for every shape, and texts have all lengths.
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
      const outputs = fetches && theirTensors(fetches);
      const run = () => outputs ? session.run(feeds, outputs) : session.run(feeds);
      return ownTensors(await exclusively(() => runStep(run)), fetches);
    },
    release: () => exclusively(() => session.release()),
  };
}

/** Preallocated outputs must be of its own Tensor class; it takes others for options. */
function theirTensors(
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
