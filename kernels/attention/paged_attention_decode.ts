/**
 * WGSL of paged attention for few queries over many keys, after Flash-Decoding (Dao et al., 2023).
 *
 * Written out for a head size and a tiling, as the tile of prefill is: see `attention_tile.ts`.
 *
 * @module
 */
import { repeat } from "../common/written_out.ts";

/** Fours of keys that a thread loads at once. */
const LOADS_AT_ONCE = 8;
/** Bytes of the outputs that are joined at a time. */
const JOINED_BYTES = 8192;

/** The work of one workgroup. All but `rows` are powers of two. */
export interface DecodeTiling {
  /** Pairs (query token, query head of the group), 1 to 8. */
  readonly rows: number;
  readonly threads: number;
  /** Threads that share a key; divides the fours of a head. */
  readonly threadsPerKey: number;
  readonly keysPerThread: number;
  /** Threads that share a value, a divisor of `threads`. */
  readonly threadsPerValue: number;
  /** Whether queries are rounded to 15 bits for keys in 8 bits: where products of integers are instructions. */
  readonly roundsQueries?: boolean | undefined;
}

/**
 * The kernel's declarations and entry point.
 *
 * One workgroup takes up to `rows` rows of one item, its range of keys, and one KV head, in tiles of
 * `threads / threadsPerKey * keysPerThread` keys. In the scores `threadsPerKey` threads share a key, each with all rows.
 * In the output `threadsPerValue` threads share a value: these are a group, which has every `groups`-th key of the tile
 * and a running softmax of its own. The groups are joined at the end. Keys and values of a tile are loaded together, as
 * on a GPU few queries wait for memory most.
 *
 * An item without a slot holds all keys of its rows and writes the output; others write what paged_attention_reduce
 * joins. Workgroup memory: less than 16 KiB with the tilings of attention_shape.ts.
 */
