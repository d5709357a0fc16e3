/**
 * `inspect`: shows how a model's graphs are cut at their attention nodes, or why they are not.
 *
 * @module
 */
import { basename, dirname, join, resolve } from "node:path";
import { DTYPES } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { readContextLength } from "../models/folder/config_fields.ts";
import { makeGraphPath, type ModelFolder, openAnyFolder } from "../hub/model_folder.ts";
import { identifyFamily } from "../models/load/identify_family.ts";
import { FolderFiles } from "../graph/file/external_data.ts";
import type { EncoderCut, GraphCut } from "../graph/graph_cut.ts";
import { cutStep, divideMerged } from "../graph/cut/merged_decoder.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import { readModel } from "../graph/file/proto_read.ts";
import { cutEncoder, cutGraph } from "../graph/cut/cut_graph.ts";
import { cutFeatures, type FeatureCut } from "../graph/cut/cut_features.ts";
import type { CompiledSegment } from "../program/compile_cut.ts";
import {
  compileForGpu,
  type CrossNodes,
  describeCut,
  describeSegment,
  summarizeCut,
} from "./cut_report.ts";
import { printLine } from "./print.ts";

interface Inspected {
  readonly path: string;
  /** Tokens that the model was trained for, if its folder says so. */
  readonly contextLength: number | undefined;
  readonly result:
    | { readonly kind: "decoder"; readonly cut: GraphCut; readonly crossNodes?: CrossNodes }
    | { readonly kind: "encoder"; readonly cut: EncoderCut }
    | { readonly kind: "features"; readonly cut: FeatureCut }
    | { readonly refused: string };
}

/** Names of encoder outputs, in order of preference. */
const ENCODER_OUTPUTS = ["last_hidden_state", "token_embeddings", "sentence_embedding", "logits"];
/** Context length if the folder does not give one. */
const LONGEST_TEXT = 8192;

async function isFile(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(() => undefined))?.isFile ?? false;
}

/**
 * Finds the graphs that the model's family runs, the main one first, each in all dtypes. Without a known family, finds
 * all graphs.
 */
async function findGraphs(path: string): Promise<string[]> {
  const folder = await openAnyFolder(path);
  const all = [...folder.files].filter((file) => file.endsWith(".onnx")).sort();
  if (all.length === 0) {
    throw new StartupError(
      `${path} has no graph to inspect: it holds no onnx/model*.onnx and no other .onnx file.`,
    );
  }
  const run = listFamilyGraphs(folder);
  return (run.length > 0 ? run : all).map((graph) => join(path, graph));
}

function listFamilyGraphs(folder: ModelFolder): string[] {
  try {
    const files = identifyFamily(folder).graphs(folder).flatMap(({ name, paths }) =>
      DTYPES.map((dtype) => paths === undefined ? makeGraphPath(name, dtype) : paths[dtype])
    );
    return files.filter((file) => file !== undefined && folder.files.has(file)) as string[];
  } catch (error) {
    // A folder without a known family can still be inspected.
    if (error instanceof StartupError) return [];
    throw error;
  }
}

/** Finds the context length of a graph's folder, if its config gives one. */
async function findContextLength(graph: string): Promise<number | undefined> {
  for (const folder of [dirname(graph), dirname(dirname(graph))]) {
    if (await isFile(join(folder, "config.json"))) {
      try {
        return readContextLength(await openAnyFolder(folder));
      } catch (error) {
        if (error instanceof StartupError) return undefined;
        throw error;
      }
    }
  }
  return undefined;
}

