/**
 * The WGSL of `matvec` for graphics cards, its loops over rows, outputs and elements written out.
 *
 * Deno's WebGPU adds a bound to each access of an array and a counter to each loop, so that drivers unroll no loop, and
 * what a loop indexes lies in memory: here each sum is a variable of its own, and a thread's loads stand side by side.
 *
 * @module
 */
import type { MatvecParams } from "./matvec_params.ts";
import { chooseValues, type MatvecForm, numSumsPerPass } from "./matvec_shape.ts";
import { lines, range } from "../common/written_out.ts";

/** Most chunks of a lane whose loads all stand before the first use. */
const MOST_CHUNKS = 4;
/** Steps along K between two tests of the loop's end. */
const STEPS = 4;

/** What follows matvec_common.wgsl and the declarations of the matrix: products, their sums over lanes, the entry point. */
export function unrolledSource(params: MatvecParams, form: MatvecForm): string {
  const { lanes, groups, unitsFirst } = form;
  const values = chooseValues(params, form);
  return `
var<workgroup> totals: array<f32, ${values.count * groups}>;

@compute @workgroup_size(THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * ROWS;
  let lane = ${unitsFirst ? `thread / ${groups}u` : `thread % ${lanes}u`};
  let unit = ${unitsFirst ? `thread % ${groups}u` : `thread / ${lanes}u`};
  let first = (group.x * GROUPS + unit) * outputs_per_unit();
  prepare_rows(row0, thread);
  ${params.norm?.kind === "layer" ? "measure_rows(row0, thread);" : ""}
${lines(range(values.count).map((v) => `  var value${v} = 0.0;`))}
${accumulate(params, form)}
${addLanes(params, form)}
  workgroupBarrier();
  let outputs = outputs_per_unit();
  for (var i = thread; i < GROUPS * outputs * ROWS; i += THREADS) {
    let of_unit = i % GROUPS;
    let o = (i / GROUPS) % outputs;
    let r = i / (GROUPS * outputs);
    let n = (group.x * GROUPS + of_unit) * outputs + o;
    if (n < N) {
      let at = r * ${values.perRow}u + o;
      var value = vec2<f32>(totals[at * GROUPS + of_unit], 0.0);
      if (IS_GATED) {
        value.y = totals[(at + outputs) * GROUPS + of_unit];
      }
      ${
    values.hasSquares
      ? `value *= inverseSqrt(
        totals[(r * ${values.perRow}u + OUTS) * GROUPS + of_unit] / f32(K_FOURS * 4u) + EPSILON,
      );`
      : ""
  }
      finish(n, row0 + r, value);
    }
  }
}
`;
}

/** The sums of one lane. */
function accumulate(params: MatvecParams, form: MatvecForm): string {
  const { weights, k } = params;
  const { lanes, outs } = form;
  const matrixRows = lines(range(outs).map((o) => `  let row_${o} = matrix_row(first, ${o}u);`));
  if (weights.kind === "nbits") {
    const levels = chunkLevels(weights);
    const chunks = k / levels;
    const body = (c: number | "") =>
      nbitsChunk({ ...params, weights }, form, { at: `chunk${c}`, suffix: `${c}` });
    const perLane = chunks / lanes;
    if (Number.isInteger(perLane) && perLane <= MOST_CHUNKS) {
      const steps = range(perLane).map((i) => {
        const { loads, uses } = body(i);
        return { loads: `  let chunk${i} = lane + ${i * lanes}u;\n${loads}`, uses };
      });
      return lines([
        matrixRows,
        ...steps.map(({ loads }) => loads),
        ...steps.map(({ uses }) => `  {\n${uses}\n  }`),
      ]);
    }
    const { loads, uses } = body("");
    return `${matrixRows}
  for (var chunk = lane; chunk < ${chunks}u; chunk += ${lanes}u) {
${loads}
${uses}
  }`;
  }
  const fours = k / 4;
  const steps = fours % (lanes * STEPS) === 0 ? STEPS : 1;
  const each = range(steps).map((i) =>
    weights.kind === "rows"
      ? rowsStep(params, form, { at: `at${i}`, suffix: `${i}` })
      : columnsStep(params, form, { at: `at${i}`, suffix: `${i}` })
  );
  const columns = lines(
    range(outs / 4).map((q) => `  let column_${q} = matrix_row(first, ${4 * q}u);`),
  );
  return `${weights.kind === "rows" ? matrixRows : columns}
  for (var at = lane; at < ${fours}u; at += ${lanes * steps}u) {
${lines(range(steps).map((i) => `    let at${i} = at + ${i * lanes}u;`))}
${lines(each.map(({ loads }) => loads))}
${lines(each.map(({ uses }) => `  {\n${uses}\n  }`))}
  }`;
}

