// Computes the energies under the mel filters; the first half of log_mel:
//
//   power[k, f]  = |sum over n of window[n] samples[f HOP + n] e^(-2 pi i n k / 400)|^2
//   energy[m, f] = sum over k of weight[m, k] power[k, f]
//
// and loudest[recording] = max(itself, every energy of the recording's rows).
//
//   samples   f32 [rows, ROW_SAMPLES]      0 past the end of a row's sound, up to the last frame of its last workgroup
//   rows      Row [rows]
//   window    vec2<f32> [200]              the Hann window, by pairs of samples
//   roots     vec2<f32> [400]              e^(-2 pi i n / 400)
//   filters   Weight [starts[MELS]]        the filters' weights, filter by filter, each with the index of its bin
//   starts    u32 [MELS + 1]               filter m owns weights starts[m] to starts[m + 1]
//   energies  f32 [rows, MELS, FRAMES]     frames from row.reached on, rounded up to 8, are not written
//   loudest   u32 [recordings]             the bits of an energy; energies are not negative, so their bits have the
//   same order
//
// Workgroup (g, row) computes the 8 frames of a row from 8 g on; an invocation handles four of them at a time, in the
// components of a vec4. Per frame, 400 real samples are taken as 200 complex numbers, which are transformed in place by
// passes of radix 5, 5 and 8. That leaves bin k at bin_index(k). Then bins k and 200 - k are separated. Bins 0 and 200
// have no weight in any filter and are left out. Workgroup memory: 12.8 kB.
//
// The kernel itself checks nothing: log_mel.ts ensures windows of 400 samples and FRAMES that are divisible by 8.

struct Row {
  recording: u32,
  reached: u32,
  content: u32,
}

struct Weight {
  bin_index: u32,
  weight: f32,
}

@group(0) @binding(0) var<storage, read> samples: array<f32>;
@group(0) @binding(1) var<storage, read> rows: array<Row>;
@group(0) @binding(2) var<storage, read> window: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> roots: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> filters: array<Weight>;
@group(0) @binding(5) var<storage, read> starts: array<u32>;
@group(0) @binding(6) var<storage, read_write> energies: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> loudest: array<atomic<u32>>;

override MELS: u32;
override FRAMES: u32;
override HOP: u32;
override ROW_SAMPLES: u32;
override WG: u32;

// Number of groups of four frames in a workgroup.
const QUADS = 2u;
const SIZE = 200u;

// One complex number for each of four frames.
struct Quad {
  re: vec4<f32>,
  im: vec4<f32>,
}

var<workgroup> z: array<Quad, SIZE * QUADS>;
var<workgroup> group_loudest: atomic<u32>;

fn add(a: Quad, b: Quad) -> Quad {
  return Quad(a.re + b.re, a.im + b.im);
}

fn sub(a: Quad, b: Quad) -> Quad {
  return Quad(a.re - b.re, a.im - b.im);
}

fn scale(a: Quad, factor: f32) -> Quad {
  return Quad(a.re * factor, a.im * factor);
}

fn mul(a: Quad, b: vec2<f32>) -> Quad {
  return Quad(a.re * b.x - a.im * b.y, a.re * b.y + a.im * b.x);
}

// Multiplies by -i.
fn rotate_quarter(a: Quad) -> Quad {
  return Quad(a.im, -a.re);
}

fn bin_index(bin: u32) -> u32 {
  return bin % 5u * 40u + bin / 5u % 5u * 8u + bin / 25u;
}

const COS_1 = 0.30901699437494745;
const COS_2 = -0.8090169943749475;
const SIN_1 = 0.9510565162951535;
const SIN_2 = 0.5877852522924731;

// Transforms five numbers, and multiplies result j by roots[root * j].
fn transform5(at: u32, step: u32, root: u32, a: Quad, b: Quad, c: Quad, d: Quad, e: Quad) {
  let be = add(b, e);
  let cd = add(c, d);
  let b_e = rotate_quarter(sub(b, e));
  let c_d = rotate_quarter(sub(c, d));
  let p = add(a, add(scale(be, COS_1), scale(cd, COS_2)));
  let q = add(a, add(scale(be, COS_2), scale(cd, COS_1)));
  let u = add(scale(b_e, SIN_1), scale(c_d, SIN_2));
  let v = sub(scale(b_e, SIN_2), scale(c_d, SIN_1));
  z[at] = add(a, add(be, cd));
  z[at + step] = mul(add(p, u), roots[root]);
  z[at + 2u * step] = mul(add(q, v), roots[2u * root]);
  z[at + 3u * step] = mul(sub(q, v), roots[3u * root]);
  z[at + 4u * step] = mul(sub(p, u), roots[4u * root]);
}

fn load(at: u32, pair: u32) -> Quad {
  let i = at + 2u * pair;
  let even = vec4(samples[i], samples[i + HOP], samples[i + 2u * HOP], samples[i + 3u * HOP]);
  let j = i + 1u;
  let odd = vec4(samples[j], samples[j + HOP], samples[j + 2u * HOP], samples[j + 3u * HOP]);
  return Quad(even * window[pair].x, odd * window[pair].y);
}

