// Products of few rows on graphics cards, with one variable per sum and a thread's loads one right after the other.
// matrix.wgsl and matvec.wgsl must precede this template; see matvec_source.ts.
//
// A lane reads the matrix in units along K: chunks of levels, or vec4s of elements. Its sums are `value0` and so on:
// for each row the sums of the outputs, and one of the row's squares for a root mean square.

var<workgroup> totals: array<f32, $(VALUES * GROUPS)>;

// The norm's factors and offsets for a vec4.
//# part affine
//# if HAS_NORM
let factor$f = unpack(affine[AFFINE_AT + at$f]);
//# end
//# if HAS_OFFSETS
let offset$f = unpack(affine[AFFINE_AT + K_FOURS + at$f]);
//# end
//# end

// A vec4 of a row as input of the product.
//# part row
var x$(f)_$r = row_four(row0, $(r)u, at$f);
//# if IS_RMS
value$(r * PER_ROW + OUTS) += dot(x$(f)_$r, x$(f)_$r);
//# end
//# if IS_LAYER
x$(f)_$r = (x$(f)_$r - row_mean[$r]) * row_scale[$r];
//# end
//# if HAS_NORM
x$(f)_$r *= factor$f;
//# end
//# if HAS_OFFSETS
x$(f)_$r += offset$f;
//# end
//# end

// The parts of the matrix that a lane reads for a unit.
//# part load
//# if IS_NBITS
//# for o in 0..OUTS
let words$(s)_$o = levels[row_$o * $(UNITS)u + unit$s];
let scale$(s)_$o = f32(scales[row_$o * BLOCKS + unit$s / $(BLOCK_UNITS)u]);
//# if HAS_ZERO_POINTS
let zero$(s)_$o = zero_point(row_$o, unit$s / $(BLOCK_UNITS)u);
//# else
let zero$(s)_$o = $HALF.0;
//# end
//# end
//# end
//# if IS_ROWS
//# for o in 0..OUTS
let weights$(s)_$o = unpack(weights[row_$o * K_FOURS + unit$s]);
//# end
//# end
//# if IS_COLUMNS
//# for q in 0..(OUTS / 4)
//# for e in 0..4
let w$(s)_$(q)_$e = load_columns(unit$s * 4u + $(e)u, row_$(4 * q));
//# end
//# end
//# end
//# end

// The products of a unit. Words of levels are split into planes, which have the levels at the same bits of each byte:
// with 4 bits, one plane has the levels at even indices and one those at odd indices.
//# part multiply
//# if IS_NBITS
//# for r in 0..ROWS
var total_$r = 0.0;
//# for o in 0..OUTS
var dot_$(o)_$r = 0.0;
//# end
//# end
//# for w in 0..WORDS
{
  //# for f in 0..WORD_FOURS
  let at$f = unit$s * $(WORDS * WORD_FOURS)u + $(w * WORD_FOURS + f)u;
  //# put affine
  //# end
  //# for o in 0..OUTS
  //# for p in 0..WORD_FOURS
  //# if IS_BYTES
  let levels$(p)_$o = vec4<f32>(unpack4xU8(words$(s)_$o[$w]));
  //# else
  let levels$(p)_$o = vec4<f32>(unpack4xU8((words$(s)_$o[$w] >> $(p * BITS)u) & $(MASK)u));
  //# end
  //# end
  //# end
  //# for r in 0..ROWS
  var fours_$r = vec4<f32>();
  //# for f in 0..WORD_FOURS
  //# put row
  fours_$r += x$(f)_$r;
  //# end
  total_$r += dot(fours_$r, vec4<f32>(1.0));
  //# for p in 0..WORD_FOURS
  let plane$(p)_$r = vec4<f32>(
    //# for b in 0..4
    x$((b * WORD_FOURS + p) / 4)_$r[$((b * WORD_FOURS + p) % 4)],
    //# end
  );
  //# end
  //# for o in 0..OUTS
  var word_$(o)_$r = 0.0;
  //# for p in 0..WORD_FOURS
  word_$(o)_$r += dot(levels$(p)_$o, plane$(p)_$r);
  //# end
  dot_$(o)_$r += word_$(o)_$r;
  //# end
  //# end
}
//# end
//# for r in 0..ROWS
//# for o in 0..OUTS
value$(r * PER_ROW + o) += scale$(s)_$o * (dot_$(o)_$r - zero$(s)_$o * total_$r);
//# end
//# end
//# else
//# for f in 0..1
let at$f = unit$s;
//# put affine
//# for r in 0..ROWS
//# put row
//# if IS_ROWS
//# for o in 0..OUTS
value$(r * PER_ROW + o) += dot(weights$(s)_$o, x$(f)_$r);
//# end
//# else
//# for q in 0..(OUTS / 4)
let sum_$(q)_$r = w$(s)_$(q)_0 * x$(f)_$r.x + w$(s)_$(q)_1 * x$(f)_$r.y + w$(s)_$(q)_2 * x$(f)_$r.z +
  w$(s)_$(q)_3 * x$(f)_$r.w;
