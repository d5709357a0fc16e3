/**
 * The WGSL of both products for many rows: rows that have an expert in common are multiplied with its matrices in tiles,
 * staged in workgroup memory 32 elements of K deep. Loops are unrolled, since Deno's WebGPU unrolls none.
 *
 * @module
 */
import { lines, range } from "../common/unroll.ts";
import { activatedSource } from "./activation_source.ts";
import { DEPTH, type ExpertsParams, firstOutputs, gateRows } from "./experts_params.ts";
import { fourWeights, matrixSource, type ProductSource } from "./matrix_source.ts";

/** Rows of a tile. */
export const TILE_ROWS = 32;
/** Rows of a matrix that a tile multiplies. */
const COLUMNS = 64;
const THREADS = 64;
const ROW_QUADS = TILE_ROWS / 4;
const COLUMN_QUADS = COLUMNS / 4;
/** Each thread sums four rows and the columns of two quads so far apart. */
const HALF = COLUMN_QUADS / 2;

/** Outputs of a tile. */
export function outputsPerTile(isGated: boolean): number {
  return isGated ? COLUMNS / 2 : COLUMNS;
}

/** The first product of the rows of an expert, and what follows it. */
export function firstOfMany(params: ExpertsParams, source: ProductSource): string {
  const { topK, x, inner, activation } = params;
  const { step, gate, up } = gateRows(params);
  const isGated = activation.gate !== undefined;
  // Of a gated matrix the first half of a tile's columns are the gate's.
  const columnAt = (half: number, c: number) => {
    const first = isGated ? "" : ` + ${half * HALF * 4}u`;
    const n = `min(first + quad * 4u + ${c}u${first}, ${inner - 1}u)`;
    return `base + ${n} * ${step}u + ${half === 0 ? gate : isGated ? up : gate}u`;
  };
  const write = (n: string, gateSum: string, upSum: string) =>
    `if (${n} < ${inner}u) {
      let up = ${upSum === "" ? "0.0" : `${upSum} + bias_at(expert, ${n} * ${step}u + ${up}u)`};
      let gate = ${gateSum} + bias_at(expert, ${n} * ${step}u + ${gate}u);
      hidden[pair * ${inner}u + ${n}] = activated(gate, up);
    }`;
  const finish = (r: number) =>
    isGated
      ? range(4).map((e) =>
        write(`(first + lane * 4u + ${e}u)`, `sum${r}_0[${e}]`, `sum${r}_1[${e}]`)
      )
      : range(8).map((e) =>
        write(
          `(first + lane * 4u + ${(e >> 2) * HALF * 4 + e % 4}u)`,
          `sum${r}_${e >> 2}[${e % 4}]`,
          "",
        )
      );
  return `${matrixSource(source, { byChunk: false })}
${activatedSource(activation)}
@group(0) @binding(5) var<storage, read> order: array<u32>;
@group(0) @binding(6) var<storage, read_write> hidden: array<f32>;
${
    tileSource(source, {
      name: "experts_first",
      matrixRows: firstOutputs(params),
      outputs: outputsPerTile(isGated),
      columnAt,
      rowStart: (pair) => `${pair} / ${topK}u * ${x.stride / 4}u + ${x.offset / 4}u`,
      finish,
    })
  }`;
}

/** The second product of the rows of an expert, to be weighed and added up: `products[row, j]` of expert `j` of a row. */
export function secondOfMany({ hidden, inner }: ExpertsParams, source: ProductSource): string {
  return `${matrixSource(source, { byChunk: false })}
@group(0) @binding(5) var<storage, read> order: array<u32>;
@group(0) @binding(6) var<storage, read_write> products: array<f32>;
${
    tileSource(source, {
      name: "experts_second",
      matrixRows: hidden,
      outputs: COLUMNS,
      columnAt: (half, c) =>
        `base + min(first + quad * 4u + ${half * HALF * 4 + c}u, ${hidden - 1}u)`,
      rowStart: (pair) => `${pair} * ${inner / 4}u`,
      finish: (r) =>
        range(8).map((e) => {
          const n = `(first + lane * 4u + ${(e >> 2) * HALF * 4 + e % 4}u)`;
          return `if (${n} < ${hidden}u) {
      products[pair * ${hidden}u + ${n}] = sum${r}_${e >> 2}[${e % 4}] + bias_at(expert, ${n});
    }`;
        }),
    })
  }`;
}

/** What differs between the tiles of the two products. */
interface Tile {
  readonly name: string;
  /** Rows of one expert's matrix. */
  readonly matrixRows: number;
  readonly outputs: number;
  /** The row of the matrices that column `c` of this thread's quad in a half of the tile is. */
  readonly columnAt: (half: number, c: number) => string;
  /** Where the row of a pair begins in `x`, in fours. */
  readonly rowStart: (pair: string) => string;
  readonly finish: (r: number) => readonly string[];
}

