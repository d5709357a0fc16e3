// Computes log-mel features from energies; the second half of log_mel:
//
//   output[m, f] = (log10(max(energy[m, f], 1e-10, 1e-8 loudest[recording])) + 4) / 4
//
// where energies of frames from row.reached on count as 0, and output from row.content on is 0.
//
//   energies  f32 [rows, MELS, FRAMES]
//   rows      Row [rows]
//   loudest   u32 [recordings]             the bits of an energy
//   output    elem [rows, MELS, FRAMES]    elem is f32 or f16
//
// Workgroup (g, row) computes 4 WG values of one row, four per invocation. No workgroup memory.

struct Row {
  recording: u32,
  reached: u32,
  content: u32,
}

@group(0) @binding(0) var<storage, read> energies: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> rows: array<Row>;
@group(0) @binding(2) var<storage, read> loudest: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<four>;

override ROW_FOURS: u32;
override FRAMES: u32;
override WG: u32;

const LOG10_2 = 0.3010299956639812;

@compute @workgroup_size(WG)
fn log_mel(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= ROW_FOURS) {
    return;
  }
  let row = rows[id.y];
  let at = id.y * ROW_FOURS + id.x;
  let frames = (4u * id.x + vec4(0u, 1u, 2u, 3u)) % FRAMES;
  let sounding = select(vec4(0.0), energies[at], frames < vec4(row.reached));
  let lowest = max(1e-10, 1e-8 * bitcast<f32>(loudest[row.recording]));
  let values = log2(max(sounding, vec4(lowest))) * (LOG10_2 / 4.0) + 1.0;
  output[at] = pack(select(vec4(0.0), values, frames < vec4(row.content)));
}
