/**
 * WGSL of attention for many queries at once, after FlashAttention-2 (Dao, 2023), wherever the keys are.
 *
 * Written for a head size and a tiling, with every inner loop and array of a thread written out: naga guards each loop
 * with a counter and each index with a bound, so that drivers neither unroll loops nor keep arrays in registers.
 *
 * @module
 */
import { writeStaging } from "./tile_staging.ts";
import { repeat } from "../common/written_out.ts";

/** Keys whose values a thread adds in one turn of the loop; it divides the keys of any tile. */
const KEYS_AT_ONCE = { f32: 4, f16: 8 };
/** Queries are this much smaller in half precision, so that no sum of a few products overflows. A power of two: exact. */
const HALF_SCALE = 16;

/** The work of one workgroup. */
export interface TileTiling {
  /** Pairs (query token, query head of the group), a multiple of `4 * quads`. */
  readonly rows: number;
  /** Fours of rows that a thread serves. */
  readonly quads: number;
  /** Threads that serve the same rows. */
  readonly threadsPerRow: number;
  /** Keys of a tile, over `threadsPerRow`. Both are powers of two, and their product is 4 or more. */
  readonly keysPerThread: number;
  /** Whether keys and values lie in workgroup memory in f32, whatever the tensors are. */
  readonly isUnpacked: boolean;
  /**
   * Whether products are f16, added in f16 for eight elements or keys and then in f32: `four` must be a vector of f16, and
   * keys of a tile eight or more.
   */
  readonly isHalf?: boolean;
}

/**
 * Declares `attend_tile(item, kv_head, thread)`, to be run by {@linkcode tileThreads} threads.
 *
 * One workgroup takes up to `rows` rows of one item and one KV head, and walks the keys in tiles, each staged once for
 * all its rows, so the heads of a group share what is loaded. `threadsPerRow` threads serve the same `4 * quads` rows:
 * in the scores each takes every `threadsPerRow`-th key, in the output every `threadsPerRow`-th four of the head.
 *
 * The including shader declares `q` and `out`, and functions for where keys and values are and which of them a query
 * sees: `load_key`, `load_value`, `first_key`, `end_key`, `sink`. Workgroup memory: {@linkcode tileBytes}.
 */
