/**
 * Chooses which graphs of a model run and in which dtype, for the download, the memory check and the loaders.
 *
 * @module
 */
import type { DeviceClass } from "../../device/backend.ts";
import { type Dtype, DTYPES } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { listDtypes, makeGraphPath, type ModelFolder } from "../../hub/model_folder.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { findVariants, type GraphVariant } from "./graph_variants.ts";

/** Dtypes in order of preference, by device. */
const PREFERRED = {
  gpuWithF16: ["q4f16", "fp16", "q4", "fp32", "q2f16", "q2", "q1f16", "q1"],
  gpu: ["q4", "fp32", "q2", "q1"],
  // q8 exports quantise activations over the whole batch, so results would depend on the other texts in the batch.
  // Products with 4-bit weights quantise row by row. Scales in f16 are as fast, and make the file a third smaller.
  cpu: ["q4", "q4f16", "q8", "fp32", "q2", "q2f16", "q1", "q1f16"],
  cpuInBatches: ["fp32", "fp16", "q4", "q8"],
  // Quantisation errors in sound are audible as noise.
  sound: ["fp32", "fp16", "q8", "q4"],
} as const satisfies Record<string, readonly Dtype[]>;

type Preference = keyof typeof PREFERRED;

/** A graph that a model needs. */
export interface WantedGraph {
  /** Its name without the suffix of the dtype: `model` for `onnx/model_q4.onnx`. */
  readonly name: string;
  /**
   * What the dtype must suit: `batches` for a graph that runs the rows of many requests together, `sound` for a graph
   * that generates sound. If absent, all dtypes that suit the device are considered.
   */
  readonly suits?: "batches" | "sound" | undefined;
  /** Its file in each dtype, if the graph is not in `onnx/`. */
  readonly paths?: Readonly<Partial<Record<Dtype, string>>>;
}

/** The user's choice and the device. */
export interface GraphChoice {
  readonly device: DeviceClass;
  /** The best dtype for the device if absent. */
  readonly dtype?: Dtype | undefined;
}

/** A graph in the chosen dtype. */
export interface ChosenGraph {
  readonly name: string;
  readonly dtype: Dtype;
  /** Path in the folder: `onnx/model_q4.onnx`. */
  readonly path: string;
}

/** A graph that was read, whose weights are still in its file. */
interface ReadGraph {
  readonly path: string;
  /** Version of the file, because the weights of another version would be at other offsets. */
  readonly version: string;
  readonly model: ModelProto;
}

/** The graphs of a model, each in its dtype. */
export class ChosenGraphs {
  /** All graphs, the main one first. */
  readonly all: readonly ChosenGraph[];
  /** Files that would have been preferred, but do not exist. */
  readonly missed: readonly string[];
  readonly #folderPath: string;
  /** A graph that was read to choose it. */
  #read: ReadGraph | undefined;

  constructor(
    folder: ModelFolder,
    { all, missed }: Pick<ChosenGraphs, "all" | "missed">,
  ) {
    this.#folderPath = folder.path;
    this.all = all;
    this.missed = missed;
  }

  /** The main graph, whose dtype counts as the model's. */
  get main(): ChosenGraph {
    return this.all[0]!;
  }

  /** Keeps a graph that was read to choose it, until it is loaded. */
  keepRead(read: ReadGraph): void {
    this.#read = read;
  }

