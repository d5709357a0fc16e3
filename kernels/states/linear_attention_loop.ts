/**
 * The WGSL of `linear_attention`'s entry point, its loops over a thread's rows written out: Deno's WebGPU adds a bound to
 * each access of an array, and what a loop indexes lies in memory.
 *
 * @module
 */
import { repeat } from "../common/written_out.ts";

/** @param fours fours of rows of a state that a thread has. */
export function linearAttentionLoop(
  { fours, isDelta, decaysRows }: {
    readonly fours: number;
    readonly isDelta: boolean;
    readonly decaysRows: boolean;
  },
): string {
  // The decays of a thread's rows at a token, and at the one after it.
  const [own, next] = ["decay", "next_decay"].map((name) => (f: number) =>
    decaysRows ? ` * ${name}${f}` : ""
  ) as [(f: number) => string, (f: number) => string];
  const loadDecays = (name: string, token: string) =>
    decaysRows
      ? repeat(fours, (f) => `${name}${f} = decay_four(${token}, head, first_four + ${f}u);`)
      : "";
  return `
@compute @workgroup_size(THREADS)
fn linear_attention(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let range = step[group.z];
  let head = group.y;
  let first_four = thread / COLUMNS * ${fours}u;
  let column = group.x * COLUMNS + thread % COLUMNS;
  let has_column = column < VALUE_DIM;
  let base = (range.z * HEADS + head) * KEY_DIM * VALUE_DIM + column;
  let is_kept = has_column && range.w == 0u;
${repeat(fours, (f) => `  var s${f} = vec4<f32>();`)}
${loadDecays("var decay", "range.x")}
  if (is_kept) {
${
    eachElement(fours, (f, e, row) =>
      `if (${row} < KEY_DIM) { s${f}[${e}] = state[base + ${row} * VALUE_DIM]; }`)
  }
  }
  var held = 0.0;
  // Where the sums of a token go.
  var sums_at = 0u;
  for (var tile = range.x; tile < range.y; tile += STAGED) {
    workgroupBarrier();
    stage(tile, range.y, head, thread);
    workgroupBarrier();
${
    isDelta
      ? `
    if (tile == range.x) {
      var found = 0.0;
${repeat(fours, (f) => `      found += dot(s${f}, keys[first_four + ${f}u]${own(f)});`)}
      parts[sums_at + thread] = vec2<f32>(0.0, found);
      workgroupBarrier();
      held = total(sums_at, thread).y;
      sums_at = THREADS - sums_at;
    }`
      : ""
  }
    let until = min(tile + STAGED, range.y);
    for (var token = tile; token < until; token++) {
      let key_at = (token - tile) * KEY_FOURS + first_four;
${loadDecays("let next_decay", "min(token + 1u, range.y - 1u)")}
      var decay = 1.0;
      ${decaysRows ? "" : "if (DECAYS) { decay = decay_at(token, head); }"}
      var gain = 0.0;
      if (has_column) {
        gain = f32(v[token * V_STRIDE + V_OFFSET + head * VALUE_DIM + column]);
      }
${
    isDelta
      ? `
      let rate = betas[token * BETA_STRIDE + BETA_OFFSET + select(0u, head, RATES > 1u)];
      gain = rate * (gain - decay * held);`
      : ""
  }
      var sums = vec2<f32>();
${
    repeat(fours, (f) => `
      s${f} = s${f}${decaysRows ? own(f) : " * decay"} + keys[key_at + ${f}u] * gain;
      sums.x += dot(s${f}, queries[key_at + ${f}u]);${
      isDelta
        ? `
      sums.y += dot(s${f}, keys[key_at + KEY_FOURS + ${f}u]${next(f)});`
        : ""
    }`)
  }
      parts[sums_at + thread] = sums;
      workgroupBarrier();
      let all = total(sums_at, thread);
      sums_at = THREADS - sums_at;
      held = all.y;
${decaysRows ? repeat(fours, (f) => `      decay${f} = next_decay${f};`) : ""}
      if (thread < COLUMNS && has_column) {
        out[(token * HEADS + head) * VALUE_DIM + column] = elem(SCALE * all.x);
      }
    }
  }
  if (has_column) {
${
    eachElement(fours, (f, e, row) =>
      `if (${row} < KEY_DIM) { state[base + ${row} * VALUE_DIM] = s${f}[${e}]; }`)
  }
  }
}
`;
}

/** A statement for each row of a state that a thread has. */
function eachElement(
  fours: number,
  write: (four: number, element: number, row: string) => string,
): string {
  return repeat(fours * 4, (i) => {
    const row = `(first_four * 4u + ${i}u)`;
    return `    ${write(Math.floor(i / 4), i % 4, row)}`;
  });
}
