/**
 * Chooses the files of a folder that are needed to serve its model. For a decoder the choice of the dtype depends on
 * how each graph would run: a graph that can be cut serves many requests at once, so it is preferred to a dtype that
 * the device computes faster but that runs uncut.
 *
 * @module
 */
import type { Dtype, ModelKind } from "../../base/config.ts";
import type { NeededFiles } from "../../hub/acquire.ts";
import { listExternalData, type ModelFolder } from "../../hub/model_folder.ts";
import { identifyFamily } from "./identify_family.ts";
import {
  chooseGraphs,
  type ChosenGraphs,
  type GraphChoice,
  listPreferredDtypes,
  type WantedGraph,
} from "../folder/graph_choice.ts";
import { basename, dirname, join, posix } from "node:path";
import { log } from "../../base/log.ts";
import { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import { findContextLength } from "../folder/config_fields.ts";

/** The user's choices and the device. */
export interface ModelChoice extends GraphChoice {
  /** Detected from the folder if absent. */
  readonly kind?: ModelKind | undefined;
}

/** The files needed to serve a model. */
export interface ModelFiles extends NeededFiles {
  readonly kind: ModelKind;
  /** Dtype of the main graph. */
  readonly dtype: Dtype;
}

/** Configuration, tokenizer and chat template files. */
const SETTINGS_FILES =
  /^((generation_|tokenizer_|preprocessor_|processor_|video_preprocessor_)?config|tokenizer|special_tokens_map|added_tokens|modules|genai_config|sentence_bert_config|config_sentence_transformers)\.json$|^chat_template\.(jinja|json)$|^\d+_[A-Z]\w*\/config\.json$/;

/**
 * Chooses among the files of a folder or a repository.
 *
 * @throws {StartupError} when the family is unknown, or no graph has the requested dtype.
 */
export function chooseFiles(folder: ModelFolder, wish: ModelChoice): ModelFiles {
  const family = identifyFamily(folder, wish.kind);
  const { all, main, missed } = chooseGraphs(folder, family.graphs(folder), wish);
  const graphs = all.map(({ path }) => path);
  // Configuration may also be in the graph's own folder.
  const folders = [folder.settingsIn, posix.dirname(main.path)]
    .filter((path) => path !== undefined && path !== "." && path !== "onnx");
  const settings = [...folder.files].filter((file) =>
    SETTINGS_FILES.test(file) || family.files?.test(file) ||
    folders.some((path) =>
      file.startsWith(`${path}/`) && SETTINGS_FILES.test(file.slice(path!.length + 1))
    )
  );
  const data = graphs.flatMap((graph) => listExternalData(folder, graph));
  return {
    kind: family.kind,
    dtype: main.dtype,
    files: [...settings, ...data, ...graphs],
    graphs,
    missed,
  };
}

/**
 * Chooses graphs like {@linkcode chooseGraphs}, but reads the nodes of decoders: if no dtype is requested and the
 * folder has several, the first dtype in order of preference whose main graph can be cut is chosen.
 *
 * @throws {StartupError} when the folder lacks a graph, or a file is damaged.
 */
export async function chooseCutGraphs(
  folder: ModelFolder,
  wanted: readonly WantedGraph[],
  choice: GraphChoice,
): Promise<ChosenGraphs> {
  const chosen = chooseGraphs(folder, wanted, choice);
  const dtypes = listPreferredDtypes(folder, wanted[0]!, choice.device);
  if (choice.dtype !== undefined || dtypes.length < 2) return chosen;
  for (const dtype of dtypes) {
    const graphs = dtype === chosen.main.dtype
      ? chosen
      : chooseGraphs(folder, wanted, { ...choice, dtype });
    const refused = await findCutRefusal(folder, graphs);
    if (refused === undefined) return graphs;
    if (refused === NO_DECODER) return chosen;
    log.info("this graph cannot be cut, trying weights of another dtype", {
      graph: graphs.main.path,
      reason: refused,
    });
  }
  return chosen;
}

/**
 * Finds how a folder's decoder runs on the CPU. If its graph can be cut, sequences share steps and a prefix cache;
 * otherwise they run one at a time.
 *
 * @returns `undefined` if the main graph is not a decoder.
 * @throws {StartupError} when the folder lacks a graph, or a graph is damaged.
 */
export async function findRunPath(
  folder: ModelFolder,
  wanted: readonly WantedGraph[],
): Promise<"batched" | "one at a time" | undefined> {
  const graphs = await chooseCutGraphs(folder, wanted, { device: "cpu" });
  const refused = await findCutRefusal(folder, graphs);
  if (refused === NO_DECODER) return undefined;
  return refused === undefined ? "batched" : "one at a time";
}

const NO_DECODER = Symbol("no decoder");

/** Masks are evaluated for at most this many tokens, so that a folder that claims a huge context does not take long. */
const MAX_TOKENS = 2 ** 18;

/**
 * Explains why the main graph cannot be cut; `undefined` if it can.
 *
 * @param graphs if the main graph is a decoder, it is kept here, so that loading does not read and cut it again.
 */
async function findCutRefusal(
  folder: ModelFolder,
  graphs: ChosenGraphs,
): Promise<string | typeof NO_DECODER | undefined> {
  const { path } = graphs.main;
  await using files = new FolderFiles(join(folder.path, dirname(path)), folder.path);
  const version = await files.version(basename(path));
  const model = graphs.takeRead(path, version) ?? await readModel(files, basename(path));
  if (!model.graph.inputs.some(({ name }) => name.startsWith("past"))) return NO_DECODER;
  graphs.keepRead({ path, version, model });
  const contextLength = Math.min(findContextLength(folder) ?? MAX_TOKENS, MAX_TOKENS);
  const result = await cutAny(model, contextLength);
  return "refused" in result ? result.refused : undefined;
}

async function cutAny(model: ModelProto, contextLength: number) {
  // Imported on demand, as most models are not decoders.
  const { cutStep, divideMerged } = await import("../../graph/cut/merged_decoder.ts");
  const { cutGraph } = await import("../../graph/cut/cut_graph.ts");
  const merged = divideMerged(model);
  return merged !== undefined && merged.project.graph.outputs.length > 0
    ? cutStep(merged.step, { contextLength })
    : cutGraph(model, { contextLength });
}