function tileSource(source: ProductSource, tile: Tile): string {
  const fours = source.k / 4;
  const rows = range(4);
  const load = (at: string) =>
    lines([
      ...rows.map((r) => `    x${r} = x_four(start${r} + ${at} + depth);`),
      ...range(8).map((c) => `    w${c} = ${fourWeights(source, `column${c}`, `${at} + depth`)};`),
    ]);
  // Padding repeats the tile's first pair, which is always there.
  const pairAt = (r: number) => `order[${ORDER_AT_TILE} + row_quad * 4u + ${r}u]`;
  return `
var<workgroup> x_tile: array<vec4<f32>, ${DEPTH * ROW_QUADS}>;
var<workgroup> w_tile: array<vec4<f32>, ${DEPTH * COLUMN_QUADS}>;

@compute @workgroup_size(${THREADS})
fn ${tile.name}(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  if (group.y >= order[0]) {
    return;
  }
  let expert = order[${ORDER_HEADER}u + group.y];
  let base = expert * ${tile.matrixRows}u;
  let first = group.x * ${tile.outputs}u;
  let tile_start = order[1] + group.y * ${TILE_ROWS}u;
  // What this thread stages: four rows, two quads of columns, and which four along K.
  let quad = thread % ${HALF}u;
  let depth = thread / ${HALF}u;
${
    lines(rows.flatMap((r) => [
      `  let listed${r} = order[tile_start + quad * 4u + ${r}u];`,
      `  let start${r} = ${
        tile.rowStart(`select(listed${r}, order[tile_start], listed${r} == ${NO_PAIR})`)
      };`,
    ]))
  }
${lines(range(8).map((c) => `  let column${c} = ${tile.columnAt(c >> 2, c % 4)};`))}
  // What it sums: four rows, and the columns of two quads.
  let lane = thread % ${HALF}u;
  let row_quad = thread / ${HALF}u;
${lines(rows.map((r) => `  var x${r}: vec4<f32>;`))}
${lines(range(8).map((c) => `  var w${c}: vec4<f32>;`))}
${lines(rows.flatMap((r) => [0, 1].map((h) => `  var sum${r}_${h} = vec4<f32>();`)))}
  {
    let at = 0u;
${load("at")}
  }
  for (var at = 0u; at < ${fours}u; at += ${DEPTH / 4}u) {
    workgroupBarrier();
${
    lines(["x", "y", "z", "w"].flatMap((e, i) => [
      `    x_tile[(depth * 4u + ${i}u) * ${ROW_QUADS}u + quad] = vec4<f32>(x0.${e}, x1.${e}, x2.${e}, x3.${e});`,
      `    w_tile[(depth * 4u + ${i}u) * ${COLUMN_QUADS}u + quad] = vec4<f32>(w0.${e}, w1.${e}, w2.${e}, w3.${e});`,
      `    w_tile[(depth * 4u + ${i}u) * ${COLUMN_QUADS}u + quad + ${HALF}u] = vec4<f32>(w4.${e}, w5.${e}, w6.${e}, w7.${e});`,
    ]))
  }
    workgroupBarrier();
    if (at + ${DEPTH / 4}u < ${fours}u) {
      let next = at + ${DEPTH / 4}u;
${load("next")}
    }
    for (var k = 0u; k < ${DEPTH}u; k += ${STEPS}u) {
${
    lines(
      range(STEPS).map((i) =>
        `      {
        let a = x_tile[(k + ${i}u) * ${ROW_QUADS}u + row_quad];
        let b0 = w_tile[(k + ${i}u) * ${COLUMN_QUADS}u + lane];
        let b1 = w_tile[(k + ${i}u) * ${COLUMN_QUADS}u + lane + ${HALF}u];
${
          lines(
            rows.flatMap((r) =>
              [0, 1].map((h) =>
                `        sum${r}_${h} = fma(vec4<f32>(a[${r}]), b${h}, sum${r}_${h});`
              )
            ),
          )
        }
      }`
      ),
    )
  }
    }
  }
${
    lines(rows.map((r) =>
      `  {
    let pair = ${pairAt(r)};
    if (pair != ${NO_PAIR}) {
${lines(tile.finish(r))}
    }
  }`
    ))
  }
}
`;
}

/** Steps along K between two tests of the loop's end. */
const STEPS = 8;
/** Words before the experts of the tiles: how many tiles there are, and where their rows begin. */
const ORDER_HEADER = 2;
const ORDER_AT_TILE = "tile_start";
/** In place of a pair where an expert has no more. */
const NO_PAIR = "0xffffffffu";

/** Most tiles of so many rows. */
export function mostTiles({ topK, experts }: ExpertsParams, numRows: number): number {
  const pairs = numRows * topK;
  return Math.ceil(pairs / TILE_ROWS) + Math.min(experts, pairs);
}

/** Words of the order of so many rows. */
export function orderWords(params: ExpertsParams, maxRows: number): number {
  return ORDER_HEADER + mostTiles(params, maxRows) * (1 + TILE_ROWS);
}
