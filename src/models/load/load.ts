/**
 * Loads a model folder: its family, its graphs, its parts.
 *
 * @module
 */
import { toDeviceClass } from "../../device/device_class.ts";
import type { Dtype, ModelKind, ResolvedModel } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { externalDataFiles, openAnyFolder } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { readAvailableBytes } from "../folder/free_memory.ts";
import { NOTHING, requireMemory, weighFiles } from "../folder/memory.ts";
import { identifyFamily } from "./families.ts";
import { findVariants } from "../folder/graph_variants.ts";
import { chooseCutGraphs } from "./cut_choice.ts";
import { LOADERS } from "./loaders.ts";
import type { Model } from "../model.ts";
import type { OpenContext } from "../folder/open_context.ts";
import { checkPreprocessors } from "./preprocessor_rules.ts";

interface ModelLoadOptions extends
  Pick<
    OpenContext,
    "backend" | "engine" | "vadFolder" | "speakerEncoderFolder" | "onProgress"
  > {
  readonly model: ResolvedModel;
  /** The best one for the device if absent. */
  readonly dtype?: Dtype | undefined;
  /** Detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
}

/** @throws {StartupError} when the folder, or the requested dtype or kind, cannot be loaded. */
export async function loadModel(options: ModelLoadOptions): Promise<Model> {
  const folder = await openAnyFolder(options.model.folder);
  const family = identifyFamily(folder, options.kind);
  const { kind } = family;
  // A decoder of text may run without a graph.
  if (kind !== "text") options.backend.prepareRuntime();
  if (options.vadFolder !== undefined && kind !== "asr") {
    throw new StartupError(
      `Voice activity is for speech models, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "vadFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && kind !== "tts") {
    throw new StartupError(
      `A speaker encoder is for models that speak, and ${options.model.id} is a model of kind ${kind}.`,
      { setting: "speakerEncoderFolder" },
    );
  }
  if (options.speakerEncoderFolder !== undefined && !family.takesSpeakerEncoder) {
    throw new StartupError(
      `A speaker encoder is for SpeechT5, and ${folder.path} is a speech model of type "${family.name}".`,
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
    log.info("the variant of the graph that suits the device is taken", {
      graph: main.path,
      others: variants.map(({ path }) => path).join(", "),
    });
  }
  // A cut decoder's needs are known more exactly.
  if (kind !== "text") {
    const files = graphs.all.flatMap(({ path }) => [path, ...externalDataFiles(folder, path)]);
    requireMemory(
      { ...NOTHING, weightsBytes: await weighFiles(folder, files) },
      { backend, availableBytes: await readAvailableBytes(), otherDtypes: [] },
    );
  }
  await checkPreprocessors(folder);
  const context = { ...options, folder, graphs, modelName: options.model.id };
  return await LOADERS[family.loader](context);
}