  /**
   * Takes a graph that was kept. Afterwards it is no longer kept here, so that its memory can be freed.
   *
   * @returns `undefined` if none was kept, or its file has another version now.
   */
  takeRead(path: string, version: string): ModelProto | undefined {
    if (this.#read?.path !== path) return undefined;
    const { model, version: before } = this.#read;
    this.#read = undefined;
    return before === version ? model : undefined;
  }

  has(name: string): boolean {
    return this.all.some((graph) => graph.name === name);
  }

  /** @throws {StartupError} when the folder has no such graph. */
  get(name: string): ChosenGraph {
    const found = this.all.find((graph) => graph.name === name);
    if (found !== undefined) return found;
    throw new StartupError(`${this.#folderPath} has no onnx/${name}*.onnx.`);
  }
}

/**
 * Chooses the dtype of each graph. The main graph must exist in the requested dtype. The other graphs often exist in
 * fewer dtypes: each takes the requested one if it exists, otherwise the main graph's, otherwise the best one.
 *
 * @param wanted the main graph first.
 * @throws {StartupError} when the folder lacks a graph, or lacks the main graph in the requested dtype.
 */
export function chooseGraphs(
  folder: ModelFolder,
  wanted: readonly WantedGraph[],
  { device, dtype: asked }: GraphChoice,
): ChosenGraphs {
  const all: ChosenGraph[] = [];
  const missed: string[] = [];
  const mainPreference = choosePreference(wanted[0]!, device);
  for (const graph of wanted) {
    const { name, paths } = graph;
    const outside = findOutside(folder, graph, device);
    if (outside.length > 0) {
      const variant = outside.find(({ dtype }) => asked === undefined || dtype === asked);
      if (variant === undefined && all.length === 0) throw refuseDtype(folder, outside, asked!);
      const { path, dtype, target } = variant ?? outside[0]!;
      all.push({ name, dtype, path });
      // This path represents all variants that the repository may have for the device.
      const own = device === "cpu" ? "cpu" : "gpu";
      if (asked === undefined && target !== "any" && target !== own) {
        missed.push(`${own}/${name}.onnx`);
      }
      continue;
    }
    const preference = choosePreference(graph, device);
    const getFile = (dtype: Dtype) =>
      paths === undefined ? makeGraphPath(name, dtype) : paths[dtype] ?? "";
    const there = DTYPES.filter((dtype) => folder.files.has(getFile(dtype)));
    const isAlike = paths !== undefined || preference === mainPreference;
    const given = all.length === 0
      ? asked
      : [asked, isAlike ? all[0]!.dtype : undefined].find((dtype) =>
        dtype && there.includes(dtype)
      );
    const wishes: readonly Dtype[] = given === undefined
      ? PREFERRED[preference].filter((each) => suitsDevice(each, device))
      : [given];
    const dtype = wishes.find((wish) => there.includes(wish)) ??
      (given === undefined
        ? there.find((each) => suitsDevice(each, device)) ?? there[0]
        : undefined);
    if (dtype === undefined) throw refuse(folder, graph, { wishes, there });
    all.push({ name, dtype, path: getFile(dtype) });
    if (asked === undefined && given === undefined && paths === undefined) {
      const better = wishes.includes(dtype) ? wishes.slice(0, wishes.indexOf(dtype)) : wishes;
      missed.push(...better.map(getFile));
    }
  }
  return new ChosenGraphs(folder, { all, missed });
}

/** Finds the variants of a graph outside `onnx/`, the best first; none if the graph is in `onnx/`. */
function findOutside(
  folder: ModelFolder,
  { name, paths }: WantedGraph,
  device: DeviceClass,
): GraphVariant[] {
  const isElsewhere = paths === undefined && listDtypes(folder, name).length === 0;
  return isElsewhere ? findVariants(folder, name, device) : [];
}

/** Makes the error for a dtype that no variant has. */
function refuseDtype(
  { path }: ModelFolder,
  variants: readonly GraphVariant[],
  asked: Dtype,
): StartupError {
  const there = variants.map((variant) => `${variant.path} (${variant.dtype})`).join(", ");
  return new StartupError(`${path} has no graph of dtype ${asked}: it has ${there}.`, {
    setting: "dtype",
  });
}

/**
 * Lists the dtypes in which a folder has the graph and a device can run it. The dtypes that suit the device best come
 * first.
 */
export function listPreferredDtypes(
  folder: ModelFolder,
  graph: WantedGraph,
  device: DeviceClass,
): Dtype[] {
  const { name, paths } = graph;
  const outside = findOutside(folder, graph, device);
  if (outside.length > 0) return [...new Set(outside.map(({ dtype }) => dtype))];
  const others = DTYPES.filter((dtype) => suitsDevice(dtype, device));
  return [...new Set<Dtype>([...PREFERRED[choosePreference(graph, device)], ...others])].filter(
    (dtype) =>
      folder.files.has(paths === undefined ? makeGraphPath(name, dtype) : paths[dtype] ?? ""),
  );
}

/** Whether a device can compute in a dtype: some GPUs have no half precision. */
export function suitsDevice(dtype: Dtype, device: DeviceClass): boolean {
  return device !== "gpu" || !dtype.endsWith("16");
}

/** Maximum number of graphs that a message lists. */
const MAX_SHOWN = 12;

/** Makes the error for a graph that a folder lacks, or has only in other dtypes. */
function refuse(
  { path, files }: ModelFolder,
  { name, paths }: WantedGraph,
  { wishes, there }: { readonly wishes: readonly Dtype[]; readonly there: readonly Dtype[] },
): StartupError {
  if (paths !== undefined) {
    return there.length === 0
      ? new StartupError(`${path} has no ${Object.values(paths).join(" and no ")}.`)
      : new StartupError(
        `${path}/${paths[there[0]!]} comes only in ${there.join(", ")}, not in ${wishes[0]}.`,
        { setting: "dtype" },
      );
  }
  const graphs = [...files].filter((file) => file.endsWith(".onnx")).sort();
  const isDivided = HALVES.every((half) => graphs.some((file) => file.includes(`${half}.onnx`)));
  if (isDivided && name === "model") {
    return new StartupError(
      `${path} has one graph for prompts and another for later tokens (${
        graphs.join(", ")
      }), as Optimum wrote them ` +
        "before version 1.14. Export the model again: newer versions write a single model.onnx.",
    );
  }
  const shown = [...graphs.slice(0, MAX_SHOWN), ...graphs.length > MAX_SHOWN ? ["…"] : []];
  const found = there.length > 0
    ? `it has ${there.join(", ")}`
    : `it has no onnx/${name}*.onnx${graphs.length > 0 ? `, but ${shown.join(", ")}` : ""}`;
  const advice = graphs.length > 0
    ? ""
    : " Hearth runs models in ONNX format: look for one whose name ends in -ONNX.";
  return new StartupError(
    `${path} has no graph of dtype ${wishes.join(" or ")}: ${found}.${advice}`,
  );
}

function choosePreference({ suits }: WantedGraph, device: DeviceClass): Preference {
  if (suits === "sound") return "sound";
  return suits === "batches" && device === "cpu" ? "cpuInBatches" : device;
}

/**
 * Makes a function that lists graphs in the same folder as `config.json`, in files like `x.onnx` and `x.int8.onnx`.
 *
 * @param names the main graph first.
 */
export function listGraphsBeside(...names: readonly string[]): () => WantedGraph[] {
  return () =>
    names.map((name) => ({
      name,
      paths: { fp32: `${name}.onnx`, q8: `${name}.int8.onnx` },
    }));
}

/** Makes a function that lists graphs by their names, the main one first. */
export function listGraphsNamed(...names: readonly string[]): () => WantedGraph[] {
  return () => names.map((name) => ({ name }));
}

/** Optimum's graph that merges two decoders: with and without cached keys and values. */
export const MERGED = "decoder_model_merged";
/** The two decoders that the merged one replaces. */
const HALVES = ["decoder_model", "decoder_with_past_model"];
const DTYPE_SUFFIX = /(_fp16|_q[124](f16)?|_int8|_uint8|_quantized|_bnb4)?\.onnx$/;

/**
 * Makes a function that lists all graphs of a folder.
 *
 * @param main the graph to list first, if there is one of that name.
 */
export function listAllGraphs(main?: string): (folder: ModelFolder) => WantedGraph[] {
  return ({ files }) => {
    const found = new Set(
      [...files].filter((file) => /^onnx\/[^/]+\.onnx$/.test(file))
        .map((file) => file.slice("onnx/".length).replace(DTYPE_SUFFIX, "")),
    );
    const names = [...found]
      .filter((name) => !(found.has(MERGED) && HALVES.includes(name)))
      .sort((a, b) => Number(b === main) - Number(a === main) || (a < b ? -1 : 1));
    return (names.length === 0 ? [main ?? "model"] : names).map((name) => ({ name }));
  };
}
