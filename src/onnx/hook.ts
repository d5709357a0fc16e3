/**
 * Gives transformers.js our ONNX Runtime: the same build, the same device, one call at a time.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise
 * brings its own. Its sessions are then opened here, with our execution provider in place of its guess.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import type { InferenceSession } from "onnxruntime-common";
import { nextTurn } from "../next_turn.ts";
import { exclusively, runtime, Tensor, type Tensors } from "./ort.ts";
import { replaceCanvas } from "./raw_image.ts";
import { openTensorOp } from "./tensor_ops.ts";

/** What transformers.js offers, once it runs on our ONNX Runtime. */
export type Transformers = typeof import("@huggingface/transformers");

let loaded: Promise<Transformers> | undefined;
/** Of the sessions that are opened next. */
let device: GPUDevice | undefined;

/**
 * Imports transformers.js on our runtime. Models load from local folders only; give `device: "auto"` and an
 * explicit `dtype`, since its own table of devices is empty then.
 *
 * @param options.device the GPU that models loaded from now on run on; the CPU if absent.
 * @param options.modelsFolder where their folders lie.
 */
export function loadTransformers(
  options: { device?: GPUDevice | undefined; modelsFolder: string },
): Promise<Transformers> {
  device = options.device;
  loaded ??= hook();
  return loaded.then((transformers) => {
    transformers.env.localModelPath = options.modelsFolder;
    return transformers;
  });
}

async function hook(): Promise<Transformers> {
  Reflect.set(globalThis, Symbol.for("onnxruntime"), {
    ...runtime,
    InferenceSession: { create: createSession },
  });
  const transformers = await import("@huggingface/transformers");
  replaceCanvas(transformers.RawImage);
  // On import it points the runtime at a content delivery network.
  delete runtime.env.wasm.wasmPaths;
  Object.assign(transformers.env, {
    useWasmCache: false,
    allowLocalModels: true,
    allowRemoteModels: false,
    // What goes wrong it throws too; its log would have all the elements of all inputs.
    logLevel: transformers.LogLevel.NONE,
  });
  return transformers;
}

/**
 * `InferenceSession.create` as transformers.js uses it. On a GPU the key-value caches stay there, as they do where it
 * knows of the device itself; all else it wants on the CPU.
 */
async function createSession(
  model: unknown,
  given: InferenceSession.SessionOptions,
): Promise<InferenceSession> {
  // It takes itself to be in Node and names the graph's file instead of reading it, and so those of its weights.
  const isNamed = typeof model === "string";
  const bytes = isNamed ? await Deno.readFile(model) : model as Uint8Array;
  const externalData = isNamed ? await readExternalData(model) : given.externalData ?? [];
  const op = await openTensorOp(bytes);
  if (op !== undefined) return op as InferenceSession;
  const session = await exclusively(() =>
    runtime.InferenceSession.create(bytes, {
      ...given,
      ...(externalData.length > 0 ? { externalData } : {}),
      ...(device
        ? {
          executionProviders: [{ name: "webgpu", device, validationMode: "disabled" }],
          preferredOutputLocation: "gpu-buffer" as const,
        }
        : { executionProviders: ["wasm"] }),
      logSeverityLevel: 3,
      // It would keep a plan for every shape it ever meets, and recordings come in all lengths.
      enableMemPattern: false,
    })
  );
  const run = session.run.bind(session);
  session.run = async (feeds: InferenceSession.FeedsType) => {
    try {
      return await exclusively(async () => await bringBack(await run(feeds)));
    } catch (error) {
      return failure(error);
    } finally {
      // Its loops would let no message in until a text is complete.
      await nextTurn();
    }
  };
  return session;
}

/** The files of weights beside a graph: `model.onnx_data`, `model.onnx_data_1` … */
async function readExternalData(path: string): Promise<{ path: string; data: Uint8Array }[]> {
  const prefix = `${basename(path)}_data`;
  const names = (await Array.fromAsync(Deno.readDir(dirname(path))))
    .map(({ name }) => name).filter((name) => name.startsWith(prefix));
  return await Promise.all(
    names.map(async (name) => ({
      path: name,
      data: await Deno.readFile(join(dirname(path), name)),
    })),
  );
}

/**
 * Outputs that throw when they are looked at. transformers.js appends its runs to one chain of promises, which a
 * rejection would end for good.
 */
function failure(error: unknown): Tensors {
  return Object.defineProperty({}, "error", {
    enumerable: true,
    get: () => {
      throw error;
    },
  });
}

async function bringBack(outputs: Tensors): Promise<Tensors> {
  const there: Record<string, Tensor> = {};
  for (const [name, tensor] of Object.entries(outputs)) {
    // Where a merged decoder gives nothing in place of a cache, the cache is used on, and nobody frees the nothing.
    const isCache = name.startsWith("present") && tensor.size > 0;
    there[name] = tensor.location === "cpu" || isCache ? tensor : await copyToCpu(tensor);
  }
  return there;
}

async function copyToCpu(tensor: Tensor): Promise<Tensor> {
  const data = await tensor.getData(true);
  return new Tensor(tensor.type, data, tensor.dims);
}
