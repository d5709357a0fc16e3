/**
 * Finds which of a model's files are needed to serve it.
 *
 * @module
 */
import { dirname } from "node:path/posix";
import type { Dtype, ModelKind } from "../../base/config.ts";
import type { NeededFiles } from "../../hub/acquire.ts";
import { externalDataFiles, type ModelFolder } from "../../hub/model_folder.ts";
import { identifyFamily } from "./families.ts";
import { chooseGraphs, type GraphChoice } from "../folder/graph_choice.ts";

/** The user's choices, and the device. */
export interface ModelChoice extends GraphChoice {
  /** Detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
}

/** The files that a model needs. */
export interface ModelFiles extends NeededFiles {
  readonly kind: ModelKind;
  /** Dtype of the main graph. */
  readonly dtype: Dtype;
}

/** Files of configuration, tokenizer and templates. */
const SETTINGS_FILES =
  /^((generation_|tokenizer_|preprocessor_|processor_|video_preprocessor_)?config|tokenizer|special_tokens_map|added_tokens|modules|genai_config|sentence_bert_config|config_sentence_transformers)\.json$|^chat_template\.(jinja|json)$|^\d+_[A-Z]\w*\/config\.json$/;

/**
 * Chooses among a folder's or a repository's files.
 *
 * @throws {StartupError} when its family is unknown, or it has no graph of the requested dtype.
 */
export function chooseFiles(folder: ModelFolder, wish: ModelChoice): ModelFiles {
  const family = identifyFamily(folder, wish.kind);
  const { all, main, missed } = chooseGraphs(folder, family.graphs(folder), wish);
  const graphs = all.map(({ path }) => path);
  // Files in the graph's own folder belong to it too; where they are missing, those of the model's folder are used.
  const folders = [folder.settingsIn, dirname(main.path)]
    .filter((place) => place !== undefined && place !== "." && place !== "onnx");
  const settings = [...folder.files].filter((file) =>
    SETTINGS_FILES.test(file) || family.files?.test(file) ||
    folders.some((place) =>
      file.startsWith(`${place}/`) && SETTINGS_FILES.test(file.slice(place!.length + 1))
    )
  );
  const data = graphs.flatMap((graph) => externalDataFiles(folder, graph));
  return {
    kind: family.kind,
    dtype: main.dtype,
    files: [...settings, ...data, ...graphs],
    graphs,
    missed,
  };
}
