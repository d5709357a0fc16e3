/**
 * The WGSL of products of rows in 8 bits with weights of 4 bits, for many rows or a few: a tile of rows and columns for
 * each workgroup, staged in workgroup memory some blocks of 32 elements at a time while the next are on their way.
 *
 * The products of a block are whole numbers, exact; blocks are added one after the other in f32. So a row's result
 * depends neither on the tile nor on the rows beside it. Loops are written out, see matvec_unrolled.ts.
 *
 * @module
 */
import { lines, range } from "../common/written_out.ts";
import { BLOCK, type Int8Params, int8Threads, type Int8Tile } from "./int8_shape.ts";

/** 1.5 · 2^23: a small whole number that is added to its bits is the number's float after the subtraction of the same. */
export const MAGIC = { bits: 0x4b400000, float: "12582912.0" };

/** What a thread brings to workgroup memory, a number of times. */
interface Slot {
  /** Which of the stage's. */
  readonly at: string;
  /** The condition for it, where not every thread has one. */
  readonly guard: string;
  readonly s: number;
}

/** What follows int8_rows.wgsl, what is made of the sums, and the declarations of the matrix. */
export function int8TileSource(params: Int8Params, tile: Int8Tile): string {
  const { rows, columns, threadRows, threadColumns, depth, isDouble } = tile;
  const blocks = params.k / BLOCK;
  const [rowLanes, columnLanes] = [rows / threadRows, columns / threadColumns];
  const stages = isDouble ? 2 : 1;
  const staging = writeStaging(params, tile);
  const sums = range(threadRows).flatMap((i) => range(threadColumns).map((j) => `sum${i}_${j}`));
  const loop = `for (var block = 0u; block < ${blocks}u; block += ${depth}u)`;
  const next = `let next = min(block + ${depth}u, ${blocks - depth}u);`;
  return `
// See int8_rows.wgsl: words, and the same as factors.
@group(0) @binding(0) var<storage, read> rounded: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> factors: array<vec2<u32>>;

// What threads of one lane read, one after the other; one of padding keeps lanes off each other's banks.
var<workgroup> row_words: array<array<vec4<u32>, ${2 * threadRows * depth + 1}>, ${
    stages * rowLanes
  }>;
var<workgroup> row_factors: array<array<vec2<u32>, ${threadRows * depth + 1}>, ${
    stages * rowLanes
  }>;
var<workgroup> column_words: array<array<vec4<u32>, ${2 * threadColumns * depth + 1}>, ${
    stages * columnLanes
  }>;
// Scale and zero point.
var<workgroup> column_scales: array<array<vec2<f32>, ${threadColumns * depth + 1}>, ${
    stages * columnLanes
  }>;

@compute @workgroup_size(${int8Threads(tile)})
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * ${rows}u;
  let column_lane = thread % ${columnLanes}u;
  let row_lane = thread / ${columnLanes}u;
${staging.declare}
${lines(sums.map((sum) => `  var ${sum} = 0.0;`))}
${staging.load("0u")}
${
    isDouble
      ? `${staging.store("0u")}
  workgroupBarrier();
  var stage = 0u;
  ${loop} {
    ${next}
${staging.load("next")}
${addStage(params, tile, "stage")}
    stage = 1u - stage;
${staging.store("stage")}
    workgroupBarrier();
  }`
      : `  ${loop} {
    workgroupBarrier();
${staging.store("0u")}
    workgroupBarrier();
    ${next}
${staging.load("next")}
${addStage(params, tile, "0u")}
  }`
  }
${lines(range(threadRows).map((i) => finishRow(params, tile, i)))}
}

fn row_factor(row: u32) -> f32 {
  return bitcast<f32>(factors[row_factor_at(row, ${blocks}u)][row % 2u]);
}
`;
}

/** How many times a thread brings one of `total`. */
function divide(total: number, threads: number): Slot[] {
  return range(Math.ceil(total / threads)).map((s) => ({
    s,
    at: `(thread + ${s * threads}u)`,
    guard: (s + 1) * threads > total ? `if (thread < ${total - s * threads}u) ` : "",
  }));
}

