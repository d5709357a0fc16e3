/**
 * Chooses among the dtypes of a decoder by how they would run. A graph that can be cut serves many requests at once,
 * and is preferred to a dtype that the device computes faster but that runs whole.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import {
  chooseGraphs,
  type ChosenGraphs,
  type GraphChoice,
  preferredDtypes,
  type WantedGraph,
} from "../folder/graph_choice.ts";
import { findContextLength } from "../folder/text_sizes.ts";

/**
 * As {@linkcode chooseGraphs}; but if no dtype was asked for, the folder has several and the main graph is a decoder,
 * takes the first dtype in order of preference whose main graph can be cut. That requires reading the graphs' nodes.
 *
 * @throws {StartupError} when the folder lacks a graph, or a file that was read is damaged.
 */
export async function chooseCutGraphs(
  folder: ModelFolder,
  wanted: readonly WantedGraph[],
  choice: GraphChoice,
): Promise<ChosenGraphs> {
  const chosen = chooseGraphs(folder, wanted, choice);
  const dtypes = preferredDtypes(folder, wanted[0]!, choice.device);
  if (choice.dtype !== undefined || dtypes.length < 2) return chosen;
  for (const dtype of dtypes) {
    const graphs = dtype === chosen.main.dtype
      ? chosen
      : chooseGraphs(folder, wanted, { ...choice, dtype });
    const refused = await whyNotCut(folder, graphs);
    if (refused === undefined) return graphs;
    if (refused === NO_DECODER) return chosen;
    log.info("weights of another dtype are tried: this graph is not cut", {
      graph: graphs.main.path,
      reason: refused,
    });
  }
  return chosen;
}

/**
 * How a folder's main graph runs on the CPU, if it is a decoder: a cut graph lets sequences share steps and a prefix
 * cache, a whole one computes one at a time. `undefined` for other graphs.
 *
 * @throws {StartupError} when the folder lacks a graph, or it is damaged.
 */
export async function findRunPath(
  folder: ModelFolder,
  wanted: readonly WantedGraph[],
): Promise<"batched" | "one at a time" | undefined> {
  const graphs = await chooseCutGraphs(folder, wanted, { device: "cpu" });
  const refused = await whyNotCut(folder, graphs);
  if (refused === NO_DECODER) return undefined;
  return refused === undefined ? "batched" : "one at a time";
}

const NO_DECODER = Symbol("no decoder");

/** Masks are evaluated for at most this many tokens, so that a folder that claims a huge context does not take long. */
const MAX_TOKENS = 2 ** 18;

/**
 * Why the main graph cannot be cut; `undefined` if it can.
 *
 * @param graphs keep the main graph if it is a decoder, so that loading it does not read and cut it again.
 */
async function whyNotCut(
  folder: ModelFolder,
  graphs: ChosenGraphs,
): Promise<string | typeof NO_DECODER | undefined> {
  const { path } = graphs.main;
  await using files = new FolderFiles(join(folder.path, dirname(path)), folder.path);
  const model = graphs.takeRead(path) ?? await readModel(files, basename(path));
  if (!model.graph.inputs.some(({ name }) => name.startsWith("past"))) return NO_DECODER;
  graphs.keepRead(path, model);
  const contextLength = Math.min(findContextLength(folder) ?? MAX_TOKENS, MAX_TOKENS);
  const result = await cutAny(model, contextLength);
  return "refused" in result ? result.refused : undefined;
}

async function cutAny(model: ModelProto, contextLength: number) {
  // Imported on demand: most models are no decoders.
  const { cutStep, divideMerged } = await import("../../graph/cut/merged_decoder.ts");
  const { splitGraph } = await import("../../graph/cut/split.ts");
  const merged = divideMerged(model);
  return merged !== undefined && merged.project.graph.outputs.length > 0
    ? cutStep(merged.step, { contextLength })
    : splitGraph(model, { contextLength });
}
