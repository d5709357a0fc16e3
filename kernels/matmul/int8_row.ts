/**
 * The WGSL of products of one row in 8 bits with weights of 4 bits. Each workgroup rounds the row for itself while its
 * weights are on their way: as many threads as blocks wait for memory together.
 *
 * Products of blocks are kept, and added in their order: results are those of int8_tile.ts, to the bit.
 *
 * @module
 */
import { lines, range } from "../common/written_out.ts";
import { BLOCK, type Int8Params, type Int8Row } from "./int8_shape.ts";
import { MAGIC } from "./int8_tile.ts";

/** Parts in which the squares of a row are added, as quantize_rows.wgsl adds them. */
const GATHERERS = 32;
/** Blocks between two tests of the end of the sum over all. */
const STEPS = [8, 4, 2, 1];

/** What follows rows.wgsl, int8_rows.wgsl, what is made of the sums, and the declarations of the matrix. */
export function int8RowSource(params: Int8Params, { outs, threads, blocks }: Int8Row): string {
  const { k, gate, norm } = params;
  const all = k / BLOCK;
  const outputs = gate ? outs / 2 : outs;
  const units = 4 * blocks;
  const step = STEPS.find((count) => blocks % count === 0)!;
  const items = range(Math.ceil(outs * blocks / threads));
  const rounds = range(Math.ceil(units / threads));
  const each = (numbers: readonly number[], write: (i: number) => string) =>
    lines(numbers.map(write));
  return `
// Words of the row at even places, and at odd ones.
var<workgroup> even_words: array<vec4<u32>, ${blocks}>;
var<workgroup> odd_words: array<vec4<u32>, ${blocks}>;
var<workgroup> row_scales: array<f32, ${blocks}>;
// Of each unit of eight elements.
var<workgroup> largest: array<vec4<f32>, ${blocks}>;
var<workgroup> level_sums: array<vec4<i32>, ${blocks}>;
${
    norm
      ? `var<workgroup> squares: array<f32, ${units}>;
var<workgroup> gathered: array<f32, ${GATHERERS}>;`
      : ""
  }
// Scaled products of the blocks of each output; one of padding keeps threads off each other's banks.
var<workgroup> products: array<f32, ${outs * (blocks + 1)}>;
var<workgroup> totals: array<f32, ${outs}>;

@compute @workgroup_size(${threads})
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let first = group.x * ${outputs}u;
  var total = 0.0;
  ${norm ? "var squares_sum = 0.0;" : ""}
  for (var base = 0u; base < ${all}u; base += ${blocks}u) {
${each(items, (i) => loadItem(params, i, { outs, threads, blocks }))}
${each(rounds, (i) => loadUnit(params, i, { units, threads }))}
    workgroupBarrier();
${each(rounds, (i) => roundUnit(i, { units, threads }))}
${
    norm
      ? `    if (thread < ${GATHERERS}u) {
      for (var unit = thread; unit < ${units}u; unit += ${GATHERERS}u) {
        squares_sum += squares[unit];
      }
    }`
      : ""
  }
    workgroupBarrier();
${each(items, (i) => useItem(params, i, { outs, threads, blocks }))}
    workgroupBarrier();
    if (thread < ${outs}u) {
      for (var block = 0u; block < ${blocks}u; block += ${step}u) {
        let at = thread * ${blocks + 1}u + block;
${
    each(range(step), (i) =>
      `        let product${i} = products[at + ${i}u];
        let scale${i} = row_scales[block + ${i}u];`)
  }
${each(range(step), (i) => `        total = fma(product${i}, scale${i}, total);`)}
      }
    }
${blocks < all ? "    workgroupBarrier();" : ""}
  }
  ${norm ? `if (thread < ${GATHERERS}u) { gathered[thread] = squares_sum; }` : ""}
  if (thread < ${outs}u) { totals[thread] = total; }
  workgroupBarrier();
  let n = first + thread;
  if (thread < ${outputs}u && n < N) {
    let sums_of = vec2<f32>(totals[thread], ${gate ? `totals[thread + ${outputs}u]` : "0.0"});
    finish(n, 0u, sums_of${norm ? " * row_factor()" : ""});
  }
}
${
    norm
      ? `
fn row_factor() -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < ${GATHERERS}u; i++) {
    sum += gathered[i];
  }
  return inverseSqrt(sum / f32(K_FOURS * 4u) + EPSILON);
}`
      : ""
  }
`;
}

