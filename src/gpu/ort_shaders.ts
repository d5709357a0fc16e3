/**
 * Changes shaders of ONNX Runtime before they are compiled: one is fixed, the loops of tiled products are unrolled, and
 * the products of an LSTM's cell are shared among threads.
 *
 * @module
 */

/** Changes every shader module that the device creates from now on. Call it before the first session is created. */
export function changeOrtShaders(device: GPUDevice): void {
  const threads = countCellThreads(device.limits);
  const createShaderModule = device.createShaderModule.bind(device);
  device.createShaderModule = (descriptor) => {
    const code = shareLstmCell(fixConvVec3Source(descriptor.code), threads);
    return createShaderModule({ ...descriptor, code: unrollTiles(code) });
  };
}

/**
 * Fixes a shader of ONNX Runtime 1.30 that silently gives wrong results. Any other shader is unchanged.
 *
 * The shader is Conv2dMM, for a `Conv` whose kernel is larger than 1 and whose number of input channels is a multiple
 * of 3 but not of 4. It loads three channels at once, but computes the index of the first as `xCh / 4`, as if it loaded
 * four. Reported upstream as microsoft/onnxruntime#29651.
 */
export function fixConvVec3Source(code: string): string {
  const isVec3Conv = code.includes("fn mm_readA") && code.includes("-> vec3<x_element_t>");
  return isVec3Conv ? code.replaceAll("xCh / 4", "xCh") : code;
}

/** Maximum number of repetitions of a loop that is unrolled. */
const MAX_REPETITIONS = 32;
/** Maximum number of characters that an unrolled loop may have, loops within it included. */
const MAX_CHARACTERS = 2 ** 16;

/** Names of tiles in the shaders of tiled products, of floats and of block-quantised weights. */
const TILES = /\b(mm_Asub|a_data_tile)\b/;

