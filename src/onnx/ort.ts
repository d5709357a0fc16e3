/**
 * ONNX Runtime: the only file that touches it. One build (jspi) serves the CPU and the WebGPU provider.
 *
 * @module
 */
import "./no_location.ts";
import * as ort from "onnxruntime-web/jspi";
import { quickenProducts } from "./quick_products.ts";

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

/** The build's WebAssembly, as it came. */
export const RUNTIME_WASM = new URL(
  "ort-wasm-simd-threaded.jspi.wasm",
  import.meta.resolve("onnxruntime-web/jspi"),
);

/** Makes CPU tensors and wraps GPU buffers (`Tensor.fromGpuBuffer`). */
export const Tensor = ort.Tensor;
/** An ONNX tensor, on the CPU or on the device. */
export type Tensor = ort.Tensor;

/** One input or output of a session. */
export interface ValueInfo {
  readonly name: string;
  /** Element type as ONNX Runtime names it: `float32`, `int64` … */
  readonly type: ort.Tensor.Type;
  /** Symbolic sizes are strings. */
  readonly shape: readonly (number | string)[];
}

/** Weights kept outside the graph, under the path the graph names. */
export interface ExternalData {
  readonly path: string;
  readonly data: Uint8Array;
}

/** How to open a session. */
export interface SessionOptions {
  /** Run on this device and leave the outputs there; without it, all on the CPU. */
  readonly device?: GPUDevice | undefined;
  readonly externalData?: readonly ExternalData[] | undefined;
}

/** Tensors by name. */
export type Tensors = Readonly<Record<string, Tensor>>;

/** Frees tensors. */
export function disposeTensors(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

/** A loaded graph. */
export interface Session {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /**
   * Runs the graph; the caller owns the results and disposes those on the device.
   *
   * @param fetches the outputs wanted, all if absent, each with its place: a tensor over a GPU buffer of at least its
   * size, or `null` where ONNX Runtime is to allocate it.
   */
  run(feeds: Tensors, fetches?: Readonly<Record<string, Tensor | null>>): Promise<Tensors>;
  /** Frees the weights. */
  release(): Promise<void>;
}

/** It takes Deno for Node, and puts Node's Worker in the place of the global one when it starts. */
const { Worker } = globalThis;

let lastCall: Promise<unknown> | undefined;

/** ONNX Runtime takes one call at a time ("Session already started"); later ones wait here. */
export function exclusively<T>(call: () => Promise<T>): Promise<T> {
  const result = lastCall === undefined ? callFirst(call) : lastCall.then(call);
  lastCall = result.catch(() => {});
  return result;
}

/** The first call loads the runtime's WebAssembly: ours, where there are quicker products for it. */
async function callFirst<T>(call: () => Promise<T>): Promise<T> {
  const quicker = await readQuicker();
  if (quicker === undefined) return await call();
  const { wasm } = ort.env;
  const url = URL.createObjectURL(new Blob([quicker], { type: "application/wasm" }));
  free(quicker);
  wasm.wasmPaths = { wasm: url };
  try {
    return await call();
  } finally {
    delete wasm.wasmPaths;
    URL.revokeObjectURL(url);
  }
}

/** The runtime's WebAssembly with quicker products; `undefined` where they do not fit, or it is not where it should be. */
async function readQuicker(): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const bytes = await Deno.readFile(RUNTIME_WASM).catch(() => undefined);
  if (bytes === undefined) return undefined;
  const quicker = quickenProducts(bytes);
  free(bytes);
  return quicker;
}

/** Frees memory at once that the collector might keep for long. */
function free({ buffer }: Uint8Array<ArrayBuffer>): void {
  buffer.transfer(0);
}

function describe(values: readonly ort.InferenceSession.ValueMetadata[]): ValueInfo[] {
  return values.map((value) => {
    if (!value.isTensor) throw new Error(`"${value.name}" is not a tensor.`);
    return { name: value.name, type: value.type, shape: value.shape };
  });
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
): Promise<Session> {
  const { device, externalData } = options;
  const session = await exclusively(() =>
    ort.InferenceSession.create(model, {
      executionProviders: device
        ? [{ name: "webgpu", device, validationMode: "disabled" }]
        : ["wasm"],
      // Its warnings tell that shapes are computed on the CPU, as they should be.
      logSeverityLevel: 3,
      // It would keep a plan for every shape it ever meets, and texts come in all lengths.
      enableMemPattern: false,
      ...(device ? { preferredOutputLocation: "gpu-buffer" as const } : {}),
      ...(externalData ? { externalData: [...externalData] } : {}),
    })
  );
  globalThis.Worker = Worker;
  return {
    inputs: describe(session.inputMetadata),
    outputs: describe(session.outputMetadata),
    run: (feeds, fetches) =>
      exclusively(() => fetches ? session.run(feeds, fetches) : session.run(feeds)),
    release: () => exclusively(() => session.release()),
  };
}

/** The runtime itself, for a library that brings model classes of its own; see `hook.ts`. */
export const runtime: typeof ort = ort;
