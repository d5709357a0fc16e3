/**
 * Changes shaders of ONNX Runtime on their way to the device: one is fixed, the loops of tiled products are unrolled, and
 * the products of an LSTM's cell are shared among threads (`lstm_cell_shader.ts`).
 *
 * @module
 */
import { cellThreads, shareLstmCell } from "./lstm_cell_shader.ts";

/** Changes every shader module that the device creates from now on. Call it before the first ORT session. */
export function changeOrtShaders(device: GPUDevice): void {
  const threads = cellThreads(device.limits);
  const createShaderModule = device.createShaderModule.bind(device);
  device.createShaderModule = (descriptor) => {
    const code = shareLstmCell(fixConvVec3Source(descriptor.code), threads);
    return createShaderModule({ ...descriptor, code: unrollTiles(code) });
  };
}

/**
 * Fixes a shader of ONNX Runtime 1.30 that silently gives wrong results; any other shader is unchanged.
 *
 * For Conv with a kernel above 1 and input channels that divide by 3 but not by 4, ORT's Conv2dMM loads
 * three channels at once, yet computes the index of the first as `xCh / 4`, as if it still counted in vec4.
 * Reported upstream as microsoft/onnxruntime#29651.
 */
export function fixConvVec3Source(code: string): string {
  const isVec3Conv = code.includes("fn mm_readA") && code.includes("-> vec3<x_element_t>");
  return isVec3Conv ? code.replaceAll("xCh / 4", "xCh") : code;
}

/** Most repetitions of a loop that is unrolled. */
const MAX_REPETITIONS = 32;
/** Most characters that an unrolled loop may have, loops within it included. */
const MAX_CHARACTERS = 2 ** 16;

/** Names of tiles in the shaders of tiled products, of floats and of block-quantised weights. */
const TILES = /\b(mm_Asub|a_data_tile)\b/;

const LOOP = /for \(var (\w+) = 0(u?); \1 < ([^;]+); (?:\1 = \1 \+ 1|\1\+\+)\) \{/g;
const CONSTANT = /^const (\w+)(?:\s*:\s*\w+)? = (\d+)u?;$/gm;

/**
 * Unrolls the loops of tiled products; any other shader is unchanged.
 *
 * naga gives each loop a counter of its own and each access to an array a check of its bounds, so that drivers do not
 * unroll loops, and keep arrays that are indexed by them in memory. ONNX Runtime's tiled products, which are most of
 * the time of convolutions and matrix products, consist of such loops: unrolled, with fixed numbers, a tile's sums stay
 * in registers.
 */
export function unrollTiles(code: string): string {
  return TILES.test(code) ? unrollLoops(code) : code;
}

/** Unrolls loops that count from 0 to a constant without leaving early. */
export function unrollLoops(code: string): string {
  const constants = new Map(
    [...code.matchAll(CONSTANT)].map(([, name, value]) => [name!, Number(value)]),
  );
  return unroll(code, constants);
}

function unroll(code: string, constants: ReadonlyMap<string, number>): string {
  let result = "";
  let at = 0;
  for (const match of code.matchAll(LOOP)) {
    if (match.index < at) continue;
    const [head, counter, unsigned, bound] = match as unknown as [string, string, string, string];
    const begin = match.index + head.length;
    const end = findBlockEnd(code, begin);
    const body = unroll(code.slice(begin, end), constants);
    const count = evaluate(bound, constants);
    const isShort = count !== undefined && count <= MAX_REPETITIONS &&
      count * body.length <= MAX_CHARACTERS && !/\b(break|continue)\b/.test(body);
    result += code.slice(at, match.index);
    if (!isShort) result += `${head}${body}}`;
    else {
      const type = unsigned ? "u32" : "i32";
      for (let i = 0; i < count; i++) result += `{ const ${counter}: ${type} = ${i};${body}}\n`;
    }
    at = end + 1;
  }
  return result + code.slice(at);
}

/** The index of the brace that ends a block. */
function findBlockEnd(code: string, begin: number): number {
  let depth = 1;
  for (let at = begin; at < code.length; at++) {
    if (code[at] === "{") depth++;
    else if (code[at] === "}" && --depth === 0) return at;
  }
  return code.length;
}

/** A number, a constant, or the quotient of two. */
function evaluate(bound: string, constants: ReadonlyMap<string, number>): number | undefined {
  const terms = bound.replace(/^i32\((.*)\)$/, "$1").split("/").map((term) => {
    const name = term.trim();
    return /^\d+u?$/.test(name) ? parseInt(name) : constants.get(name);
  });
  const [first, second = 1, ...others] = terms;
  if (others.length > 0 || terms.includes(undefined)) return undefined;
  return Math.floor(first! / second);
}
