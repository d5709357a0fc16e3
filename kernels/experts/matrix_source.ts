/**
 * The WGSL that reads the matrices of experts, which lie one after the other, and the rows that they are multiplied with.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { ELEM } from "../common/elem.ts";
import { lines, range } from "../common/unroll.ts";
import type { ExpertProduct } from "./experts_params.ts";

/** A product of rows with the matrices of experts. */
export interface ProductSource extends ExpertProduct {
  /** Type of scales, biases, and of weights that are not in blocks. */
  readonly elem: Elem;
  /** Type of the rows. */
  readonly rows: Elem;
  readonly k: number;
  /** Rows of one expert's matrix. */
  readonly outputs: number;
}

/** Four neighbouring elements, read as u32 where they are halves: that needs no `shader-f16`. */
const FOURS: Readonly<
  Record<Elem, { readonly type: string; readonly read: (at: string) => string }>
> = {
  f32: { type: "vec4<f32>", read: (at) => at },
  f16: {
    type: "vec2<u32>",
    read: (at) => `vec4<f32>(unpack2x16float(${at}.x), unpack2x16float(${at}.y))`,
  },
};

/** Weights along K that a thread reads at a time where few rows are multiplied. */
export function chunkLength({ matrix }: Pick<ExpertProduct, "matrix">): number {
  if (matrix.kind === "rows") return 8;
  return matrix.bits === 4 && matrix.blockSize % 32 === 0 ? 32 : 16;
}

/** Declares `x`, the matrices and their biases, and functions that read them. */
export function matrixSource(
  source: ProductSource,
  reads: { readonly byChunk: boolean },
): string {
  const { elem, rows, k, matrix, hasBias, outputs } = source;
  const x = FOURS[rows];
  return `${ELEM[elem]}
@group(0) @binding(0) var<storage, read> x: array<${x.type}>;
${weightsSource(source, reads.byChunk)}
@group(0) @binding(4) var<storage, read> bias: array<elem>;

fn x_four(at: u32) -> vec4<f32> {
  return ${x.read("x[at]")};
}

fn bias_at(expert: u32, row: u32) -> f32 {
  return ${hasBias ? `f32(bias[expert * ${outputs}u + row])` : "0.0"};
}
${matrix.kind === "nbits" ? scaleSource(matrix, k) : ""}`;
}

function weightsSource({ elem, matrix }: ProductSource, byChunk: boolean): string {
  if (matrix.kind === "rows") {
    return `@group(0) @binding(1) var<storage, read> weights: array<${FOURS[elem].type}>;`;
  }
  const words = byChunk ? chunkLength({ matrix }) * matrix.bits / 32 : 1;
  return `@group(0) @binding(1) var<storage, read> levels: array<${
    words === 1 ? "u32" : `vec${words}<u32>`
  }>;
@group(0) @binding(2) var<storage, read> scales: array<elem>;
@group(0) @binding(3) var<storage, read> zero_points: array<u32>;`;
}

/** A scale and a zero point of a row, counted over all experts. */
function scaleSource(
  { bits, blockSize, hasZeroPoints }: ExpertProduct["matrix"] & { readonly kind: "nbits" },
  k: number,
): string {
  const blocks = k / blockSize;
  const perByte = 8 / bits;
  const zero = `
  let byte = row * ${Math.ceil(blocks / perByte)}u + block / ${perByte}u;
  let level = zero_points[byte / 4u] >> ((byte % 4u) * 8u + (block % ${perByte}u) * ${bits}u);
  return f32(level & ${2 ** bits - 1}u);`;
  return `
fn scale_at(row: u32, block: u32) -> f32 {
  return f32(scales[row * ${blocks}u + block]);
}

fn zero_at(row: u32, block: u32) -> f32 {${
    hasZeroPoints ? zero : `\n  return ${2 ** (bits - 1)}.0;`
  }
}
`;
}

