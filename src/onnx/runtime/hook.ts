/**
 * Gives transformers.js our ONNX Runtime: the same build, the same device, one call at a time.
 *
 * transformers.js looks for a runtime under a well-known symbol when it is first imported, and otherwise
 * brings its own. Its sessions are then opened where its user says.
 *
 * @module
 */
import "./no_location.ts";
import { basename, dirname } from "node:path";
import type { InferenceSession } from "onnxruntime-common";
import { nextTurn } from "../../next_turn.ts";
import { FolderFiles, type ModelFiles } from "../file/external_data.ts";
import { type GraphSession, openSession, Tensor, type Tensors } from "./ort.ts";
import { copyWeights } from "./pack_model.ts";
import type { ModelProto } from "../file/proto.ts";
import { readModel } from "../file/proto_read.ts";
import { replaceCanvas } from "./raw_image.ts";
import { openTensorOp } from "./tensor_ops.ts";

/** transformers.js running on our ONNX Runtime. */
export type Transformers = typeof import("@huggingface/transformers");

/** Opens sessions; a backend does. */
export interface SessionOpener {
  openSession(model: Uint8Array): Promise<GraphSession>;
  openModel(model: ModelProto, files: ModelFiles): Promise<GraphSession>;
}

/** onnxruntime-web on the CPU. */
const WEB: SessionOpener = {
  openSession: (model) => openSession(model),
  openModel: async (model, files) => {
    const { bytes, externalData } = await copyWeights(model, files);
    return await openSession(bytes, { externalData });
  },
};

let loaded: Promise<Transformers> | undefined;
/** Device of the sessions opened next. */
let opener = WEB;

/**
 * Imports transformers.js on our runtime. Models load from local folders only; give `device: "auto"` and an
 * explicit `dtype`, since its own table of devices is empty then.
 */
export function loadTransformers(options: {
  /** Opens the sessions of models loaded from now on; onnxruntime-web on the CPU if absent. */
  readonly backend?: SessionOpener | undefined;
  /** Where the models' folders lie. */
  readonly modelsFolder: string;
}): Promise<Transformers> {
  opener = options.backend ?? WEB;
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
    // Errors are thrown as well; its log would print all elements of all inputs.
    logLevel: transformers.LogLevel.NONE,
  });
  return transformers;
}

/** A session as transformers.js uses it. */
type TheirSession =
  & Pick<InferenceSession, "inputNames" | "outputNames" | "inputMetadata">
  & { run(feeds: Tensors): Promise<Tensors>; release(): Promise<void> };

/**
 * `InferenceSession.create` as transformers.js uses it. On a GPU key-value caches stay on the device, as with its own
 * runtime; other outputs go to the CPU.
 */
async function createSession(model: string | Uint8Array): Promise<unknown> {
  // It believes that it runs in Node and passes paths of the graph and its weights.
  if (typeof model !== "string") {
    const op = await openTensorOp(model);
    return op ?? theirSession(await opener.openSession(model));
  }
  await using files = new FolderFiles(dirname(model));
  const graph = await readModel(files, basename(model));
  return theirSession(await opener.openModel(graph, files));
}

function theirSession(session: GraphSession): TheirSession {
  return {
    inputNames: session.inputs.map(({ name }) => name),
    outputNames: session.outputs.map(({ name }) => name),
    inputMetadata: session.inputs.map((value) => ({ ...value, isTensor: true as const })),
    run: async (feeds) => {
      try {
        return await bringBack(await session.run(feeds));
      } catch (error) {
        return failure(error);
      } finally {
        // Its loops would block messages until a text is complete.
        await nextTurn();
      }
    },
    release: () => session.release(),
  };
}

/**
 * Outputs that throw when accessed. transformers.js appends its runs to one chain of promises, which a rejection would
 * end for good.
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
    // Where a merged decoder gives an empty tensor for a cache, the old cache stays in use and nobody frees the empty
    // one.
    const isCache = name.startsWith("present") && tensor.size > 0;
    there[name] = tensor.location === "cpu" || isCache ? tensor : await copyToCpu(tensor);
  }
  return there;
}

async function copyToCpu(tensor: Tensor): Promise<Tensor> {
  const data = await tensor.getData(true);
  return new Tensor(tensor.type, data, tensor.dims);
}
