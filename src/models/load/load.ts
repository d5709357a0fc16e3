/**
 * Loads a model folder: identifies its family, chooses its graphs and opens them.
 *
 * @module
 */
import type { Dtype, ModelKind, ResolvedModel } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { toDeviceClass } from "../../device/backend.ts";
import { listExternalData, openAnyFolder } from "../../hub/model_folder.ts";
import { checkPreprocessors } from "../folder/config_fields.ts";
import { findVariants } from "../folder/graph_variants.ts";
import { readAvailableBytes } from "../../base/memory_limit.ts";
import { NOTHING, requireMemory, weighFiles } from "../folder/memory.ts";
import type { Model, OpenContext } from "../model.ts";
import { chooseCutGraphs } from "./choose_files.ts";
import { identifyFamily } from "./identify_family.ts";
import { LOADERS } from "./loaders.ts";

interface ModelLoadOptions extends
  Pick<
    OpenContext,
    "backend" | "engine" | "vadFolder" | "speakerEncoderFolder" | "onProgress"
  > {
  readonly model: ResolvedModel;
  /** The dtype that suits the device best if absent. */
  readonly dtype?: Dtype | undefined;
  /** Detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
}

/** @throws {StartupError} when the folder, or the requested dtype or kind, cannot be loaded. */
export async function loadModel(options: ModelLoadOptions): Promise<Model> {
  const folder = await openAnyFolder(options.model.folder);
  const family = identifyFamily(folder, options.kind);
  const { kind } = family;
  // A text decoder may run without ONNX Runtime.
  if (kind !== "text") options.backend.prepareRuntime();
  if (options.vadFolder !== undefined && kind !== "asr") {
    throw new StartupError(
      `Voice activity is for speech recognition, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "vadFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && kind !== "tts") {
    throw new StartupError(
      `A speaker encoder is for speech synthesis, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "speakerEncoderFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && !family.takesSpeakerEncoder) {
    throw new StartupError(
      `A speaker encoder is for SpeechT5, and ${folder.path} is a synthesizer of type "${family.name}".`,
      { setting: "speakerEncoderFolder" },
    );
  }
  const { backend, dtype } = options;
  const wish = { dtype, device: toDeviceClass(backend) };
  const graphs = await chooseCutGraphs(folder, family.graphs(folder), wish);
  const { main } = graphs;
  const variants = findVariants(folder, main.name, wish.device).filter(({ path }) =>
    path !== main.path
  );
  if (!main.path.startsWith("onnx/") && variants.length > 0) {
    log.info("the folder has several variants of the graph: using the one that suits the device", {
      graph: main.path,
      others: variants.map(({ path }) => path).join(", "),
    });
  }
  // The needs of text decoders are computed more exactly once their graphs are cut.
  if (kind !== "text") {
    const files = graphs.all.flatMap(({ path }) => [path, ...listExternalData(folder, path)]);
    requireMemory(
      { ...NOTHING, weightsBytes: await weighFiles(folder, files) },
      { backend, availableBytes: readAvailableBytes(), otherDtypes: [] },
    );
  }
  await checkPreprocessors(folder);
  const context = { ...options, folder, graphs, modelName: options.model.id };
  return await LOADERS[family.loader](context);
}