/**
 * Statements that multiply chunk `chunk` of K with some rows of the matrices: `weights` times the products is added to
 * `value0`, `value1` and so on.
 *
 * @param rows names of the rows, counted over all experts.
 * @param xStart the index of the row's first four.
 */
export function multiplyChunk(
  { elem, k, matrix }: ProductSource,
  { rows, xStart, weight }: {
    readonly rows: readonly string[];
    readonly xStart: string;
    readonly weight?: string;
  },
): string {
  const length = chunkLength({ matrix });
  const chunks = k / length;
  const weigh = weight === undefined ? "" : `${weight} * `;
  const loadX = range(length / 4).map((i) =>
    `let x${i} = x_four(${xStart} + chunk * ${length / 4}u + ${i}u);`
  );
  if (matrix.kind === "rows") {
    return lines([
      ...rows.flatMap((row, r) =>
        range(2).map((i) => {
          const at = `weights[${row} * ${k / 4}u + chunk * 2u + ${i}u]`;
          return `let w${r}_${i} = ${FOURS[elem].read(at)};`;
        })
      ),
      ...loadX,
      ...rows.map((_, r) => `value${r} += ${weigh}(dot(w${r}_0, x0) + dot(w${r}_1, x1));`),
    ]);
  }
  const { bits, blockSize } = matrix;
  const words = length * bits / 32;
  const block = `chunk / ${blockSize / length}u`;
  const sums = range(length / 4).map((i) => `x${i}`).join(" + ");
  return lines([
    ...rows.flatMap((row, r) => [
      `let words${r} = levels[${row} * ${chunks}u + chunk];`,
      `let scale${r} = scale_at(${row}, ${block});`,
      `let zero${r} = zero_at(${row}, ${block});`,
    ]),
    ...loadX,
    `let total = dot(${sums}, vec4<f32>(1.0));`,
    ...rows.map((_, r) => `var dot${r} = 0.0;`),
    ...range(words).flatMap((w) => bits === 4 ? multiplyNibbles(w, rows) : multiplyBytes(w, rows)),
    ...rows.map((_, r) => `value${r} += ${weigh}scale${r} * (dot${r} - zero${r} * total);`),
  ]);
}

/** Of the eight levels of a word the even ones are one four, the odd ones another. */
function multiplyNibbles(w: number, rows: readonly string[]): string[] {
  const [a, b] = [`x${2 * w}`, `x${2 * w + 1}`];
  return [
    `let evens${w} = vec4<f32>(${a}.xz, ${b}.xz);`,
    `let odds${w} = vec4<f32>(${a}.yw, ${b}.yw);`,
    ...rows.map((_, r) => {
      const word = `words${r}[${w}]`;
      return `dot${r} += dot(vec4<f32>(unpack4xU8(${word} & 0x0f0f0f0fu)), evens${w}) + ` +
        `dot(vec4<f32>(unpack4xU8((${word} >> 4u) & 0x0f0f0f0fu)), odds${w});`;
    }),
  ];
}

function multiplyBytes(w: number, rows: readonly string[]): string[] {
  return rows.map((_, r) => `dot${r} += dot(vec4<f32>(unpack4xU8(words${r}[${w}])), x${w});`);
}

/** An expression for four weights of a row along K, from the `at`-th four on. */
export function fourWeights({ elem, k, matrix }: ProductSource, row: string, at: string): string {
  if (matrix.kind === "rows") return FOURS[elem].read(`weights[${row} * ${k / 4}u + ${at}]`);
  const { bits, blockSize } = matrix;
  const block = `(${at}) / ${blockSize / 4}u`;
  const word = bits === 4
    ? `levels[${row} * ${k / 8}u + (${at}) / 2u]`
    : `levels[${row} * ${k / 4}u + (${at})]`;
  const levels = bits === 4
    ? `vec4<f32>((vec4<u32>(${word} >> ((${at}) % 2u * 16u)) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u))`
    : `vec4<f32>(unpack4xU8(${word}))`;
  return `(${levels} - zero_at(${row}, ${block})) * scale_at(${row}, ${block})`;
}
