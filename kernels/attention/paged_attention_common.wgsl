// Shared by the three kernels of paged attention. See paged_attention.ts for formula and shapes.

override BLOCK_SIZE: u32;
// Distance in the cache from one token's head to the next token's, in units of `cached`.
override CACHE_STRIDE: u32;
// Number of keys that a query sees, including its own; 0 for all.
override WINDOW: u32;

const NO_SLOT = 0xffffffffu;

fn read_item(at: u32) -> Item {
  return Item(
    step.words[at],
    step.words[at + 1u],
    step.words[at + 2u],
    step.words[at + 3u],
    step.words[at + 4u],
    step.words[at + 5u],
    step.words[at + 6u],
    step.words[at + 7u],
  );
}

// Index in the cache at which a key or value begins.
fn cache_at(item: Item, position: u32, kv_head: u32) -> u32 {
  let block = step.words[item.keys_at + position / BLOCK_SIZE];
  return ((block * KV_HEADS + kv_head) * BLOCK_SIZE + position % BLOCK_SIZE) * CACHE_STRIDE;
}

// The first key that any query from `position` on may see.
fn first_key(position: u32) -> u32 {
  if (WINDOW == 0u || position < WINDOW) {
    return 0u;
  }
  return position - WINDOW + 1u;
}
