// Lists the rows of each expert, in tiles. See experts.ts.
//
// A single workgroup counts the pairs (row, one of its experts) of each expert, reserves whole tiles for them, and
// writes the pairs there. The order of an expert's pairs is arbitrary: no result depends on it.

// An expert and the bits of its weight, by pair.
@group(0) @binding(0) var<storage, read> routes: array<vec2<u32>>;
// Number of tiles, offset of the tiles' pairs, the expert of each tile, and the pairs of each tile.
@group(0) @binding(1) var<storage, read_write> order: array<u32>;
// [0] is the number of pairs, as written by route.wgsl.
@group(0) @binding(2) var<storage, read> counts: array<u32>;

override EXPERTS: u32;
override MOST_TILES: u32;
override TILE_ROWS: u32;

const THREADS = 256u;
const HEADER = 2u;
const NO_PAIR = 0xffffffffu;

var<workgroup> numbers: array<atomic<u32>, EXPERTS>;
var<workgroup> first_tiles: array<u32, EXPERTS>;

@compute @workgroup_size(THREADS)
fn order_rows(@builtin(local_invocation_index) thread: u32) {
  let num_pairs = counts[0];
  for (var e = thread; e < EXPERTS; e += THREADS) {
    atomicStore(&numbers[e], 0u);
  }
  workgroupBarrier();
  for (var pair = thread; pair < num_pairs; pair += THREADS) {
    atomicAdd(&numbers[routes[pair].x], 1u);
  }
  workgroupBarrier();
  let pairs_at = HEADER + MOST_TILES;
  if (thread == 0u) {
    var tiles = 0u;
    for (var e = 0u; e < EXPERTS; e++) {
      first_tiles[e] = tiles;
      tiles += (atomicLoad(&numbers[e]) + TILE_ROWS - 1u) / TILE_ROWS;
    }
    order[0] = tiles;
    order[1] = pairs_at;
  }
  workgroupBarrier();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    let count = atomicLoad(&numbers[e]);
    let first = first_tiles[e];
    let end = first + (count + TILE_ROWS - 1u) / TILE_ROWS;
    for (var tile = first; tile < end; tile++) {
      order[HEADER + tile] = e;
    }
    for (var at = first * TILE_ROWS + count; at < end * TILE_ROWS; at++) {
      order[pairs_at + at] = NO_PAIR;
    }
    atomicStore(&numbers[e], first * TILE_ROWS);
  }
  workgroupBarrier();
  for (var pair = thread; pair < num_pairs; pair += THREADS) {
    order[pairs_at + atomicAdd(&numbers[routes[pair].x], 1u)] = pair;
  }
}
