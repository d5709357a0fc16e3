// Both products for few rows: each row is multiplied with its own experts' matrices. See experts_source.ts.
//
// In the first product, `out[row, j]` is the activated output of a row's `j`-th expert. The second product sums the
// weighted outputs of a row's experts, in order. A workgroup has $UNITS units of $LANES threads. Each unit computes
// $ROWS rows of a matrix, and its threads divide the sum along K.

@group(0) @binding(5) var<storage, read> routes: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> out: array<$OUT>;

// One float of padding avoids conflicts of memory banks.
const STRIDE = $(LANES + 1)u;

var<workgroup> sums: array<f32, $(ROWS * UNITS * (LANES + 1))>;

fn sum_at(unit: u32, r: u32) -> f32 {
  let at = (r * $(UNITS)u + unit) * STRIDE;
  //# for i in 0..4
  var sum$i = sums[at + $(i)u];
  //# for j in 1..LANES / 4
  sum$i += sums[at + $(4 * j + i)u];
  //# end
  //# end
  return sum0 + sum1 + sum2 + sum3;
}

//# part multiply
    //# for r in 0..ROWS
    let row$r = base + min(first + $(r % UNIT_OUTPUTS)u, $(OUTPUTS - 1)u) * $(STEP)u +
      $(GATE + r / UNIT_OUTPUTS * (UP - GATE))u;
    //# end
    for (var chunk = lane; chunk < $(K / CHUNK)u; chunk += $(LANES)u) {
      //# for r in 0..ROWS
      //# if IS_PLAIN
      let w$r_0 = weight_four(row$r, chunk * 2u);
      let w$r_1 = weight_four(row$r, chunk * 2u + 1u);
      //# else
      let words$r = levels[row$r * $(K / CHUNK)u + chunk];
      let scale$r = scale_at(row$r, chunk / $(BLOCK / CHUNK)u);
      let zero$r = zero_at(row$r, chunk / $(BLOCK / CHUNK)u);
      //# end
      //# end
      //# for i in 0..CHUNK / 4
      let x$i = x_four(x_start + chunk * $(CHUNK / 4)u + $(i)u);
      //# end
      //# if IS_PLAIN
      //# for r in 0..ROWS
      //# if IS_FIRST
      value$r += dot(w$r_0, x0) + dot(w$r_1, x1);
      //# else
      value$r += share * (dot(w$r_0, x0) + dot(w$r_1, x1));
      //# end
      //# end
      //# else
      var x_sum = x0;
      //# for i in 1..CHUNK / 4
      x_sum += x$i;
      //# end
      let total = dot(x_sum, vec4<f32>(1.0));
      //# for r in 0..ROWS
      var dot$r = 0.0;
      //# end
      //# for w in 0..CHUNK * BITS / 32
      //# if IS_NIBBLES
      // The levels at even indices of a word form one vec4, those at odd indices another.
      let evens$w = vec4<f32>(x$(2 * w).xz, x$(2 * w + 1).xz);
      let odds$w = vec4<f32>(x$(2 * w).yw, x$(2 * w + 1).yw);
      //# for r in 0..ROWS
      dot$r += dot(vec4<f32>(unpack4xU8(words$r[$w] & 0x0f0f0f0fu)), evens$w) +
        dot(vec4<f32>(unpack4xU8((words$r[$w] >> 4u) & 0x0f0f0f0fu)), odds$w);
      //# end
      //# else
      //# for r in 0..ROWS
      dot$r += dot(vec4<f32>(unpack4xU8(words$r[$w])), x$w);
      //# end
      //# end
      //# end
      //# for r in 0..ROWS
      //# if IS_FIRST
      value$r += scale$r * (dot$r - zero$r * total);
      //# else
      value$r += share * scale$r * (dot$r - zero$r * total);
      //# end
      //# end
      //# end
    }
//# end
@compute @workgroup_size($(LANES * UNITS))
fn experts_few(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let lane = thread % $(LANES)u;
  let unit = thread / $(LANES)u;
  let first = (group.x * $(UNITS)u + unit) * $(UNIT_OUTPUTS)u;
  //# for r in 0..ROWS
  var value$r = 0.0;
  //# end
  //# if IS_FIRST
  let pair = group.y;
  let expert = routes[pair].x;
  let base = expert * $(MATRIX_ROWS)u;
  let x_start = pair / $(PER_ROW)u * $(X_STRIDE)u + $(X_OFFSET)u;
  //# put multiply
  //# else
  let row = group.y;
  for (var j = 0u; j < $(TOP_K)u; j++) {
    let route = routes[row * $(TOP_K)u + j];
    let base = route.x * $(MATRIX_ROWS)u;
    let share = bitcast<f32>(route.y);
    let x_start = (row * $(TOP_K)u + j) * $(X_STRIDE)u;
    //# put multiply
  }
  //# end
  //# for r in 0..ROWS
  sums[($(r * UNITS)u + unit) * STRIDE + lane] = value$r;
  //# end
  workgroupBarrier();
  for (var i = thread; i < $(UNITS * UNIT_OUTPUTS)u; i += $(LANES * UNITS)u) {
    let of_unit = i / $(UNIT_OUTPUTS)u;
    let r = i % $(UNIT_OUTPUTS)u;
    let n = group.x * $(UNITS * UNIT_OUTPUTS)u + i;
    if (n < $(OUTPUTS)u) {
      //# if IS_FIRST
      let gate = sum_at(of_unit, r) + bias_at(expert, n * $(STEP)u + $(GATE)u);
      //# if IS_GATED
      let up = sum_at(of_unit, r + $(UNIT_OUTPUTS)u) + bias_at(expert, n * $(STEP)u + $(UP)u);
      //# else
      let up = 0.0;
      //# end
      out[pair * $(OUTPUTS)u + n] = activated(gate, up);
      //# else
      var sum = sum_at(of_unit, r);
      for (var j = 0u; j < $(TOP_K)u; j++) {
        let route = routes[row * $(TOP_K)u + j];
        sum += bitcast<f32>(route.y) * bias_at(route.x, n);
      }
      out[row * $(OUTPUTS)u + n] = elem(sum);
      //# end
    }
  }
}
