/**
 * Graphs outside `onnx/`. Optimum and Olive write graphs to the folder's root. Models for onnxruntime-genai have a
 * subfolder for each device and precision (`cpu_and_mobile/cpu-int4-rtn-block-32/model.onnx`).
 *
 * @module
 */
import type { DeviceClass } from "../../device/backend.ts";
import type { Dtype } from "../../base/config.ts";
import { toModelName } from "../../hub/cache.ts";
import { type ModelFolder, readGraphName } from "../../hub/model_folder.ts";

/** One variant of a graph. */
export interface GraphVariant {
  /** Path in the folder: `gpu/gpu-int4-rtn-block-32/model.onnx`. */
  readonly path: string;
  readonly dtype: Dtype;
  /** The device for which it was exported. */
  readonly target: Target;
}

type Target = "cpu" | "gpu" | "any";

/** Words in the paths of graphs that are compiled for a device's own runtime. */
const FOREIGN =
  /(^|[/_-])(npu|qnn|qdq|openvino|vitis-?ai|tensorrt|trt(rtx)?|snapdragon|coreml|rai)([/_-]|$)/i;
const FOR_CPU = /(^|[/_-])(cpu|mobile)([/_-]|$)/i;
const FOR_GPU = /(^|[/_-])(gpu|cuda|webgpu|dml|directml|rocm)([/_-]|$)/i;

/** Dtypes by the suffix of the file's name, as in `onnx/`. */
const BY_SUFFIX: readonly (readonly [string, Dtype])[] = [
  ["_q4f16", "q4f16"],
  ["_fp16", "fp16"],
  ["_q4", "q4"],
  ["_q2f16", "q2f16"],
  ["_q2", "q2"],
  ["_q1f16", "q1f16"],
  ["_q1", "q1"],
  ["_int8", "int8"],
  ["_uint8", "uint8"],
  ["_quantized", "q8"],
  ["_bnb4", "bnb4"],
  // Optimum's optimizer.
  ["_optimized", "fp32"],
  ["", "fp32"],
];
const FOUR_BITS = /int4|uint4|q4|4-?bit|awq|gptq|rtn|kquant/i;
const HALF = /fp16|float16|bf16/i;
const EIGHT_BITS = /int8|q8|8-?bit/i;

/**
 * Finds the variants of a graph that can run; those that suit the device come first.
 *
 * @param name the graph's name as in `onnx/`: `model`.
 */
export function findVariants(
  folder: ModelFolder,
  name: string,
  device: DeviceClass,
): GraphVariant[] {
  const found = [...folder.files].flatMap((path) => readVariant(folder, name, path) ?? []);
  return found.sort((a, b) =>
    rank(a, device) - rank(b, device) || (a.path < b.path ? -1 : a.path > b.path ? 1 : 0)
  );
}

/** Whether a folder has a graph of this name outside `onnx/`. */
export function hasVariant(folder: ModelFolder, name: string): boolean {
  return [...folder.files].some((path) => readVariant(folder, name, path) !== undefined);
}

/** Lists the subfolders with models that have variants for devices; more than one if the folder holds several models. */
export function listModels({ files }: ModelFolder): string[] {
  const models = new Set<string>();
  for (const file of files) {
    if (!file.endsWith("/genai_config.json")) continue;
    const parts = file.split("/");
    const device = parts.findIndex((part) => FOR_CPU.test(part) || FOR_GPU.test(part));
    if (device >= 0) models.add(parts.slice(0, device).join("/"));
  }
  return [...models].sort();
}

function readVariant(
  folder: ModelFolder,
  name: string,
  path: string,
): GraphVariant | undefined {
  const isUsual = /^onnx\/[^/]+$/.test(path);
  if (!path.endsWith(".onnx") || isUsual || FOREIGN.test(path)) return undefined;
  const at = path.lastIndexOf("/");
  const [subfolder, file] = [path.slice(0, Math.max(at, 0)), path.slice(at + 1, -".onnx".length)];
  const target = FOR_CPU.test(path) ? "cpu" : FOR_GPU.test(path) ? "gpu" : "any";
  const suffix = BY_SUFFIX.find(([ending]) => file === name + ending);
  // In onnxruntime-genai's folders graphs may have any name, and there is a configuration next to each.
  const isNamed = suffix !== undefined ||
    name === "model" && folder.files.has(joinPath(subfolder, "genai_config.json")) &&
      (isAlone(folder, subfolder) ||
        `${file}.onnx` === readGraphName(folder.identity?.["genai_config.json"]));
  if (!isNamed) return undefined;
  const told = suffix !== undefined && suffix[0] !== "" ? suffix[1] : undefined;
  return { path, target, dtype: told ?? guessDtype(path, { folder, target }) };
}

function joinPath(subfolder: string, file: string): string {
  return subfolder === "" ? file : `${subfolder}/${file}`;
}

/** Whether a subfolder has exactly one graph. */
function isAlone({ files }: ModelFolder, subfolder: string): boolean {
  const graphs = [...files].filter((file) =>
    file.endsWith(".onnx") && file.slice(0, Math.max(file.lastIndexOf("/"), 0)) === subfolder
  );
  return graphs.length === 1;
}

/** Guesses the dtype from words in the path, or else in the model's name. */
function guessDtype(
  path: string,
  { folder, target }: { readonly folder: ModelFolder; readonly target: Target },
): Dtype {
  for (const words of [path, toModelName(folder.path)]) {
    if (FOUR_BITS.test(words)) return target === "gpu" || HALF.test(words) ? "q4f16" : "q4";
    if (HALF.test(words)) return "fp16";
    if (EIGHT_BITS.test(words)) return "q8";
  }
  return "fp32";
}

const DTYPES_OF_DEVICE: Readonly<Record<DeviceClass, readonly Dtype[]>> = {
  gpuWithF16: ["q4f16", "q4", "fp16", "fp32", "q8"],
  gpu: ["q4", "fp32", "q8"],
  cpu: ["q4", "q4f16", "q8", "fp32", "fp16"],
};

/** Ranks a variant for a device, the best lowest: by target first, then by dtype, then by arithmetic. */
function rank({ path, dtype, target }: GraphVariant, device: DeviceClass): number {
  const own = device === "cpu" ? "cpu" : "gpu";
  const targetRank = target === own ? 0 : target === "any" ? 1 : 2;
  const dtypes = DTYPES_OF_DEVICE[device];
  const dtypeRank = dtypes.includes(dtype) ? dtypes.indexOf(dtype) : dtypes.length;
  // On the CPU, accuracy level 4 means integer arithmetic, which is faster; on a GPU, exports for WebGPU are preferred.
  const isBest = device === "cpu" ? /acc-level-4/.test(path) : /webgpu/i.test(path);
  return targetRank * 100 + dtypeRank * 10 + (isBest ? 0 : 1);
}
