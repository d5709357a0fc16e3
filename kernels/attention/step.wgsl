// The step's plan, as step_plan.ts writes it. Offsets count from `words`.
struct Step {
  positions: u32,
  slots: u32,
  prefill_items: u32,
  decode_items: u32,
  reduce_items: u32,
  words: array<u32>,
}

@group(0) @binding(0) var<storage, read> step: Step;

