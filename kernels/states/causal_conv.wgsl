// Depthwise causal convolution with a state. See recurrences.ts for formula and shapes.
//
// One thread processes all tokens of one channel of one sequence, with the last inputs in registers. Neighbouring
// threads read neighbouring channels. The state is read before the first token and written after the last.

// Two vectors of each sequence: first row, end of the rows, slot, whether the state starts at zero; end of the rows
// after which the state is also saved in a second slot, and that slot.
@group(0) @binding(0) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> x: array<elem>;
// Weights [TAPS, CHANNELS], then biases [CHANNELS].
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;

override CHANNELS: u32;
override TAPS: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
override IS_SILU: bool;

const THREADS = 64u;
const MAX_TAPS = 16u;

@compute @workgroup_size(THREADS)
fn causal_conv(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let channel = group.x * THREADS + thread;
  if (channel >= CHANNELS) {
    return;
  }
  let range = step[2u * group.y];
  let saved = step[2u * group.y + 1u];
  let kept = TAPS - 1u;
  let slot = range.z * kept * CHANNELS + channel;
  // The newest input last.
  var inputs: array<f32, MAX_TAPS>;
  var weights: array<f32, MAX_TAPS>;
  for (var k = 0u; k < TAPS; k++) {
    weights[k] = factors[k * CHANNELS + channel];
  }
  for (var k = 0u; k < kept; k++) {
    inputs[k + 1u] = select(state[slot + k * CHANNELS], 0.0, range.w == 1u);
  }
  let bias = factors[TAPS * CHANNELS + channel];
  for (var row = range.x; row < range.y; row++) {
    var sum = bias;
    for (var k = 0u; k < kept; k++) {
      inputs[k] = inputs[k + 1u];
      sum += weights[k] * inputs[k];
    }
    inputs[kept] = f32(x[row * X_STRIDE + X_OFFSET + channel]);
    sum += weights[kept] * inputs[kept];
    if (IS_SILU) {
      sum = sum / (1.0 + exp(-sum));
    }
    out[row * CHANNELS + channel] = elem(sum);
    if (row + 1u == saved.x) {
      for (var k = 0u; k < kept; k++) {
        state[(saved.y * kept + k) * CHANNELS + channel] = inputs[k + 1u];
      }
    }
  }
  for (var k = 0u; k < kept; k++) {
    state[slot + k * CHANNELS] = inputs[k + 1u];
  }
}
