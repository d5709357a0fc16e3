/**
 * The WGSL of `matvec` for many rows on graphics cards: 64 rows and 64 columns of the matrix at a time, staged in workgroup
 * memory 32 elements of K deep, each thread with the sums of four rows and eight columns. Loops are written out, see
 * matvec_unrolled.ts.
 *
 * @module
 */
import type { MatvecParams } from "./matvec_params.ts";
import { TILE } from "./matvec_shape.ts";
import { lines, range } from "../common/written_out.ts";

/** Elements of K that are staged at a time. */
const DEPTH = 32;
/** Columns of a thread: where outputs are gated, half of them are of the gate. */
export const TILE_OUTS = 8;
/** Fours of a tile's side. */
const QUADS = TILE / 4;
/** Each thread stages four rows and four columns, four elements of K deep. */
export const TILE_THREADS = QUADS * DEPTH / 4;
/** Steps of K between two tests of the loop's end. */
const STEPS = 8;

/** Whether a product of many rows can be computed in tiles. */
export function takesTiles({ k, norm, sum, weights }: MatvecParams): boolean {
  const isWhole = weights.kind !== "nbits" || k % weights.blockSize === 0;
  return k % DEPTH === 0 && isWhole && norm?.kind !== "layer" && sum === undefined;
}

/** Outputs of a tile. */
export function outputsOfTile({ gate }: MatvecParams): number {
  return gate ? TILE / 2 : TILE;
}

