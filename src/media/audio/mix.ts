/**
 * Several channels to one.
 *
 * @module
 */

/** Largest sample: louder than any recording, and small enough that no spectrum overflows. */
const MAX_AMPLITUDE = 65_536;

/** The channels' average. NaN becomes silence. */
export function mixDown(channels: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const mono = new Float32Array(channels[0]!.length);
  for (const channel of channels) {
    for (let i = 0; i < mono.length; i++) mono[i]! += channel[i]!;
  }
  const share = 1 / channels.length;
  for (let i = 0; i < mono.length; i++) {
    const sample = mono[i]! * share;
    mono[i] = Math.abs(sample) <= MAX_AMPLITUDE ? sample : 0;
  }
  return mono;
}