const LOOP = /for \(var (\w+) = 0(u?); \1 < ([^;]+); (?:\1 = \1 \+ 1|\1\+\+)\) \{/g;
const CONSTANT = /^const (\w+)(?:\s*:\s*\w+)? = (\d+)u?;$/gm;

/**
 * Unrolls the loops of tiled products. Any other shader is unchanged.
 *
 * naga adds a counter to each loop, and a bounds check to each access to an array. Drivers then do not unroll loops,
 * and keep in memory the arrays that loops index. ONNX Runtime's tiled products, which take most of the time of
 * convolutions and matrix products, consist of such loops. If they are unrolled, a tile's sums stay in registers.
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

/** Finds the index of the brace that ends a block. */
function findBlockEnd(code: string, begin: number): number {
  let depth = 1;
  for (let at = begin; at < code.length; at++) {
    if (code[at] === "{") depth++;
    else if (code[at] === "}" && --depth === 0) return at;
  }
  return code.length;
}

/** Evaluates a number, a constant, or the quotient of two. */
function evaluate(bound: string, constants: ReadonlyMap<string, number>): number | undefined {
  const terms = bound.replace(/^i32\((.*)\)$/, "$1").split("/").map((term) => {
    const name = term.trim();
    return /^\d+u?$/.test(name) ? parseInt(name) : constants.get(name);
  });
  const [first, second = 1, ...others] = terms;
  if (others.length > 0 || terms.includes(undefined)) return undefined;
  return Math.floor(first! / second);
}

/** Number of threads that share a hidden unit. */
const TEAM = 32;
const MAX_THREADS = 1024;
/** Bytes of a thread's sums: one f32 for each of four gates. */
const SUM_BYTES = 16;
/** Elements of a row that a thread reads at a time. */
const UNROLLED = 4;

const WORKGROUP_SIZE = "@workgroup_size(workgroup_size_x, workgroup_size_y, workgroup_size_z)";
const UNIT = `  if (global_idx >= B * H) { return; }
  let batch_idx = global_idx / H;
  let j = global_idx % H;
`;
const GATES = ["i", "o", "f", "c"] as const;
const ZEROS = GATES.map((gate) => `  var gate_${gate}: f32 = 0.0;\n`).join("");

/** The product of a vector with the four gates' matrices in a shader. */
interface Product {
  readonly vector: string;
  readonly base: string;
  /** The name of an element. */
  readonly value: string;
  readonly matrix: string;
  readonly length: string;
}

const INPUT: Product = { vector: "x", base: "x_base", value: "xv", matrix: "w", length: "I" };
const STATE: Product = { vector: "h_prev", base: "h_base", value: "hv", matrix: "r", length: "H" };

/**
 * Shares the products of an LSTM's cell among `threads`. Any other shader is unchanged.
 *
 * ONNX Runtime 1.30 runs a step of an LSTM in one workgroup for every 256 hidden units of a batch, in which each thread
 * reads four rows of both matrices from end to end. Neighbouring threads read memory that is far apart, and a step of
 * Kokoro's LSTMs waits for some 900 such reads one after the other. Here 32 neighbouring threads read the rows of a
 * unit side by side, and add up their sums, in another order than before. The rest of the shader and its dispatch do
 * not change.
 */
export function shareLstmCell(code: string, threads: number): string {
  if (threads < TEAM || !code.includes(UNIT) || !code.includes(WORKGROUP_SIZE)) return code;
  const [head, body = ""] = code.split(UNIT);
  // The shader computes the addresses of vectors and matrices before the first loop, and between the loops.
  const [beforeInput, afterInput] = body.split(makeOriginalLoop(INPUT));
  const [beforeState, tail] = afterInput?.split(makeOriginalLoop(STATE)) ?? [];
  // Shaders for sequences of several lengths have a return before the loops. They stay unchanged.
  if (tail === undefined || !beforeInput!.trimStart().startsWith(ZEROS.trimStart())) return code;
  const teams = threads / TEAM;
  const end = tail.lastIndexOf("}");
  return head!.replace(
    `@compute ${WORKGROUP_SIZE}`,
    `var<workgroup> team_sums: array<vec4<f32>, ${threads}>;\n@compute @workgroup_size(${threads})`,
  ) + `
  let lane = local_idx % ${TEAM}u;
  for (var first = 0u; first < workgroup_size_x; first += ${teams}u) {
    let unit = first + local_idx / ${TEAM}u;
    let wanted = workgroup_idx * workgroup_size_x + unit;
    let is_own = unit < workgroup_size_x && wanted < B * H;
    let at = select(0u, wanted, is_own);
    let batch_idx = at / H;
    let j = at % H;
    var sums = vec4<f32>();
    ${beforeInput!.replace(ZEROS, "")}
    ${makeSharedLoop(INPUT)}
    ${beforeState}
    ${makeSharedLoop(STATE)}
    team_sums[local_idx] = sums;
    workgroupBarrier();
    ${makeReduction()}
    if (is_own && lane == 0u) {
      let gates = team_sums[local_idx];
      ${GATES.map((gate, i) => `var gate_${gate} = gates[${i}];`).join(" ")}
      ${tail.slice(0, end)}
    }
    workgroupBarrier();
  }
}`;
}

/** The number of threads for an LSTM's cell on a device. */
function countCellThreads(limits: GPUSupportedLimits): number {
  const most = Math.min(
    MAX_THREADS,
    limits.maxComputeInvocationsPerWorkgroup,
    limits.maxComputeWorkgroupSizeX,
    limits.maxComputeWorkgroupStorageSize / SUM_BYTES,
  );
  return Math.floor(most / TEAM) * TEAM;
}

/** The row of a gate in a matrix. */
function writeRow(gate: number): string {
  return ["j", "(H + j)", "(2u * H + j)", "(3u * H + j)"][gate]!;
}

function makeOriginalLoop({ vector, base, value, matrix, length }: Product): string {
  const sums = GATES.map((gate, i) =>
    `    gate_${gate} += ${value} * f32(${matrix}[${matrix}_base + ${
      writeRow(i)
    } * ${length} + k]);\n`
  );
  return `  for (var k: u32 = 0u; k < ${length}; k++) {
    let ${value} = f32(${vector}[${base} + k]);
${sums.join("")}  }
`;
}

function makeSharedLoop({ vector, base, matrix, length }: Product): string {
  const rows = GATES.map((gate, i) =>
    `let row_${gate} = ${matrix}_base + ${writeRow(i)} * ${length};`
  );
  const add = (k: string) => {
    const elements = GATES.map((gate) => `f32(${matrix}[row_${gate} + ${k}])`);
    return `sums += f32(${vector}[${base} + ${k}]) * vec4<f32>(${elements.join(", ")});`;
  };
  const several = Array.from({ length: UNROLLED }, (_, i) => add(`k + ${i * TEAM}u`));
  return `{
      ${rows.join(" ")}
      var k = lane;
      for (; k + ${(UNROLLED - 1) * TEAM}u < ${length}; k += ${UNROLLED * TEAM}u) {
        ${several.join("\n        ")}
      }
      for (; k < ${length}; k += ${TEAM}u) { ${add("k")} }
    }`;
}

/** Reduces a team's sums into its first thread. */
function makeReduction(): string {
  const steps: string[] = [];
  for (let distance = TEAM / 2; distance >= 1; distance /= 2) {
    steps.push(
      `if (lane < ${distance}u) { team_sums[local_idx] += team_sums[local_idx + ${distance}u]; }
    workgroupBarrier();`,
    );
  }
  return steps.join("\n    ");
}
