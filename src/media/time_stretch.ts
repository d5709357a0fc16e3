/**
 * Changes the speed of speech without changing its pitch: waveform similarity overlap-add (WSOLA; Verhelst and
 * Roelands, "An overlap-add technique based on waveform similarity for high quality time-scale modification of speech",
 * 1993).
 *
 * @module
 */

/** Long enough for two periods of a low voice. */
const FRAME_SECONDS = 0.03;
/** How far a frame may be shifted to match the previous one: one period of a low voice. */
const SEARCH_SECONDS = 0.0125;
/** Only every second sample is compared, which is enough. */
const COMPARED_STRIDE = 2;

/**
 * @param speed above 1 is faster.
 * @returns about `samples.length / speed` samples, owned by the caller; `samples` itself if the speed is 1.
 */
export function stretchTime(
  samples: Float32Array<ArrayBuffer>,
  { speed, sampleRateHz }: { readonly speed: number; readonly sampleRateHz: number },
): Float32Array<ArrayBuffer> {
  const hop = Math.round(FRAME_SECONDS * sampleRateHz / 2);
  if (speed === 1 || samples.length < 4 * hop) return samples;
  const search = Math.round(SEARCH_SECONDS * sampleRateHz);
  const window = Float32Array.from(
    { length: 2 * hop },
    (_, i) => 0.5 - 0.5 * Math.cos(Math.PI * (i + 0.5) / hop),
  );
  const length = Math.round(samples.length / speed);
  const numFrames = Math.ceil(length / hop);
  const output = new Float32Array((numFrames + 2) * hop);
  // Frames overlap by half, and the two halves of the window add up to 1. Only the first frame has none before it.
  output.set(samples.subarray(0, hop));
  let previous = 0;
  for (let frame = 0; frame <= numFrames; frame++) {
    const wanted = Math.round(frame * hop * speed);
    const start = frame === 0
      ? 0
      : findFit(samples, { follows: previous + hop, wanted, search, hop });
    const isFirst = frame === 0;
    for (let i = isFirst ? hop : 0; i < 2 * hop; i++) {
      output[frame * hop + i]! += window[i]! * (samples[start + i] ?? 0);
    }
    previous = start;
  }
  return output.slice(0, length);
}

/**
 * Finds the frame near `wanted` that is most similar to the natural continuation.
 *
 * @returns its first sample.
 */
function findFit(
  samples: Float32Array,
  { follows, wanted, search, hop }: {
    readonly follows: number;
    readonly wanted: number;
    readonly search: number;
    readonly hop: number;
  },
): number {
  const first = Math.max(0, wanted - search);
  const last = Math.min(samples.length - 2 * hop, wanted + search);
  if (follows + 2 * hop > samples.length || last <= first) {
    return Math.max(0, Math.min(wanted, last));
  }
  let best = Math.min(wanted, last);
  let most = -Infinity;
  for (let start = first; start <= last; start++) {
    let product = 0;
    let energy = 1e-9;
    for (let i = 0; i < 2 * hop; i += COMPARED_STRIDE) {
      const sample = samples[start + i]!;
      product += sample * samples[follows + i]!;
      energy += sample * sample;
    }
    const similarity = product / Math.sqrt(energy);
    if (similarity > most) [best, most] = [start, similarity];
  }
  return best;
}
