/**
 * Keeps sound below full scale.
 *
 * @module
 */

/** Peak level after limiting; lossy formats may add a little to it. */
const CEILING = 0.95;

/**
 * Scales a sound down in place if a sample exceeds full scale.
 *
 * @throws {RangeError} when a sample is not finite.
 */
export function limitPeaks(samples: Float32Array): void {
  let peak = 0;
  for (let i = 0; i < samples.length; i++) {
    const loudness = Math.abs(samples[i]!);
    if (!Number.isFinite(loudness)) {
      throw new RangeError("The sound has samples that are NaN or infinite.");
    }
    if (loudness > peak) peak = loudness;
  }
  if (peak <= 1) return;
  const factor = CEILING / peak;
  for (let i = 0; i < samples.length; i++) samples[i]! *= factor;
}
