/**
 * WGSL that reads keys and values of a paged cache for the tile of prefill.
 *
 * @module
 */

/** Declares `load_key` and `load_value`. */
export function loadSource(isQuantized: boolean): string {
  return ["key", "value"].map((what) => {
    const cache = `${what[0]}_cache`;
    const part = `${cache}[at + column]`;
    return `
fn load_${what}(item: Item, position: u32, kv_head: u32, column: u32) -> four {
  let at = cache_at(item, position, kv_head);
  return ${
      isQuantized ? `pack(read_cached(${part}) * read_scale(${cache}[at + HEAD_FOURS]))` : part
    };
}
`;
  }).join("");
}