export function decodeSource(
  headFours: number,
  tiling: DecodeTiling,
  isQuantized: boolean,
): string {
  const { rows, threads, threadsPerKey, keysPerThread, threadsPerValue } = tiling;
  const isRounded = isQuantized && tiling.roundsQueries === true;
  const keySlots = threads / threadsPerKey;
  const keys = decodeKeys(tiling);
  const groups = threads / threadsPerValue;
  const keysOfGroup = keys / groups;
  const keyColumns = headFours / threadsPerKey;
  const columns = Math.ceil(headFours / threadsPerValue);
  const atOnce = Math.min(keyColumns, Math.max(1, Math.floor(LOADS_AT_ONCE / keysPerThread)));
  const rowsAtOnce = joinedRows(tiling, columns);
  const isSplit = threadsPerKey > 1;
  const eachRow = (write: (row: number) => string) => repeat(rows, write);
  const eachColumn = (write: (column: number) => string) => repeat(columns, write);
  const eachKey = (write: (key: number) => string) => repeat(keysPerThread, write);
  const eachValue = (write: (value: number) => string) => repeat(keysOfGroup, write);

  const writeColumn = (column: string, n: number) =>
    isRounded
      ? `
      ${eachKey((k) => `let k${k}_${n} = k_cache[at${k} + ${column}];`)}
      ${
        eachRow((row) => `
      let q${row}_${n} = q_rounded[${column}][${row}u];
      ${
          eachKey((k) => `
      high${row}_${k} += dot4I8Packed(k${k}_${n}, q${row}_${n}.x);
      low${row}_${k} += dot4I8Packed(k${k}_${n}, q${row}_${n}.y);`)
        }`)
      }`
      : `
      ${eachKey((k) => `let k${k}_${n} = read_cached(k_cache[at${k} + ${column}]);`)}
      ${
        eachRow((row) => `
      let q${row}_${n} = q_tile[${column}][${row}u];
      ${
          eachKey((k) =>
            [..."xyzw"].map((e) =>
              `dot${row}_${k} = fma(k${k}_${n}.${e}, q${row}_${n}.${e}, dot${row}_${k});`
            )
              .join("\n")
          )
        }`)
      }`;
  const wholeColumns = Math.floor(keyColumns / atOnce) * atOnce;
  const writeColumns = (first: string, count: number) =>
    repeat(count, (n) => writeColumn(`(${first} + ${n * threadsPerKey}u)`, n));

  return `
@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k_cache: array<cached>;
@group(0) @binding(3) var<storage, read> v_cache: array<cached>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<four>;
// Per slot, KV head and row: (largest exponent, sum of weights, -, -), then the weighted sum of values.
@group(0) @binding(6) var<storage, read_write> partials: array<vec4<f32>>;

// The largest exponent of a group that has seen nothing: far below any, and far above masked ones.
const FLOOR = -1e29;

var<workgroup> q_tile: array<array<vec4<f32>, ${rows}>, ${headFours}>;
${
    isRounded
      ? `
// Queries as 127ths of the largest of their row, and what is left in 254ths of that; four of each in a word.
var<workgroup> q_rounded: array<array<vec2<u32>, ${rows}>, ${headFours}>;
// A 127th by row.
var<workgroup> q_units: array<f32, ${rows}>;`
      : ""
  }
// Parts of the products by row, key and part; at the end the outputs by row, four, element and thread.
var<workgroup> scratch: array<f32, ${scratchFloats(tiling, columns)}>;
var<workgroup> exponents: array<array<f32, ${rows}>, ${keys}>;
var<workgroup> group_largest: array<array<f32, ${rows}>, ${groups}>;
var<workgroup> group_sums: array<array<f32, ${rows}>, ${groups}>;
var<workgroup> row_largest: array<f32, ${rows}>;

@compute @workgroup_size(${threads})
fn paged_attention_decode(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = read_item(step.decode_items + workgroup.x * 8u);
  let kv_head = workgroup.y;
  let last_row = item.num_rows - 1u;
  let part = thread % ${threadsPerKey}u;
  let key_slot = thread / ${threadsPerKey}u;
  let group = thread / ${threadsPerValue}u;
  let lane = thread % ${threadsPerValue}u;

  for (var i = thread; i < ${rows * headFours}u; i += ${threads}u) {
    let row = i / ${headFours}u;
    let column = i % ${headFours}u;
    q_tile[column][row] =
      unpack(q[query_at(item, min(row, last_row), kv_head, Q_STRIDE) + Q_OFFSET + column]);
  }

  let key_end = min(item.end, query_position(item, last_row) + 1u);
  let key_start = max(item.start, first_key(query_position(item, 0u)));
  ${eachColumn((c) => `let column${c} = min(lane + ${c * threadsPerValue}u, ${headFours - 1}u);`)}
  ${
    eachRow((row) => `
  var largest${row} = FLOOR;
  var sum${row} = 0.0;
  ${eachColumn((c) => `var out${row}_${c} = vec4<f32>();`)}`)
  }
  workgroupBarrier();
  ${
    isRounded
      ? `
  for (var i = thread; i < ${rows * headFours}u; i += ${threads}u) {
    let row = i / ${headFours}u;
    let column = i % ${headFours}u;
    var largest = vec4<f32>();
    for (var c = 0u; c < ${headFours}u; c++) {
      largest = max(largest, abs(q_tile[c][row]));
    }
    let unit = max(max(largest.x, largest.y), max(largest.z, largest.w)) / 127.0;
    let scaled = select(vec4<f32>(), q_tile[column][row] / unit, vec4<bool>(unit > 0.0));
    let high = round(scaled);
    q_rounded[column][row] = vec2<u32>(
      pack4xI8(vec4<i32>(high)),
      pack4xI8(vec4<i32>(round((scaled - high) * 254.0))),
    );
    if (column == 0u) {
      q_units[row] = unit;
    }
  }
  workgroupBarrier();
  ${eachRow((row) => `let unit${row} = q_units[${row}u];`)}`
      : ""
  }

  for (var tile = key_start; tile < key_end; tile += ${keys}u) {
    // Keys beyond the end repeat the last one, and are masked.
    ${
    eachValue((j) => `
    let v_at${j} = cache_at(item, min(tile + group + ${j * groups}u, key_end - 1u), kv_head);
    ${eachColumn((c) => `let packed${j}_${c} = v_cache[v_at${j} + column${c}];`)}
    ${isQuantized ? `let value_scale${j} = read_scale(v_cache[v_at${j} + ${headFours}u]);` : ""}`)
  }
    ${
    eachKey((k) =>
      `let at${k} = cache_at(item, min(tile + key_slot + ${k * keySlots}u, key_end - 1u), kv_head);`
    )
  }
    ${isQuantized ? eachKey((k) => `let key_scale${k} = k_cache[at${k} + ${headFours}u];`) : ""}
    ${
    eachRow((row) =>
      eachKey((k) =>
        isRounded
          ? `var high${row}_${k} = 0i;\nvar low${row}_${k} = 0i;`
          : `var dot${row}_${k} = 0.0;`
      )
    )
  }
    ${
    wholeColumns <= atOnce
      ? writeColumns("part", wholeColumns)
      : `for (var column = part; column < ${wholeColumns * threadsPerKey}u; column += ${
        atOnce * threadsPerKey
      }u) {
      ${writeColumns("column", atOnce)}
    }`
  }
    {
      ${writeColumns(`part + ${wholeColumns * threadsPerKey}u`, keyColumns - wholeColumns)}
    }
    ${
    eachRow((row) =>
      eachKey((k) =>
        isRounded
          ? `let dot${row}_${k} = (f32(high${row}_${k}) + f32(low${row}_${k}) / 254.0) * ` +
            `(unit${row} * read_scale(key_scale${k}));`
          : isQuantized
          ? `dot${row}_${k} *= read_scale(key_scale${k});`
          : ""
      )
    )
  }
    ${
    isSplit
      ? `
    ${
        eachRow((row) =>
          eachKey((k) =>
            `scratch[(${row * keys}u + key_slot + ${
              k * keySlots
            }u) * ${threadsPerKey}u + part] = dot${row}_${k};`
          )
        )
      }
    workgroupBarrier();
    ${
        repeat(Math.ceil(rows * keys / threads), (n) => `
    {
      let i = thread + ${n * threads}u;
      ${rows * keys % threads === 0 ? "" : `if (i < ${rows * keys}u)`} {
        let product = ${
          Array.from({ length: threadsPerKey }, (_, p) => `scratch[i * ${threadsPerKey}u + ${p}u]`)
            .join(" + ")
        };
        exponents[i % ${keys}u][i / ${keys}u] =
          to_exponent(product, item, i / ${keys}u, tile + i % ${keys}u, key_end);
      }
    }`)
      }`
      : eachRow((row) =>
        eachKey((k) => `
    exponents[key_slot + ${k * keySlots}u][${row}u] =
      to_exponent(dot${row}_${k}, item, ${row}u, tile + key_slot + ${k * keySlots}u, key_end);`)
      )
  }
    workgroupBarrier();

    ${eachValue((j) => eachColumn((c) => `let v${j}_${c} = read_cached(packed${j}_${c});`))}
    ${
    eachRow((row) => `
    {
      ${eachValue((j) => `let exponent${j} = exponents[group + ${j * groups}u][${row}u];`)}
      let new_largest = ${
      Array.from({ length: keysOfGroup }, (_, j) => `exponent${j}`)
        .reduce((all, each) => `max(${all}, ${each})`, `largest${row}`)
    };
      let correction = exp2(largest${row} - new_largest);
      largest${row} = new_largest;
      sum${row} *= correction;
      ${eachColumn((c) => `out${row}_${c} *= correction;`)}
      ${
      eachValue((j) => `
      let weight${j} = exp2(exponent${j} - new_largest);
      sum${row} += weight${j};
      ${
        eachColumn((c) =>
          `out${row}_${c} = fma(v${j}_${c}, vec4<f32>(weight${j}${
            isQuantized ? ` * value_scale${j}` : ""
          }), out${row}_${c});`
        )
      }`)
    }
    }`)
  }
    ${
    isSplit ? "// The next tile writes the exponents a barrier from here." : "workgroupBarrier();"
  }
  }

  if (lane == 0u) {
    ${eachRow((row) => `group_largest[group][${row}u] = largest${row};`)}
  }
  workgroupBarrier();
  ${
    eachRow((row) => `
  var all_largest${row} = FLOOR;`)
  }
  ${
    repeat(groups, (g) =>
      eachRow((row) =>
        `all_largest${row} = max(all_largest${row}, group_largest[${g}u][${row}u]);`
      ))
  }
  ${eachRow((row) => `let correction${row} = exp2(largest${row} - all_largest${row});`)}
  if (lane == 0u) {
    ${eachRow((row) => `group_sums[group][${row}u] = sum${row} * correction${row};`)}
  }
  if (thread == 0u) {
    ${eachRow((row) => `row_largest[${row}u] = all_largest${row};`)}
  }
  ${
    repeat(Math.ceil(rows / rowsAtOnce), (pass) => {
      const first = pass * rowsAtOnce;
      const count = Math.min(rowsAtOnce, rows - first);
      return `
  ${pass > 0 ? "workgroupBarrier();" : ""}
  ${
        repeat(count, (r) =>
          eachColumn((c) => `
  {
    let joined = out${first + r}_${c} * correction${first + r};
    ${
            [..."xyzw"].map((e, n) =>
              `scratch[${((r * columns + c) * 4 + n) * threads}u + thread] = joined.${e};`
            ).join("\n    ")
          }
  }`))
      }
  workgroupBarrier();
  for (var i = thread; i < ${count * headFours}u; i += ${threads}u) {
    write_row(item, kv_head, i / ${headFours}u, ${first}u, i % ${headFours}u);
  }`;
    })
  }
}

// The exponent of a product of row and key, LOWEST where the row does not see the key.
fn to_exponent(product: f32, item: Item, row: u32, key: u32, key_end: u32) -> f32 {
  let query = query_position(item, min(row, item.num_rows - 1u));
  let is_seen = key < key_end && key <= query && key >= first_key(query);
  return select(LOWEST, to_exponents(vec4<f32>(product)).x, is_seen);
}

// Joins the groups' outputs of a four of a row, the \`r\`-th of those in \`scratch\`.
fn write_row(item: Item, kv_head: u32, r: u32, first: u32, column: u32) {
  let row = first + r;
  if (row >= item.num_rows) {
    return;
  }
  let at = (r * ${columns}u + column / ${threadsPerValue}u) * ${
    4 * threads
  }u + column % ${threadsPerValue}u;
  var sum = vec4<f32>();
  var total = 0.0;
  ${
    repeat(groups, (g) => `
  sum += vec4<f32>(${
      [0, 1, 2, 3].map((e) => `scratch[at + ${g * threadsPerValue + e * threads}u]`).join(", ")
    });
  total += group_sums[${g}u][row];`)
  }
  if (item.slot != NO_SLOT) {
    let into = ((item.slot * KV_HEADS + kv_head) * ${rows}u + row) * ${headFours + 1}u;
    if (column == 0u) {
      partials[into] = vec4<f32>(row_largest[row], total, 0.0, 0.0);
    }
    partials[into + 1u + column] = sum;
    return;
  }
  if (HAS_SINKS) {
    let head = kv_head * GROUP + (item.row_start + row) % GROUP;
    total += exp2(sinks[head] * LOG2_E - row_largest[row]);
  }
  out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] = pack(sum / total);
}
`;
}

/** Keys of a tile. */
export function decodeKeys({ threads, threadsPerKey, keysPerThread }: DecodeTiling): number {
  return threads / threadsPerKey * keysPerThread;
}

function joinedRows({ rows, threads }: DecodeTiling, columns: number): number {
  return Math.min(rows, Math.max(1, Math.floor(JOINED_BYTES / (16 * threads * columns))));
}

function scratchFloats(tiling: DecodeTiling, columns: number): number {
  const { rows, threads, threadsPerKey, keysPerThread } = tiling;
  const parts = threadsPerKey > 1 ? rows * threads * keysPerThread : 0;
  return Math.max(parts, joinedRows(tiling, columns) * columns * 4 * threads);
}