export function tileSource(headFours: number, tiling: TileTiling): string {
  const { rows, quads, threadsPerRow, keysPerThread, isUnpacked, isHalf = false } = tiling;
  const threads = tileThreads(tiling);
  const blocks = rows / (4 * quads);
  const keys = threadsPerRow * keysPerThread;
  const columns = Math.ceil(headFours / threadsPerRow);
  const stride = headFours + 1;
  const columnsAtOnce = headFours % 2 === 0 ? 2 : 1;
  // What is read of workgroup memory, and the vectors that are multiplied.
  const read = isUnpacked || isHalf ? "" : "unpack";
  const vector = isHalf ? "vec4<f16>" : "vec4<f32>";
  const keysAtOnce = KEYS_AT_ONCE[isHalf ? "f16" : "f32"];
  const staging = writeStaging({ headFours, keys, threads, isUnpacked, isHalf });
  const eachQuad = (write: (quad: number) => string) => repeat(quads, write);
  const eachRow = (write: (quad: number, r: string, row: number) => string) =>
    repeat(4 * quads, (row) => write(row >> 2, "xyzw"[row & 3]!, row));
  const eachKey = (write: (key: number) => string) => repeat(keysPerThread, write);
  const eachColumn = (write: (column: number) => string) => repeat(columns, write);

  return `
const TILE_THREADS = ${threads}u;

// Queries by four of the head, thread's rows, element of the four and quad; four rows side by side.
var<workgroup> q_tile: array<array<four, ${4 * quads}>, ${headFours * blocks}>;
// Keys, then values, by position; one four of padding keeps threads off each other's banks.
var<workgroup> kv_tile: array<${isUnpacked ? "vec4<f32>" : "four"}, ${keys * stride}>;
// Weights by key and thread's rows, four rows side by side.
var<workgroup> weights: array<array<${vector}, ${quads}>, ${keys * blocks}>;
var<workgroup> reduced: array<array<vec4<f32>, ${quads}>, ${threads}>;

fn stage_queries(item: Item, kv_head: u32, thread: u32) {
  for (var i = thread; i < ${headFours * blocks * quads}u; i += ${threads}u) {
    let column = i % ${headFours}u;
    let quad = i / ${headFours}u;
    let last = item.num_rows - 1u;
    let row = quad * 4u;
    ${
    repeat(4, (r) =>
      `let row${r} = unpack(q[query_at(item, min(row + ${r}u, last), kv_head, Q_STRIDE) + Q_OFFSET + column]);`)
  }
    let at = column * ${blocks}u + quad / ${quads}u;
    let of_block = quad % ${quads}u;
    ${
    [..."xyzw"].map((e, n) =>
      `q_tile[at][of_block + ${
        n * quads
      }u] = pack(vec4<f32>(row0.${e}, row1.${e}, row2.${e}, row3.${e})${
        isHalf ? ` / ${HALF_SCALE}.0` : ""
      });`
    ).join("\n    ")
  }
  }
}

fn attend_tile(item: Item, kv_head: u32, thread: u32) {
  let block = thread / ${threadsPerRow}u;
  let lane = thread % ${threadsPerRow}u;
  let last_row = item.num_rows - 1u;

  stage_queries(item, kv_head, thread);

  let key_end = end_key(item, query_position(item, last_row));
  // Tiles begin where they do for all rows of a sequence, whatever rows are beside them.
  let first_seen = first_key(query_position(item, 0u));
  let key_start = first_seen / ${keys}u * ${keys}u;
  // Keys that all rows see.
  let first_of_all = first_key(query_position(item, last_row));
  let end_of_all = end_key(item, query_position(item, 0u));
  ${
    eachQuad((quad) => `
  let row${quad} = block * ${4 * quads}u + ${4 * quad}u;
  let positions${quad} = vec4<u32>(${
      [0, 1, 2, 3].map((r) => `query_position(item, min(row${quad} + ${r}u, last_row))`).join(", ")
    });
  let first_keys${quad} = vec4<u32>(${
      [..."xyzw"].map((r) => `first_key(positions${quad}.${r})`).join(", ")
    });
  let end_keys${quad} = vec4<u32>(${
      [..."xyzw"].map((r) => `end_key(item, positions${quad}.${r})`).join(", ")
    });
  var largest${quad} = vec4<f32>(LOWEST);
  var sums${quad} = vec4<f32>();`)
  }
  ${eachRow((_, __, row) => eachColumn((c) => `var out${row}_${c} = vec4<f32>();`))}

  ${staging.beforeLoop}
  for (var tile = key_start; tile < key_end; tile += ${keys}u) {
    ${staging.writeKeys}
    workgroupBarrier();
    ${staging.afterKeys}

    ${eachKey((n) => eachQuad((quad) => `var score${n}_${quad} = vec4<f32>();`))}
    for (var column = 0u; column < ${headFours}u; column += ${columnsAtOnce}u) {
      ${isHalf ? eachKey((n) => eachQuad((quad) => `var some${n}_${quad} = vec4<f16>();`)) : ""}
      ${
    repeat(columnsAtOnce, (u) => `
      let at${u} = (column + ${u}u) * ${blocks}u + block;
      ${
      repeat(4, (e) =>
        eachQuad((quad) =>
          `let q${u}${e}_${quad} = ${isHalf ? "" : "unpack"}(q_tile[at${u}][${e * quads + quad}u]);`
        ))
    }
      ${
      eachKey((n) => `
      let k${u}${n} = ${read}(kv_tile[(lane + ${
        n * threadsPerRow
      }u) * ${stride}u + column + ${u}u]);
      ${
        [..."xyzw"].map((e, at) =>
          eachQuad((quad) =>
            isHalf
              ? `some${n}_${quad} = fma(q${u}${at}_${quad}, vec4<f16>(k${u}${n}.${e}), some${n}_${quad});`
              : `score${n}_${quad} = fma(q${u}${at}_${quad}, vec4<f32>(k${u}${n}.${e}), score${n}_${quad});`
          )
        ).join("\n")
      }`)
    }`)
  }
      ${
    isHalf
      ? eachKey((n) =>
        eachQuad((quad) =>
          `score${n}_${quad} = fma(vec4<f32>(some${n}_${quad}), vec4<f32>(${HALF_SCALE}.0), score${n}_${quad});`
        )
      )
      : ""
  }
    }
    ${eachKey((n) => eachQuad((q) => `score${n}_${q} = to_exponents(score${n}_${q});`))}
    if (tile < first_of_all || tile + ${keys}u > end_of_all) {
      ${
    eachKey((n) => `
      let key${n} = vec4<u32>(tile + lane + ${n * threadsPerRow}u);
      ${
      eachQuad((q) =>
        `score${n}_${q} = select(vec4<f32>(LOWEST), score${n}_${q}, (key${n} < end_keys${q}) & (key${n} >= first_keys${q}));`
      )
    }`)
  }
    }
    ${
    eachQuad((quad) => {
      const scores = Array.from({ length: keysPerThread }, (_, n) => `score${n}_${quad}`);
      return `reduced[thread][${quad}u] = ${
        scores.reduce((all, score) => `max(${all}, ${score})`)
      };`;
    })
  }
    workgroupBarrier();

    ${staging.writeValues}
    let first_lane = thread - lane;
    ${eachQuad((quad) => `var new_largest${quad} = largest${quad};`)}
    ${
    repeat(threadsPerRow, (i) =>
      eachQuad((quad) =>
        `new_largest${quad} = max(new_largest${quad}, reduced[first_lane + ${i}u][${quad}u]);`
      ))
  }
    ${
    eachQuad((quad) => `
    let correction${quad} = exp2(largest${quad} - new_largest${quad});
    largest${quad} = new_largest${quad};
    sums${quad} *= correction${quad};`)
  }
    ${
    eachKey((n) =>
      eachQuad((quad) => `
    let weight${n}_${quad} = ${vector}(to_weights(score${n}_${quad}, largest${quad}));
    weights[(lane + ${n * threadsPerRow}u) * ${blocks}u + block][${quad}u] = weight${n}_${quad};
    sums${quad} += vec4<f32>(weight${n}_${quad});`)
    )
  }
    ${eachRow((quad, r, row) => eachColumn((c) => `out${row}_${c} *= correction${quad}.${r};`))}
    workgroupBarrier();

    ${eachColumn((c) => `let column${c} = min(lane + ${c * threadsPerRow}u, ${headFours - 1}u);`)}
    for (var key = 0u; key < ${keys}u; key += ${keysAtOnce}u) {
      ${
    isHalf ? eachRow((_, __, row) => eachColumn((c) => `var some${row}_${c} = vec4<f16>();`)) : ""
  }
      ${
    repeat(keysAtOnce, (k) => `
      ${
      eachColumn((c) =>
        `let v${k}_${c} = ${read}(kv_tile[(key + ${k}u) * ${stride}u + column${c}]);`
      )
    }
      ${eachQuad((q) => `let w${k}_${q} = weights[(key + ${k}u) * ${blocks}u + block][${q}u];`)}
      ${
      eachRow((q, r, row) =>
        eachColumn((c) =>
          isHalf
            ? `some${row}_${c} = fma(v${k}_${c}, vec4<f16>(w${k}_${q}.${r}), some${row}_${c});`
            : `out${row}_${c} = fma(v${k}_${c}, vec4<f32>(w${k}_${q}.${r}), out${row}_${c});`
        )
      )
    }`)
  }
      ${
    isHalf
      ? eachRow((_, __, row) => eachColumn((c) => `out${row}_${c} += vec4<f32>(some${row}_${c});`))
      : ""
  }
    }
    workgroupBarrier();
  }

  ${eachQuad((quad) => `reduced[thread][${quad}u] = sums${quad};`)}
  workgroupBarrier();
  ${
    eachQuad((quad) =>
      `var total${quad} = ${
        Array.from(
          { length: threadsPerRow },
          (_, i) => `reduced[thread - lane + ${i}u][${quad}u]`,
        ).join(" + ")
      };`
    )
  }
  ${
    eachRow((quad, r, row) => `
  if (row${quad} + ${row & 3}u < item.num_rows) {
    let row = row${quad} + ${row & 3}u;
    var total = total${quad}.${r};
    if (HAS_SINKS) {
      let head = kv_head * GROUP + (item.row_start + row) % GROUP;
      total += exp2(sink(head) * LOG2_E - largest${quad}.${r});
    }
    let at = query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS);
    ${
      eachColumn((c) => `
    if (lane + ${c * threadsPerRow}u < ${headFours}u) {
      out[at + lane + ${c * threadsPerRow}u] = pack(out${row}_${c} / total);
    }`)
    }
  }`)
  }
}
`;
}

/** Threads of a workgroup. */
export function tileThreads({ rows, quads, threadsPerRow }: TileTiling): number {
  return rows / (4 * quads) * threadsPerRow;
}

/** Bytes of workgroup memory, of fours of the given bytes. */
export function tileBytes(headFours: number, fourBytes: number, tiling: TileTiling): number {
  const { rows, quads, isUnpacked, isHalf } = tiling;
  const keys = tiling.threadsPerRow * tiling.keysPerThread;
  const kvBytes = keys * (headFours + 1) * (isUnpacked ? 16 : fourBytes);
  const weightBytes = keys * rows * (isHalf ? 2 : 4);
  return rows * headFours * fourBytes + kvBytes + weightBytes + 16 * quads * tileThreads(tiling);
}
