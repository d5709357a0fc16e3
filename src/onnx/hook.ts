/**
 * Gives transformers.js our ONNX Runtime: the same build, the same device, one call at a time.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise
 * brings its own. Its sessions are then opened here, with our execution provider in place of its guess.
 *
 * @module
 */
import { exclusively, runtime } from "./ort.ts";

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
  // On import it points the runtime at a content delivery network.
  delete runtime.env.wasm.wasmPaths;
  Object.assign(transformers.env, {
    useWasmCache: false,
    allowLocalModels: true,
    allowRemoteModels: false,
  });
  return transformers;
}

/** `InferenceSession` as transformers.js uses it, with the provider, device and output places set here. */
function sessions(device: GPUDevice | undefined): Pick<typeof runtime.InferenceSession, "create"> {
  const provider = device
    ? { name: "webgpu", device, validationMode: "disabled" as const }
    : "wasm" as const;
  return {
    create: async (...args: unknown[]) => {
      const options = (args.at(-1) ?? {}) as Record<string, unknown>;
      const session = await exclusively(() =>
        runtime.InferenceSession.create(args[0] as Uint8Array, {
          ...options,
          executionProviders: [provider],
        })
      );
      const run = session.run.bind(session) as (
        ...args: unknown[]
      ) => ReturnType<typeof session.run>;
      session.run = (...args: unknown[]) => exclusively(() => run(...args));
      return session;
    },
  };
}
