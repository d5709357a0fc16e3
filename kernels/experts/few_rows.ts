/**
 * The WGSL of both products for few rows: each row is multiplied with the matrices of its own experts. Loops are written
 * out, since Deno's WebGPU unrolls none.
 *
 * @module
 */
import { lines, range } from "../common/unroll.ts";
import { activatedSource } from "./activation_source.ts";
import { type ExpertsParams, firstOutputs, gateRows } from "./experts_params.ts";
import { chunkLength, matrixSource, multiplyChunk, type ProductSource } from "./matrix_source.ts";

/** Threads that sum a row of a matrix, along K. */
const LANES = 32;
/** Rows of matrices that these threads sum together. */
const ROWS = 4;
/** Such groups of threads. */
const UNITS = 4;
const THREADS = LANES * UNITS;
/** One float of padding keeps threads off each other's banks. */
const STRIDE = LANES + 1;

/** Outputs of a workgroup. */
export function outputsPerGroup(isGated: boolean): number {
  return UNITS * (isGated ? ROWS / 2 : ROWS);
}

/** The first product of a row with each of its experts, and what follows it: `hidden[row, j]` of expert `j` of a row. */
export function firstOfFew(params: ExpertsParams, source: ProductSource): string {
  const { topK, x, inner, activation } = params;
  const isGated = activation.gate !== undefined;
  const perUnit = isGated ? ROWS / 2 : ROWS;
  const { step, gate, up } = gateRows(params);
  const rowAt = (r: number) => {
    const n = `min(first + ${r % perUnit}u, ${inner - 1}u)`;
    return `base + ${n} * ${step}u + ${r < perUnit ? gate : up}u`;
  };
  return `${matrixSource(source, { byChunk: true })}
${activatedSource(activation)}
@group(0) @binding(5) var<storage, read> routes: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> hidden: array<f32>;
${SUMS}
@compute @workgroup_size(${THREADS})
fn experts_first(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let pair = group.y;
  let expert = routes[pair].x;
  let base = expert * ${firstOutputs(params)}u;
  let x_start = pair / ${topK}u * ${x.stride / 4}u + ${x.offset / 4}u;
  let lane = thread % ${LANES}u;
  let unit = thread / ${LANES}u;
  let first = (group.x * ${UNITS}u + unit) * ${perUnit}u;
${sumRows(source, { rowAt, xStart: "x_start" })}
  for (var i = thread; i < ${UNITS * perUnit}u; i += ${THREADS}u) {
    let of_unit = i / ${perUnit}u;
    let r = i % ${perUnit}u;
    let n = (group.x * ${UNITS}u + of_unit) * ${perUnit}u + r;
    if (n < ${inner}u) {
      let gate = sum_at(of_unit, r) + bias_at(expert, n * ${step}u + ${gate}u);
      ${
    isGated
      ? `let up = sum_at(of_unit, r + ${perUnit}u) + bias_at(expert, n * ${step}u + ${up}u);`
      : "let up = 0.0;"
  }
      hidden[pair * ${inner}u + n] = activated(gate, up);
    }
  }
}
`;
}

/** The second product, of all experts of a row, weighed and added up in their order. */
export function secondOfFew({ topK, hidden, inner }: ExpertsParams, source: ProductSource): string {
  const rowAt = (r: number) => `base + min(first + ${r}u, ${hidden - 1}u)`;
  return `${matrixSource(source, { byChunk: true })}
@group(0) @binding(5) var<storage, read> routes: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> out: array<elem>;
${SUMS}
@compute @workgroup_size(${THREADS})
fn experts_second(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = group.y;
  let lane = thread % ${LANES}u;
  let unit = thread / ${LANES}u;
  let first = (group.x * ${UNITS}u + unit) * ${ROWS}u;
${lines(range(ROWS).map((r) => `  var value${r} = 0.0;`))}
  for (var j = 0u; j < ${topK}u; j++) {
    let route = routes[row * ${topK}u + j];
    let base = route.x * ${hidden}u;
    let share = bitcast<f32>(route.y);
    let x_start = (row * ${topK}u + j) * ${inner / 4}u;
${chunkLoop(source, { rowAt, xStart: "x_start", weight: "share" })}
  }
${storeSums()}
  for (var i = thread; i < ${UNITS * ROWS}u; i += ${THREADS}u) {
    let n = group.x * ${UNITS * ROWS}u + i;
    if (n < ${hidden}u) {
      var sum = sum_at(i / ${ROWS}u, i % ${ROWS}u);
      for (var j = 0u; j < ${topK}u; j++) {
        let route = routes[row * ${topK}u + j];
        sum += bitcast<f32>(route.y) * bias_at(route.x, n);
      }
      out[row * ${hidden}u + n] = elem(sum);
    }
  }
}
`;
}

const SUMS = `
var<workgroup> sums: array<f32, ${ROWS * UNITS * STRIDE}>;

fn sum_at(unit: u32, r: u32) -> f32 {
  let at = (r * ${UNITS}u + unit) * ${STRIDE}u;
  return ${
  range(4).map((chain) =>
    `(${range(LANES / 4).map((i) => `sums[at + ${4 * i + chain}u]`).join(" + ")})`
  ).join(" + ")
};
}
`;

interface Rows {
  /** An expression for a row of the matrices. */
  readonly rowAt: (r: number) => string;
  readonly xStart: string;
  readonly weight?: string;
}

function sumRows(source: ProductSource, rows: Rows): string {
  return lines([
    ...range(ROWS).map((r) => `  var value${r} = 0.0;`),
    chunkLoop(source, rows),
    storeSums(),
  ]);
}

function chunkLoop(source: ProductSource, { rowAt, xStart, weight }: Rows): string {
  const chunks = source.k / chunkLength(source);
  const rows = range(ROWS).map((r) => `row${r}`);
  return `
${lines(range(ROWS).map((r) => `    let row${r} = ${rowAt(r)};`))}
    for (var chunk = lane; chunk < ${chunks}u; chunk += ${LANES}u) {
${multiplyChunk(source, { rows, xStart, ...weight && { weight } })}
    }`;
}

function storeSums(): string {
  return lines([
    ...range(ROWS).map((r) => `  sums[(${r * UNITS}u + unit) * ${STRIDE}u + lane] = value${r};`),
    "  workgroupBarrier();",
  ]);
}
