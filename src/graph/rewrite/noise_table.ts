/**
 * Repeatable noise: fixed tables of random numbers, and offsets to read them from.
 *
 * @module
 */

/** Elements of a table: enough that noise does not repeat within a second of sound. */
export const NOISE_TABLE_SIZE = 2 ** 19;

let normal: Float32Array<ArrayBuffer> | undefined;
let uniform: Float32Array<ArrayBuffer> | undefined;

/** Numbers of mean 0 and variance 1 (Box and Muller 1958). Not to be changed. */
export function normalTable(): Float32Array<ArrayBuffer> {
  return normal ??= makeNormal();
}

/** Numbers from 0 to 1. Not to be changed. */
export function uniformTable(): Float32Array<ArrayBuffer> {
  return uniform ??= makeUniform();
}

/** The offset of the noise for a segment of text and a seed. */
export function noiseOffset(seed: number, chunk: number): number {
  const mixed = Math.imul(seed ^ Math.imul(chunk + 1, 0x9e3779b1), 0x85ebca6b);
  return ((mixed ^ (mixed >>> 13)) >>> 0) % NOISE_TABLE_SIZE;
}

/** Normal noise from an offset on, owned by the caller. */
export function normalNoise(offset: number, length: number): Float32Array<ArrayBuffer> {
  const table = normalTable();
  const noise = new Float32Array(length);
  for (let at = 0; at < length;) {
    const from = (offset + at) % NOISE_TABLE_SIZE;
    const chunk = table.subarray(from, from + length - at);
    noise.set(chunk, at);
    at += chunk.length;
  }
  return noise;
}

/** Numbers from 0 to 1, 0 not included, from a fixed stream (mulberry32). */
function uniformStream(): () => number {
  let state = 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return (((bits ^ (bits >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
}

function makeUniform(): Float32Array<ArrayBuffer> {
  const next = uniformStream();
  const table = new Float32Array(NOISE_TABLE_SIZE);
  for (let i = 0; i < NOISE_TABLE_SIZE; i++) table[i] = next();
  return table;
}

function makeNormal(): Float32Array<ArrayBuffer> {
  const next = uniformStream();
  const table = new Float32Array(NOISE_TABLE_SIZE);
  for (let i = 0; i < NOISE_TABLE_SIZE; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(next()));
    const angle = 2 * Math.PI * next();
    table[i] = radius * Math.cos(angle);
    table[i + 1] = radius * Math.sin(angle);
  }
  return table;
}
