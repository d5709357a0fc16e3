/**
 * Shares the products of an LSTM's cell among threads.
 *
 * ONNX Runtime 1.30 runs a step of an LSTM in one workgroup for every 256 hidden units of a batch, in which each thread
 * reads four rows of both matrices from end to end: neighbours read memory that is far apart, and a step of Kokoro's
 * LSTMs waits for some 900 such reads one after the other. Here 32 neighbouring threads read a unit's rows side by
 * side, and add up what each has. All else of the shader stays as it is, how it is dispatched too. Sums are in another
 * order.
 *
 * @module
 */

/** Threads that share a unit. */
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

/** How a shader multiplies a vector with the four gates' matrices. */
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

/** The source with the products shared among `threads`; any other shader unchanged. */
export function shareLstmCell(code: string, threads: number): string {
  if (threads < TEAM || !code.includes(UNIT) || !code.includes(WORKGROUP_SIZE)) return code;
  const [head, body = ""] = code.split(UNIT);
  // The bases of the vectors and matrices are computed between and before the loops.
  const [beforeInput, afterInput] = body.split(theirLoop(INPUT));
  const [beforeState, tail] = afterInput?.split(theirLoop(STATE)) ?? [];
  // A return before the loops, for sequences of several lengths, does not count.
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
    ${sharedLoop(INPUT)}
    ${beforeState}
    ${sharedLoop(STATE)}
    team_sums[local_idx] = sums;
    workgroupBarrier();
    ${addUp()}
    if (is_own && lane == 0u) {
      let gates = team_sums[local_idx];
      ${GATES.map((gate, i) => `var gate_${gate} = gates[${i}];`).join(" ")}
      ${tail.slice(0, end)}
    }
    workgroupBarrier();
  }
}`;
}

/** How many threads a cell may have on a device. */
export function cellThreads(limits: GPUSupportedLimits): number {
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

function theirLoop({ vector, base, value, matrix, length }: Product): string {
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

function sharedLoop({ vector, base, matrix, length }: Product): string {
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
function addUp(): string {
  const steps: string[] = [];
  for (let distance = TEAM / 2; distance >= 1; distance /= 2) {
    steps.push(
      `if (lane < ${distance}u) { team_sums[local_idx] += team_sums[local_idx + ${distance}u]; }
    workgroupBarrier();`,
    );
  }
  return steps.join("\n    ");
}
