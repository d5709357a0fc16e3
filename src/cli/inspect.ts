/**
 * `inspect`: shows how a model's graphs are cut for the paged engine, or why they are not.
 *
 * @module
 */
import { basename, dirname, join, resolve } from "node:path";
import { StartupError } from "../errors.ts";
import { contextLengthOf } from "../models/decoder.ts";
import { openFolder } from "../models/folder.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import type { CutResult } from "../onnx/graph_cut.ts";
import { readModel } from "../onnx/proto_read.ts";
import { splitGraph } from "../onnx/split.ts";
import { describeCut, summarizeCut } from "./cut_report.ts";
import { printLine } from "./print.ts";

/** A graph that was looked at. */
interface Inspected {
  readonly path: string;
  readonly result: CutResult;
}

async function isFile(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(() => undefined))?.isFile ?? false;
}

/** The folder's graphs of a decoder, the plain one first. */
async function findGraphs(folder: string): Promise<string[]> {
  const { files } = await openFolder(folder);
  const graphs = [...files].filter((file) =>
    /^onnx\/(model|decoder_model_merged)(_[a-z0-9]+)?\.onnx$/.test(file)
  );
  if (graphs.length === 0) {
    const found = [...files].filter((file) => file.endsWith(".onnx"));
    throw new StartupError(
      `${folder} has no onnx/model*.onnx or onnx/decoder_model_merged*.onnx to inspect` +
        (found.length > 0 ? `, only ${found.join(", ")}: name one of them.` : "."),
    );
  }
  return graphs.sort().map((graph) => join(folder, graph));
}

/** The context length of the folder a graph belongs to, if there is such a folder and it says. */
async function findContextLength(graph: string): Promise<number | undefined> {
  for (const folder of [dirname(graph), dirname(dirname(graph))]) {
    if (await isFile(join(folder, "config.json"))) {
      try {
        return contextLengthOf(await openFolder(folder));
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
    return { path, result: splitGraph(model, { contextLength: await findContextLength(path) }) };
  } catch (error) {
    throw new StartupError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

function summarize({ path, result }: Inspected): string {
  return "cut" in result
    ? `${path}: cut into ${summarizeCut(result.cut)}.`
    : `${path}: not cut. ${result.refused}`;
}

/** What `--json` prints of a graph: the cut without the segments' bytes. */
function toPlain({ path, result }: Inspected): unknown {
  if ("refused" in result) return { graph: path, refused: result.refused };
  const { segments, ...rest } = result.cut;
  return {
    graph: path,
    ...rest,
    segments: segments.map(({ model, blobParts, ...segment }) => ({
      ...segment,
      modelBytes: model.length,
      weights: blobParts.map(({ tensor }) => tensor.name),
    })),
  };
}

/** Bytes are of no use in a report: their number is. */
function withoutBytes(_key: string, value: unknown): unknown {
  return value instanceof Uint8Array ? { length: value.length } : value;
}

/**
 * Prints segments, what crosses, and attentions of the graph at `path`; of a folder all graphs in a line each,
 * and the first one that is cut in full.
 *
 * @param path a model folder or an `.onnx` file.
 * @returns 0 when a graph is cut, 1 when none is.
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
    printLine(JSON.stringify(inspected.map(toPlain), withoutBytes, 2));
    return exitCode;
  }
  for (const each of inspected) printLine(summarize(each));
  for (const { path, result } of inspected) {
    if ("refused" in result) continue;
    printLine(inspected.length > 1 ? `\n${path}` : "");
    for (const line of describeCut(result.cut)) printLine(line);
    break;
  }
  return exitCode;
}
