/**
 * WGSL that joins what several workgroups of `paged_attention_decode` made of the same rows.
 *
 * @module
 */
import { repeat } from "../common/written_out.ts";

const THREADS = 64;
/** Slots whose loads wait for memory together. */
const SLOTS_AT_ONCE = 4;

/**
 * The kernel's declarations and entry point.
 *
 * One workgroup takes the rows of one item and one KV head; each thread a four of a row at a time. No workgroup memory.
 */
export function reduceSource(headFours: number, rows: number): string {
  const eachSlot = (write: (slot: number) => string) => repeat(SLOTS_AT_ONCE, write);
  return `
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> sinks: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<four>;

// Index of a row's partial result: (largest exponent, sum of weights, -, -), then the weighted sum of values.
fn partial_at(slot: u32, kv_head: u32, row: u32) -> u32 {
  return ((slot * KV_HEADS + kv_head) * ${rows}u + row) * ${headFours + 1}u;
}

@compute @workgroup_size(${THREADS})
fn paged_attention_reduce(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = read_item(step.reduce_items + group.x * 8u);
  let kv_head = group.y;
  for (var i = thread; i < item.num_rows * ${headFours}u; i += ${THREADS}u) {
    let row = i / ${headFours}u;
    let column = i % ${headFours}u;
    var largest = LOWEST;
    var total = 0.0;
    var sum = vec4<f32>();
    for (var slot = item.start; slot < item.end; slot += ${SLOTS_AT_ONCE}u) {
      // Slots beyond the end repeat the last one, and weigh nothing.
      ${
    eachSlot((n) => `
      let at${n} = partial_at(min(slot + ${n}u, item.end - 1u), kv_head, row);
      let head${n} = partials[at${n}].xy;
      let sum${n} = partials[at${n} + 1u + column];`)
  }
      let new_largest = ${
    Array.from({ length: SLOTS_AT_ONCE }, (_, n) => `head${n}.x`)
      .reduce((all, each) => `max(${all}, ${each})`, "largest")
  };
      let correction = exp2(largest - new_largest);
      largest = new_largest;
      total *= correction;
      sum *= correction;
      ${
    eachSlot((n) => `
      let weight${n} = select(0.0, exp2(head${n}.x - new_largest), slot + ${n}u < item.end);
      total += head${n}.y * weight${n};
      sum += sum${n} * weight${n};`)
  }
    }
    if (HAS_SINKS) {
      let head = kv_head * GROUP + (item.row_start + row) % GROUP;
      total += exp2(sinks[head] * LOG2_E - largest);
    }
    out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] = pack(sum / total);
  }
}
`;
}