const HALF_ROOT = 0.7071067811865476;

// Transforms eight neighbouring numbers of a group of frames.
fn transform8(at: u32) {
  let b0 = add(z[at], z[at + 4u * QUADS]);
  let b4 = sub(z[at], z[at + 4u * QUADS]);
  let b1 = add(z[at + QUADS], z[at + 5u * QUADS]);
  let b5 = sub(z[at + QUADS], z[at + 5u * QUADS]);
  let b2 = add(z[at + 2u * QUADS], z[at + 6u * QUADS]);
  let b6 = rotate_quarter(sub(z[at + 2u * QUADS], z[at + 6u * QUADS]));
  let b3 = add(z[at + 3u * QUADS], z[at + 7u * QUADS]);
  let b7 = rotate_quarter(sub(z[at + 3u * QUADS], z[at + 7u * QUADS]));
  let c0 = add(b0, b2);
  let c1 = add(b1, b3);
  let c2 = sub(b0, b2);
  let c3 = rotate_quarter(sub(b1, b3));
  let c4 = add(b4, b6);
  let c5 = mul(add(b5, b7), vec2(HALF_ROOT, -HALF_ROOT));
  let c6 = sub(b4, b6);
  let c7 = mul(sub(b5, b7), vec2(-HALF_ROOT, -HALF_ROOT));
  z[at] = add(c0, c1);
  z[at + QUADS] = add(c4, c5);
  z[at + 2u * QUADS] = add(c2, c3);
  z[at + 3u * QUADS] = add(c6, c7);
  z[at + 4u * QUADS] = sub(c0, c1);
  z[at + 5u * QUADS] = sub(c4, c5);
  z[at + 6u * QUADS] = sub(c2, c3);
  z[at + 7u * QUADS] = sub(c6, c7);
}

// Separates bin `bin` from its mirror, and writes their powers in place.
fn untangle(bin: u32, quad: u32) {
  let at = bin_index(bin) * QUADS + quad;
  let mirror = bin_index(SIZE - bin) * QUADS + quad;
  let a = z[at];
  let b = Quad(z[mirror].re, -z[mirror].im);
  let even = scale(add(a, b), 0.5);
  let odd = mul(rotate_quarter(scale(sub(a, b), 0.5)), roots[bin]);
  let plus = add(even, odd);
  let minus = sub(even, odd);
  z[at].re = plus.re * plus.re + plus.im * plus.im;
  z[mirror].re = minus.re * minus.re + minus.im * minus.im;
}

@compute @workgroup_size(WG)
fn log_mel_energy(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let row = rows[group.y];
  let first_frame = group.x * 4u * QUADS;
  if (first_frame >= row.reached) {
    return;
  }
  if (local == 0u) {
    atomicStore(&group_loudest, 0u);
  }
  for (var task = local; task < 40u * QUADS; task += WG) {
    let p = task / QUADS;
    let at = group.y * ROW_SAMPLES + (first_frame + task % QUADS * 4u) * HOP;
    transform5(
      task, 40u * QUADS, 2u * p,
      load(at, p), load(at, p + 40u), load(at, p + 80u), load(at, p + 120u), load(at, p + 160u),
    );
  }
  workgroupBarrier();
  for (var task = local; task < 40u * QUADS; task += WG) {
    let p = task / QUADS % 8u;
    let step = 8u * QUADS;
    let at = task / step * 5u * step + task % step;
    transform5(at, step, 10u * p, z[at], z[at + step], z[at + 2u * step], z[at + 3u * step], z[at + 4u * step]);
  }
  workgroupBarrier();
  for (var task = local; task < 25u * QUADS; task += WG) {
    transform8(task / QUADS * 8u * QUADS + task % QUADS);
  }
  workgroupBarrier();
  for (var task = local; task < SIZE / 2u * QUADS; task += WG) {
    untangle(task / QUADS + 1u, task % QUADS);
  }
  workgroupBarrier();
  var largest = vec4(0.0);
  for (var task = local; task < MELS * QUADS; task += WG) {
    let mel = task / QUADS;
    let quad = task % QUADS;
    var energy = vec4(0.0);
    let end = starts[mel + 1u];
    for (var i = starts[mel]; i < end; i++) {
      let filter_weight = filters[i];
      energy += filter_weight.weight * z[filter_weight.bin_index * QUADS + quad].re;
    }
    largest = max(largest, energy);
    energies[(group.y * MELS + mel) * (FRAMES / 4u) + group.x * QUADS + quad] = energy;
  }
  let largest_two = max(largest.xy, largest.zw);
  atomicMax(&group_loudest, bitcast<u32>(max(largest_two.x, largest_two.y)));
  workgroupBarrier();
  if (local == 0u) {
    atomicMax(&loudest[row.recording], atomicLoad(&group_loudest));
  }
}