interface Step {
  /** The WGSL variable of the position along K, in chunks or fours. */
  readonly at: string;
  readonly suffix: string;
}

/** A step's statements, those that read the matrix apart from the rest. */
interface Statements {
  readonly loads: string;
  readonly uses: string;
}

/** Levels that a lane reads at a time: four words, or a block. */
function chunkLevels(
  { bits, blockSize }: { readonly bits: number; readonly blockSize: number },
): number {
  return Math.min(128, blockSize * bits) / bits;
}

/** The norm's factors (and offsets) of the four at `at`, where there are such. */
function loadAffine({ norm }: MatvecParams, at: string, name: string): string {
  if (norm === undefined) return "";
  const factor = `    let factor${name} = unpack(affine[AFFINE_AT + ${at}]);`;
  if (!norm.hasBeta) return factor;
  return `${factor}\n    let offset${name} = unpack(affine[AFFINE_AT + K_FOURS + ${at}]);`;
}

/** `name`: the four of a row as the product takes it; its squares are added up where the norm wants them. */
function loadRow(
  params: MatvecParams,
  form: MatvecForm,
  { row, at, name, affine }: {
    readonly row: number;
    readonly at: string;
    readonly name: string;
    readonly affine: string;
  },
): string {
  const { norm } = params;
  const raw = `row_four(row0, ${row}u, ${at})`;
  if (norm === undefined) return `    let ${name} = ${raw};`;
  if (norm.kind === "rms") {
    const { perRow } = chooseValues(params, form);
    const offset = norm.hasBeta ? ` + offset${affine}` : "";
    return `    let raw_${name} = ${raw};
    value${row * perRow + form.outs} += dot(raw_${name}, raw_${name});
    let ${name} = raw_${name} * factor${affine}${offset};`;
  }
  return `    let ${name} = (${raw} - row_mean[${row}]) * row_scale[${row}] * factor${affine}${
    norm.hasBeta ? ` + offset${affine}` : ""
  };`;
}

function nbitsChunk(
  params: MatvecParams & { readonly weights: { readonly kind: "nbits" } },
  form: MatvecForm,
  { at: c, suffix: s }: Step,
): Statements {
  const { bits, blockSize, hasZeroPoints } = params.weights;
  const { outs, rows } = form;
  const { perRow } = chooseValues(params, form);
  const levels = chunkLevels(params.weights);
  const words = levels * bits / 32;
  const foursPerWord = 8 / bits;
  const fours = levels / 4;
  const planes = range(8 / bits);
  const mask = `0x${((2 ** bits - 1) * 0x01010101).toString(16).padStart(8, "0")}u`;
  const block = `${c} / ${blockSize / levels}u`;
  const loads = [
    ...range(outs).flatMap((o) => [
      `    let words${s}_${o} = levels[row_${o} * ${params.k / levels}u + ${c}];`,
      `    let scale${s}_${o} = f32(scales[row_${o} * BLOCKS + ${block}]);`,
    ]),
    ...hasZeroPoints
      ? range(outs).map((o) => `    let zero${s}_${o} = zero_point(row_${o}, ${block});`)
      : [],
  ];
  const uses = [
    ...range(rows).map((r) => `    var total_${r} = 0.0;`),
    ...range(outs * rows).map((i) => `    var dot_${i % outs}_${Math.floor(i / outs)} = 0.0;`),
  ];
  for (const w of range(words)) {
    const word = (o: number) => `words${s}_${o}[${w}]`;
    const firstFour = `${c} * ${fours}u + ${w * foursPerWord}u`;
    uses.push("    {");
    for (const f of range(foursPerWord)) {
      uses.push(loadAffine(params, `${firstFour} + ${f}u`, `${f}`));
    }
    // A plane has the levels at the same place of each byte: of 4 bits those at even numbers, and those at odd ones.
    for (const o of range(outs)) {
      for (const p of planes) {
        const shifted = p === 0 ? word(o) : `(${word(o)} >> ${p * bits}u)`;
        const plane = bits === 8 ? word(o) : `${shifted} & ${mask}`;
        uses.push(`    let levels${p}_${o} = vec4<f32>(unpack4xU8(${plane}));`);
      }
    }
    for (const r of range(rows)) {
      for (const f of range(foursPerWord)) {
        const at = `${firstFour} + ${f}u`;
        uses.push(loadRow(params, form, { row: r, at, name: `x${f}_${r}`, affine: `${f}` }));
      }
      const all = range(foursPerWord).map((f) => `x${f}_${r}`).join(" + ");
      uses.push(`    total_${r} += dot(${all}, vec4<f32>(1.0));`);
      for (const p of planes) {
        const elements = range(4).map((byte) => {
          const level = byte * planes.length + p;
          return `x${Math.floor(level / 4)}_${r}.${"xyzw"[level % 4]}`;
        });
        uses.push(`    let plane${p}_${r} = vec4<f32>(${elements.join(", ")});`);
      }
      for (const o of range(outs)) {
        const dots = planes.map((p) => `dot(levels${p}_${o}, plane${p}_${r})`);
        uses.push(`    dot_${o}_${r} += ${dots.join(" + ")};`);
      }
    }
    uses.push("    }");
  }
  for (const r of range(rows)) {
    for (const o of range(outs)) {
      const zero = hasZeroPoints ? `zero${s}_${o}` : `${2 ** (bits - 1)}.0`;
      uses.push(
        `    value${r * perRow + o} += scale${s}_${o} * (dot_${o}_${r} - ${zero} * total_${r});`,
      );
    }
  }
  return { loads: lines(loads), uses: lines(uses) };
}