//# for e in 0..4
value$(r * PER_ROW + 4 * q + e) += sum_$(q)_$r[$e];
//# end
//# end
//# end
//# end
//# end
//# end
//# end

@compute @workgroup_size(THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * ROWS;
  //# if UNITS_FIRST
  let lane = thread / $(GROUPS)u;
  let unit = thread % $(GROUPS)u;
  //# else
  let lane = thread % $(LANES)u;
  let unit = thread / $(LANES)u;
  //# end
  let first = (group.x * GROUPS + unit) * outputs_per_unit();
  prepare_rows(row0, thread);
  //# if IS_LAYER
  measure_rows(row0, thread);
  //# end
  //# for v in 0..VALUES
  var value$v = 0.0;
  //# end
  //# for o in 0..OUTS
  let row_$o = matrix_row(first, $(o)u);
  //# end
  //# if LOOPS
  for (var at = lane; at < $(UNITS)u; at += $(LANES * STEPS)u) {
  //# else
  let at = lane;
  {
  //# end
    //# for s in 0..STEPS
    let unit$s = at + $(s * LANES)u;
    //# put load
    //# end
    //# for s in 0..STEPS
    {
      //# put multiply
    }
    //# end
  }
  // Adds up the sums of each unit's lanes, as many sums at a time as fit into memory. One float of padding per sum
  // avoids conflicts of memory banks.
  //# for pass in 0..PASSES
  workgroupBarrier();
  //# for v in 0..PASS_VALUES
  //# if pass * PASS_VALUES + v < VALUES
  sums[($(v * GROUPS)u + unit) * $(LANES + 1)u + lane] = value$(pass * PASS_VALUES + v);
  //# end
  //# end
  workgroupBarrier();
  for (
    var i = thread;
    i < min($(PASS_VALUES * GROUPS)u, $((VALUES - pass * PASS_VALUES) * GROUPS)u);
    i += THREADS
  ) {
    let at = i * $(LANES + 1)u;
    //# for c in 0..CHAINS
    var chain$c = sums[at + $(c)u];
    //# for i in 1..(LANES / CHAINS)
    chain$c += sums[at + $(i * CHAINS + c)u];
    //# end
    //# end
    //# for c in 1..CHAINS
    chain0 += chain$c;
    //# end
    totals[$(pass * PASS_VALUES * GROUPS)u + i] = chain0;
  }
  //# end
  workgroupBarrier();
  let outputs = outputs_per_unit();
  for (var i = thread; i < GROUPS * outputs * ROWS; i += THREADS) {
    let of_unit = i % GROUPS;
    let o = (i / GROUPS) % outputs;
    let r = i / (GROUPS * outputs);
    let n = (group.x * GROUPS + of_unit) * outputs + o;
    if (n < N) {
      let at = r * $(PER_ROW)u + o;
      var value = vec2<f32>(totals[at * GROUPS + of_unit], 0.0);
      if (IS_GATED) {
        value.y = totals[(at + outputs) * GROUPS + of_unit];
      }
      //# if IS_RMS
      let squares = totals[(r * $(PER_ROW)u + OUTS) * GROUPS + of_unit];
      value *= inverseSqrt(squares / f32(K_FOURS * 4u) + EPSILON);
      //# end
      finish(n, row0 + r, value);
    }
  }
}
