/**
 * Gives transformers.js our ONNX Runtime: the same build, the same device, one call at a time.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise
 * brings its own. Its sessions are then opened here, with our execution provider in place of its guess.
 *
 * @module
 */
import type { InferenceSession } from "onnxruntime-common";
import { exclusively, runtime, Tensor, type Tensors } from "./ort.ts";
import { replaceCanvas } from "./raw_image.ts";

/** What transformers.js offers, once it runs on our ONNX Runtime. */
export type Transformers = typeof import("@huggingface/transformers");

let loaded: Promise<Transformers> | undefined;

/**
 * Imports transformers.js on our runtime. Models load from local folders only; give `device: "auto"` and an
 * explicit `dtype`, since its own table of devices is empty then.
 *
 * @param options.device the GPU its sessions run on; the CPU if absent. The first call decides.
 * @param options.modelsFolder where its model folders lie.
 */
export function loadTransformers(
  options: { device?: GPUDevice | undefined; modelsFolder: string },
): Promise<Transformers> {
  loaded ??= hook(options.device);
  return loaded.then((transformers) => {
    transformers.env.localModelPath = options.modelsFolder;
    return transformers;
  });
}

async function hook(device: GPUDevice | undefined): Promise<Transformers> {
  Reflect.set(globalThis, Symbol.for("onnxruntime"), {
    ...runtime,
    InferenceSession: sessions(device),
  });
  const transformers = await import("@huggingface/transformers");
  replaceCanvas(transformers.RawImage);
  // On import it points the runtime at a content delivery network.
  delete runtime.env.wasm.wasmPaths;
  Object.assign(transformers.env, {
    useWasmCache: false,
    allowLocalModels: true,
    allowRemoteModels: false,
  });
  return transformers;
}

type Create = (...args: unknown[]) => Promise<InferenceSession>;

/**
 * `InferenceSession` as transformers.js uses it. On a GPU the key-value caches stay there, as they do where it
 * knows of the device itself; all else it wants on the CPU.
 */
function sessions(device: GPUDevice | undefined): { readonly create: Create } {
  const options: InferenceSession.SessionOptions = device
    ? {
      executionProviders: [{ name: "webgpu", device, validationMode: "disabled" }],
      preferredOutputLocation: "gpu-buffer",
    }
    : { executionProviders: ["wasm"] };
  const create: Create = async (model, given) => {
    // Outside a worker it takes itself to be in Node and names the file instead of reading it.
    const bytes = typeof model === "string" ? await Deno.readFile(model) : model as Uint8Array;
    const session = await exclusively(() =>
      runtime.InferenceSession.create(bytes, {
        ...(given as InferenceSession.SessionOptions),
        ...options,
        logSeverityLevel: 3,
      })
    );
    const run = session.run.bind(session);
    session.run = (feeds: InferenceSession.FeedsType) =>
      exclusively(async () => await bringBack(await run(feeds)));
    return session;
  };
  return { create };
}

async function bringBack(outputs: Tensors): Promise<Tensors> {
  const there: Record<string, Tensor> = {};
  for (const [name, tensor] of Object.entries(outputs)) {
    const stays = tensor.location === "cpu" || name.startsWith("present");
    there[name] = stays ? tensor : await copyToCpu(tensor);
  }
  return there;
}

async function copyToCpu(tensor: Tensor): Promise<Tensor> {
  const data = await tensor.getData(true);
  return new Tensor(tensor.type, data, tensor.dims);
}