function rowsStep(params: MatvecParams, form: MatvecForm, { at, suffix }: Step): Statements {
  const { perRow } = chooseValues(params, form);
  const { outs, rows } = form;
  const loads = range(outs).map((o) =>
    `    let weights${suffix}_${o} = unpack(weights[row_${o} * K_FOURS + ${at}]);`
  );
  const uses = [loadAffine(params, at, "")];
  for (const r of range(rows)) {
    uses.push(loadRow(params, form, { row: r, at, name: `x_${r}`, affine: "" }));
    for (const o of range(outs)) {
      uses.push(`    value${r * perRow + o} += dot(weights${suffix}_${o}, x_${r});`);
    }
  }
  return { loads: lines(loads), uses: lines(uses) };
}

function columnsStep(params: MatvecParams, form: MatvecForm, { at, suffix }: Step): Statements {
  const { perRow } = chooseValues(params, form);
  const { outs, rows } = form;
  const quads = range(outs / 4);
  const loads = quads.flatMap((q) =>
    range(4).map((e) =>
      `    let w${suffix}_${q}_${e} = load_columns(${at} * 4u + ${e}u, column_${q});`
    )
  );
  const uses = [loadAffine(params, at, "")];
  for (const r of range(rows)) {
    uses.push(loadRow(params, form, { row: r, at, name: `x_${r}`, affine: "" }));
    for (const q of quads) {
      const w = (e: number) => `w${suffix}_${q}_${e}`;
      uses.push(
        `    let sum_${q}_${r} = ${w(0)} * x_${r}.x + ${w(1)} * x_${r}.y + ${w(2)} * x_${r}.z + ${
          w(3)
        } * x_${r}.w;`,
      );
      for (const e of range(4)) {
        uses.push(`    value${r * perRow + 4 * q + e} += sum_${q}_${r}[${e}];`);
      }
    }
  }
  return { loads: lines(loads), uses: lines(uses) };
}

/** Adds up what the lanes of each unit have, as many sums at a time as there is memory for. */
function addLanes(params: MatvecParams, form: MatvecForm): string {
  const { lanes, groups } = form;
  const { count } = chooseValues(params, form);
  const perPass = numSumsPerPass(params, form);
  // One float of padding keeps threads off each other's banks.
  const stride = lanes + 1;
  const passes = range(Math.ceil(count / perPass)).map((pass) => {
    const first = pass * perPass;
    const here = Math.min(perPass, count - first);
    const chains = Math.min(4, lanes);
    const sums = range(chains).map((chain) =>
      range(lanes / chains).map((i) => `sums[at + ${i * chains + chain}u]`).join(" + ")
    );
    return `  workgroupBarrier();
${
      lines(
        range(here).map((v) =>
          `  sums[(${v * groups}u + unit) * ${stride}u + lane] = value${first + v};`
        ),
      )
    }
  workgroupBarrier();
  for (var i = thread; i < ${here * groups}u; i += THREADS) {
    let at = i * ${stride}u;
    totals[${first * groups}u + i] = ${sums.map((sum) => `(${sum})`).join(" + ")};
  }`;
  });
  return lines(passes);
}