/** What follows matvec_common.wgsl and the declarations of the matrix. */
export function tileSource(params: MatvecParams): string {
  const hasSquares = params.norm !== undefined;
  const rows = range(4);
  const scaled = (r: number) => hasSquares ? ` * scale[${r}]` : "";
  const load = (at: string) =>
    lines([
      ...rows.map((r) => `    x${r} = row_four(row0, quad * 4u + ${r}u, ${at} + depth);`),
      ...loadMatrix(params, `(${at} + depth)`),
    ]);
  return `
var<workgroup> x_tile: array<vec4<f32>, ${DEPTH * QUADS}>;
var<workgroup> w_tile: array<vec4<f32>, ${DEPTH * QUADS}>;

@compute @workgroup_size(${TILE_THREADS})
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * ${TILE}u;
  let outputs = outputs_per_unit();
  // What this thread stages: four rows and four columns, and which four along K.
  let quad = thread % ${QUADS}u;
  let depth = thread / ${QUADS}u;
  let staged = (group.x * ${TILE / TILE_OUTS}u + quad % ${TILE / TILE_OUTS}u) * outputs;
${lines(matrixRows(params))}
  // What it sums: four rows, and eight columns of two quads.
  let lane = thread % ${TILE / TILE_OUTS}u;
  let row_quad = thread / ${TILE / TILE_OUTS}u;
${lines(rows.flatMap((r) => [`  var x${r}: vec4<f32>;`, `  var w${r}: vec4<f32>;`]))}
${lines(rows.flatMap((r) => [0, 1].map((h) => `  var sum${r}_${h} = vec4<f32>();`)))}
  var squares = vec4<f32>();
  {
    let at = 0u;
${load("at")}
  }
  for (var at = 0u; at < ${params.k / 4}u; at += ${DEPTH / 4}u) {
    workgroupBarrier();
    {
${
    hasSquares
      ? `      squares += vec4<f32>(${rows.map((r) => `dot(x${r}, x${r})`).join(", ")});
      let factor = unpack(affine[AFFINE_AT + at + depth]);
${
        params.norm!.hasBeta
          ? "      let offset = unpack(affine[AFFINE_AT + K_FOURS + at + depth]);"
          : ""
      }
${
        lines(
          rows.map((r) =>
            `      x${r} = x${r} * factor${params.norm!.hasBeta ? " + offset" : ""};`
          ),
        )
      }`
      : ""
  }
      let to = depth * ${4 * QUADS}u + quad;
${
    lines(
      ["x", "y", "z", "w"].map((e, i) =>
        `      x_tile[to + ${i * QUADS}u] = vec4<f32>(x0.${e}, x1.${e}, x2.${e}, x3.${e});`
      ),
    )
  }
${
    lines(
      ["x", "y", "z", "w"].map((e, i) =>
        `      w_tile[to + ${i * QUADS}u] = ${
          params.weights.kind === "columns"
            ? `w${i}`
            : `vec4<f32>(w0.${e}, w1.${e}, w2.${e}, w3.${e})`
        };`
      ),
    )
  }
    }
    workgroupBarrier();
    if (at + ${DEPTH / 4}u < ${params.k / 4}u) {
      let next = at + ${DEPTH / 4}u;
${load("next")}
    }
    for (var k = 0u; k < ${DEPTH * QUADS}u; k += ${STEPS * QUADS}u) {
${
    lines(
      range(STEPS).map((step) =>
        `      {
        let a = x_tile[k + ${step * QUADS}u + row_quad];
        let b0 = w_tile[k + ${step * QUADS}u + lane];
        let b1 = w_tile[k + ${step * QUADS + QUADS / 2}u + lane];
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
    hasSquares
      ? `  workgroupBarrier();
  x_tile[depth * ${QUADS}u + quad] = squares;
  workgroupBarrier();
  let all = ${range(DEPTH / 4).map((d) => `x_tile[${d * QUADS}u + row_quad]`).join(" + ")};
  let scale = inverseSqrt(all / f32(K_FOURS * 4u) + EPSILON);`
      : ""
  }
  let n = (group.x * ${TILE / TILE_OUTS}u + lane) * outputs;
${
    lines(rows.map((r) =>
      `  {
    let row = row0 + row_quad * 4u + ${r}u;
${
        lines(
          params.gate
            ? range(4).map((e) =>
              `    if (n + ${e}u < N) { finish(n + ${e}u, row, vec2<f32>(sum${r}_0[${e}], sum${r}_1[${e}])${
                scaled(r)
              }); }`
            )
            : range(8).map((e) =>
              `    if (n + ${e}u < N) { finish(n + ${e}u, row, vec2<f32>(sum${r}_${e >> 2}[${
                e % 4
              }]${scaled(r)}, 0.0)); }`
            ),
        )
      }
  }`
    ))
  }
}
`;
}

/** Which rows or columns of the matrix a thread stages. */
function matrixRows({ weights }: MatvecParams): string[] {
  const first = `(quad / ${TILE / TILE_OUTS}u) * 4u`;
  if (weights.kind === "columns") return [`  let column = matrix_row(staged, ${first});`];
  return range(4).map((c) => `  let matrix_row${c} = matrix_row(staged, ${first} + ${c}u);`);
}

/** Reads four columns by four of K to w0 to w3: of a column each, or of an element of K where columns are neighbours. */
function loadMatrix({ weights, k }: MatvecParams, at: string): string[] {
  switch (weights.kind) {
    case "columns":
      return range(4).map((e) => `    w${e} = load_columns(${at} * 4u + ${e}u, column);`);
    case "rows":
      return range(4).map((c) => `    w${c} = unpack(weights[matrix_row${c} * K_FOURS + ${at}]);`);
    case "nbits": {
      const { bits, blockSize, hasZeroPoints } = weights;
      const chunkWords = Math.min(4, blockSize * bits / 32);
      const words = k * bits / 32;
      const perWord = 8 / bits;
      const [word, part] = perWord === 1
        ? [at, ""]
        : [`(${at} / ${perWord}u)`, `(${at} % ${perWord}u) * ${4 * bits}u`];
      const component = `[${word} % ${chunkWords}u]`;
      return range(4).flatMap((c) => {
        const row = `matrix_row${c}`;
        const value = `levels[${row} * ${
          words / chunkWords
        }u + ${word} / ${chunkWords}u]${component}`;
        const shifts = `vec4<u32>(0u, ${bits}u, ${2 * bits}u, ${3 * bits}u)`;
        const bitsOf = bits === 8
          ? `vec4<f32>(unpack4xU8(${value}))`
          : `vec4<f32>((vec4<u32>(${value} >> (${part})) >> ${shifts}) & vec4<u32>(${
            2 ** bits - 1
          }u))`;
        const block = `${at} / ${blockSize / 4}u`;
        const zero = hasZeroPoints ? `zero_point(${row}, ${block})` : `${2 ** (bits - 1)}.0`;
        return [
          `    w${c} = (${bitsOf} - ${zero}) * f32(scales[${row} * BLOCKS + ${block}]);`,
        ];
      });
    }
  }
}