async function inspectGraph(path: string): Promise<Inspected> {
  await using files = new FolderFiles(dirname(path));
  try {
    const model = await readModel(files, basename(path));
    const contextLength = await findContextLength(path);
    return { path, contextLength, result: cutModel(model, contextLength) };
  } catch (error) {
    throw new StartupError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Cuts a graph as a decoder or an encoder. A graph without a cache but with an output that encoders have is an encoder:
 * of text if it has `input_ids`, else of audio or images.
 */
function cutModel(model: ModelProto, contextLength: number | undefined): Inspected["result"] {
  const { inputs, outputs } = model.graph;
  const merged = divideMerged(model);
  if (merged !== undefined && merged.project.graph.outputs.length > 0) {
    const result = cutStep(merged.step, { contextLength });
    if ("refused" in result) return result;
    return { kind: "decoder", cut: result.cut, crossNodes: new Set(result.crossInputs.keys()) };
  }
  const wanted = ENCODER_OUTPUTS.find((name) => outputs.some((output) => output.name === name));
  if (wanted === undefined || inputs.some(({ name }) => name.startsWith("past"))) {
    const result = cutGraph(model, { contextLength });
    return "cut" in result ? { kind: "decoder", ...result } : result;
  }
  if (!inputs.some(({ name }) => name === "input_ids")) return inspectFeatures(model, wanted);
  const result = cutEncoder(model, {
    wanted,
    // The padding id does not affect the cut.
    padTokenId: 0,
    contextLength: contextLength ?? LONGEST_TEXT,
  });
  return "cut" in result ? { kind: "encoder", ...result } : result;
}

/** Cuts an encoder of audio or images, or says why it cannot be cut. */
function inspectFeatures(model: ModelProto, wanted: string): Inspected["result"] {
  const cut = cutFeatures(model, wanted);
  if (cut !== undefined) return { kind: "features", cut };
  return {
    refused:
      "It has no input_ids, and no attention nodes of one length whose tokens all attend to each other.",
  };
}

function summarize({ path, result }: Inspected): string {
  return "cut" in result
    ? `${path}: cut into ${summarizeCut(result.cut)}.`
    : `${path}: not cut. ${result.refused}`;
}

function describe({ result, contextLength }: Inspected): string[] {
  if ("refused" in result) return [];
  if (result.kind !== "decoder") return result.cut.segments.map(describeSegment);
  return describeCut(result.cut, { crossNodes: result.crossNodes, contextLength });
}

/** Converts the result for a graph to plain JSON, without the weights of its segments. */
function toPlain({ path, result, contextLength }: Inspected): unknown {
  if ("refused" in result) return { graph: path, refused: result.refused };
  const { segments, ...rest } = result.cut;
  const compiled = result.kind === "decoder" ? compileForGpu(result.cut, result.crossNodes) : [];
  return {
    graph: path,
    contextLength,
    ...rest,
    segments: segments.map(({ model, ...segment }) => ({
      ...segment,
      ...reportDispatches(compiled[segment.index]),
      numNodes: model.graph.nodes.length,
      weights: model.graph.initializers.map(({ name }) => name),
    })),
  };
}

/** Reports the dispatches of a segment on a GPU for few and for many rows, or why it cannot be compiled to kernels. */
function reportDispatches(compiled: CompiledSegment | undefined): object {
  if (compiled === undefined) return {};
  if ("refused" in compiled) return { notCompiled: compiled.refused };
  const { few, many } = compiled;
  return { numDispatches: { few: few.dispatches.length, many: many.dispatches.length } };
}

/** Replaces bytes by their number, for `JSON.stringify`. */
function replaceBytes(_key: string, value: unknown): unknown {
  return value instanceof Uint8Array ? { length: value.length } : value;
}

/**
 * Prints one line for the graph at `path`, or for each graph in a folder, then the segments of the first one that can
 * be cut. `--json` prints everything but the weights.
 *
 * @param path a model folder or an `.onnx` file.
 * @returns 0 when a graph can be cut, 1 when none can.
 * @throws {StartupError} when there is no graph, or it cannot be read.
 */
export async function inspect(path: string, options: { json: boolean }): Promise<number> {
  const absolute = resolve(path);
  if (absolute.endsWith(".onnx") && !await isFile(absolute)) {
    throw new StartupError(`There is no file ${absolute}.`);
  }
  const graphs = await isFile(absolute) ? [absolute] : await findGraphs(absolute);
  const inspected: Inspected[] = [];
  for (const graph of graphs) inspected.push(await inspectGraph(graph));
  const exitCode = inspected.some(({ result }) => "cut" in result) ? 0 : 1;
  if (options.json) {
    printLine(JSON.stringify(inspected.map(toPlain), replaceBytes, 2));
    return exitCode;
  }
  for (const each of inspected) printLine(summarize(each));
  const cut = inspected.find(({ result }) => "cut" in result);
  if (cut !== undefined) {
    printLine(inspected.length > 1 ? `\n${cut.path}` : "");
    for (const line of describe(cut)) printLine(line);
  }
  return exitCode;
}