/** The condition for a thread's `i`-th of `count`, where not every thread has one. */
function guard(i: number, count: number, threads: number): string {
  return (i + 1) * threads > count ? `if (thread < ${count - i * threads}u) ` : "";
}

/** Loads the weights of a block of an output, and their scale. */
function loadItem(
  { k, weights: { blockSize, hasZeroPoints } }: Int8Params,
  i: number,
  { outs, threads, blocks }: Int8Row,
): string {
  const scaleAt = `(base + block${i}) / ${blockSize / BLOCK}u`;
  return `    let out${i} = (thread + ${i * threads}u) / ${blocks}u;
    let block${i} = (thread + ${i * threads}u) % ${blocks}u;
    var chunk${i}: vec4<u32>;
    var scale${i}: f32;
    ${hasZeroPoints ? `var zero${i}: i32;` : ""}
    ${guard(i, outs * blocks, threads)}{
      let row = matrix_row(first, out${i});
      chunk${i} = levels[row * ${k / BLOCK}u + base + block${i}];
      scale${i} = f32(scales[row * BLOCKS + ${scaleAt}]);
      ${hasZeroPoints ? `zero${i} = i32(zero_point(row, ${scaleAt}));` : ""}
    }`;
}

/** Loads eight elements of the row, and tells the others how large they are. */
function loadUnit(
  { norm }: Int8Params,
  i: number,
  { units, threads }: { readonly units: number; readonly threads: number },
): string {
  const normed = (value: string, at: string) =>
    norm ? `${value} * unpack(affine[AFFINE_AT + ${at}])` : value;
  return `    var a${i}: vec4<f32>;
    var b${i}: vec4<f32>;
    ${guard(i, units, threads)}{
      let unit = thread + ${i * threads}u;
      let at = (base * 4u + unit) * 2u;
      let raw_a = row_four(0u, 0u, at);
      let raw_b = row_four(0u, 0u, at + 1u);
      ${norm ? "squares[unit] = squares_of(raw_a, raw_b);" : ""}
      a${i} = ${normed("raw_a", "at")};
      b${i} = ${normed("raw_b", "(at + 1u)")};
      largest[unit / 4u][unit % 4u] = largest_of(a${i}, b${i});
    }`;
}

function roundUnit(
  i: number,
  { units, threads }: { readonly units: number; readonly threads: number },
): string {
  return `    ${guard(i, units, threads)}{
      let unit = thread + ${i * threads}u;
      let block = unit / 4u;
      let each = largest[block];
      let most = max(max(each.x, each.y), max(each.z, each.w));
      let words = to_levels(a${i}, b${i}, inverse_of(most));
      even_words[block][unit % 4u] = words.x;
      odd_words[block][unit % 4u] = words.y;
      level_sums[block][unit % 4u] = sum_of_levels(words);
      if (unit % 4u == 0u) {
        row_scales[block] = most / 127.0;
      }
    }`;
}

function useItem(
  { weights: { hasZeroPoints } }: Int8Params,
  i: number,
  { outs, threads, blocks }: Int8Row,
): string {
  const dots = (half: string) =>
    [..."xyzw"].map((e) => `dot4I8Packed(${half}_row.${e}, ${half}.${e})`).join(" + ");
  return `    ${guard(i, outs * blocks, threads)}{
      let even = chunk${i} & vec4<u32>(0x0f0f0f0fu);
      let odd = (chunk${i} >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
      let even_row = even_words[block${i}];
      let odd_row = odd_words[block${i}];
      let sums = level_sums[block${i}];
      let sum = sums.x + sums.y + sums.z + sums.w;
      let product = ${MAGIC.bits} - ${hasZeroPoints ? `zero${i}` : "8"} * sum + ${dots("even")} +
        ${dots("odd")};
      products[out${i} * ${blocks + 1}u + block${i}] =
        (bitcast<f32>(product) - ${MAGIC.float}) * scale${i};
    }`;
}