/** Loads a stage to registers, and stores it: words and factors of rows; columns, taken apart, and their scales. */
function writeStaging(params: Int8Params, tile: Int8Tile) {
  const { rows, columns, threadRows, threadColumns, depth } = tile;
  const { k, gate, weights: { blockSize, hasZeroPoints } } = params;
  const threads = int8Threads(tile);
  const [rowLanes, columnLanes] = [rows / threadRows, columns / threadColumns];
  const blocks = k / BLOCK;
  const words = divide(2 * depth * rows, threads);
  const factors = divide(depth * rows, threads);
  const chunks = divide(depth * columns, threads);
  const first = `group.x * ${gate ? columns / 2 : columns}u`;
  const declare = lines([
    ...words.map(({ s, at }) =>
      `  let word_row${s} = ${at} % ${rows}u;
  let word_half${s} = ${at} / ${rows}u;
  let word_at${s} = levels_at(row0 + word_row${s}, 0u, ${blocks}u) + word_half${s} * 64u;
  let word_to${s} = word_half${s} * ${threadRows}u + word_row${s} / ${rowLanes}u;
  var word${s}: vec4<u32>;`
    ),
    ...factors.map(({ s, at }) =>
      `  let factor_row${s} = ${at} % ${rows}u;
  let factor_block${s} = ${at} / ${rows}u;
  let factor_at${s} = factors_at(row0 + factor_row${s}, factor_block${s}, ${blocks}u);
  let factor_to${s} = factor_block${s} * ${threadRows}u + factor_row${s} / ${rowLanes}u;
  var factor${s}: vec2<u32>;`
    ),
    ...chunks.map(({ s, at }) =>
      `  let chunk_column${s} = ${at} / ${depth}u;
  let chunk_block${s} = ${at} % ${depth}u;
  let chunk_row${s} = matrix_row(${first}, chunk_column${s});
  let chunk_to${s} = chunk_block${s} * ${threadColumns}u + chunk_column${s} / ${columnLanes}u;
  var chunk${s}: vec4<u32>;
  var scale${s}: vec2<f32>;`
    ),
  ]);
  const load = (block: string) =>
    lines([
      ...words.map(({ s, guard }) =>
        `    ${guard}{ word${s} = rounded[word_at${s} + ${block} * 128u]; }`
      ),
      ...factors.map(({ s, guard }) =>
        `    ${guard}{ factor${s} = factors[factor_at${s} + ${block} * 64u]; }`
      ),
      ...chunks.map(({ s, guard }) => {
        const at = `(${block} + chunk_block${s}) / ${blockSize / BLOCK}u`;
        return `    ${guard}{
      chunk${s} = levels[chunk_row${s} * ${blocks}u + ${block} + chunk_block${s}];
      scale${s}.x = f32(scales[chunk_row${s} * BLOCKS + ${at}]);
      ${hasZeroPoints ? `scale${s}.y = zero_point(chunk_row${s}, ${at});` : ""}
    }`;
      }),
    ]);
  // Without zero points, what a row's products begin with follows from the row alone.
  const begin = (factor: string) =>
    hasZeroPoints ? factor : `vec2<u32>(${factor}.x, ${MAGIC.bits}u - 8u * ${factor}.y)`;
  const store = (stage: string) =>
    lines([
      ...words.map(({ s, guard }) =>
        `    ${guard}{ row_words[${stage} * ${rowLanes}u + word_row${s} % ${rowLanes}u][word_to${s}] = word${s}; }`
      ),
      ...factors.map(({ s, guard }) =>
        `    ${guard}{ row_factors[${stage} * ${rowLanes}u + factor_row${s} % ${rowLanes}u][factor_to${s}] = ${
          begin(`factor${s}`)
        }; }`
      ),
      ...chunks.map(({ s, guard }) =>
        `    ${guard}{
      let lane = ${stage} * ${columnLanes}u + chunk_column${s} % ${columnLanes}u;
      let to = chunk_to${s} + chunk_block${s} * ${threadColumns}u;
      column_words[lane][to] = chunk${s} & vec4<u32>(0x0f0f0f0fu);
      column_words[lane][to + ${threadColumns}u] = (chunk${s} >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
      column_scales[lane][chunk_to${s}] = scale${s};
    }`
      ),
    ]);
  return { declare, load, store };
}

/** Adds the products of a stage's blocks. */
function addStage(params: Int8Params, tile: Int8Tile, stage: string): string {
  const { rows, columns, threadRows, threadColumns, depth } = tile;
  const { hasZeroPoints } = params.weights;
  const dots = (i: number) =>
    ["even", "odd"].flatMap((half) =>
      [..."xyzw"].map((e) => `dot4I8Packed(${half}${i}.${e}, ${half}.${e})`)
    ).join(" + ");
  const begin = (i: number) => hasZeroPoints ? `${MAGIC.bits} - zero * begin${i}` : `begin${i}`;
  const addColumn = (d: number, j: number) =>
    `      {
        let even = column_words[column_at][${2 * d * threadColumns + j}u];
        let odd = column_words[column_at][${(2 * d + 1) * threadColumns + j}u];
        let scale = column_scales[column_at][${d * threadColumns + j}u];
        ${hasZeroPoints ? "let zero = i32(scale.y);" : ""}
${
      lines(
        range(threadRows).map((i) =>
          `        sum${i}_${j} = fma((bitcast<f32>(${begin(i)} + ${
            dots(i)
          }) - ${MAGIC.float}) * scale.x, scale${i}, sum${i}_${j});`
        ),
      )
    }
      }`;
  const addBlock = (d: number) =>
    `    {
${
      lines(
        range(threadRows).map((i) =>
          `      let even${i} = row_words[row_at][${2 * d * threadRows + i}u];
      let odd${i} = row_words[row_at][${(2 * d + 1) * threadRows + i}u];
      let factor${i} = row_factors[row_at][${d * threadRows + i}u];
      let scale${i} = bitcast<f32>(factor${i}.x);
      let begin${i} = bitcast<i32>(factor${i}.y);`
        ),
      )
    }
${lines(range(threadColumns).map((j) => addColumn(d, j)))}
    }`;
  return `    let row_at = ${stage} * ${rows / threadRows}u + row_lane;
    let column_at = ${stage} * ${columns / threadColumns}u + column_lane;
${lines(range(depth).map(addBlock))}`;
}

/** Writes the outputs of a thread's row; where gated, its first half of columns is of the gate. */
function finishRow({ gate }: Int8Params, tile: Int8Tile, i: number): string {
  const { rows, columns, threadRows, threadColumns } = tile;
  const columnLanes = columns / threadColumns;
  const count = gate ? threadColumns / 2 : threadColumns;
  return `  {
    let row = row0 + row_lane + ${i * rows / threadRows}u;
    let factor = row_factor(row);
${
    lines(
      range(count).map((j) => {
        const other = gate ? `sum${i}_${j + count}` : "0.0";
        return `    {
      let n = group.x * ${gate ? columns / 2 : columns}u + column_lane + ${j * columnLanes}u;
      if (n < N) { finish(n, row, vec2<f32>(sum${i}_${j}, ${other}) * factor); }
    }`;
      }),
    )
  }
  }`;
}
