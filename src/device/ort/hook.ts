/**
 * Makes transformers.js use Hearth's ONNX Runtime: the same build, the same device, one call at a time.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise brings its
 * own. Hearth uses its processors, tokenizers and feature extractors, and opens models itself.
 *
 * @module
 */
import "./no_location.ts";
import { openSession, Tensor } from "./ort.ts";
import { replaceCanvas } from "./raw_image.ts";
import { openTensorOp } from "./tensor_ops.ts";

/** transformers.js, using Hearth's ONNX Runtime. */
export type Transformers = typeof import("@huggingface/transformers");

let loaded: Promise<Transformers> | undefined;
let openModel: ((path: string) => Promise<unknown>) | undefined;

/** Imports transformers.js with Hearth's runtime. It only loads from local folders. */
export function loadTransformers(options: {
  /** Parent folder of the models' folders. */
  readonly modelsFolder: string;
  /**
   * Opens the sessions of transformers.js's own model classes from now on; they cannot be used without it. Give them
   * `device: "auto"` and an explicit `dtype`, since the library's own table of devices is empty then.
   */
  readonly openModel?: ((path: string) => Promise<unknown>) | undefined;
}): Promise<Transformers> {
  openModel = options.openModel ?? openModel;
  loaded ??= hook();
  return loaded.then((transformers) => {
    transformers.env.localModelPath = options.modelsFolder;
    return transformers;
  });
}

async function hook(): Promise<Transformers> {
  Reflect.set(globalThis, Symbol.for("onnxruntime"), {
    Tensor,
    env: {},
    InferenceSession: { create: createSession },
  });
  const transformers = await import("@huggingface/transformers");
  replaceCanvas(transformers.RawImage);
  Object.assign(transformers.env, {
    useWasmCache: false,
    allowLocalModels: true,
    allowRemoteModels: false,
    // Errors are thrown as well, and its log would print all elements of all inputs.
    logLevel: transformers.LogLevel.NONE,
  });
  return transformers;
}

/** `InferenceSession.create` as transformers.js calls it: with the bytes of an operator, or the path of a model. */
async function createSession(model: string | Uint8Array): Promise<unknown> {
  if (typeof model !== "string") return await openTensorOp(model) ?? await openSession(model);
  if (openModel !== undefined) return await openModel(model);
  throw new Error(`${model}: transformers.js cannot open models here.`);
}
