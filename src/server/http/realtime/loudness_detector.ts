/**
 * Detects speech by loudness, for models that come without a voice activity model: speech is whatever is well above the
 * noise.
 *
 * @module
 */

const WINDOW_SECONDS = 0.032;
/** Anything quieter is never speech, in decibels relative to full scale. */
const SILENCE_DB = -55;
/** Level of the noise that is assumed until a quieter moment is heard. */
const FIRST_NOISE_DB = -45;
/** Level above the noise at which the likelihood of speech is one half. */
const SPEECH_DB = 12;
/** How far the level must rise for the likelihood's odds to grow by a factor of e. */
const SLOPE_DB = 3;
/**
 * The noise estimate is the quietest recent sound: it rises slowly with louder sound, and falls at once with quieter
 * sound.
 */
const NOISE_RISE_DB_PER_SECOND = 2;

/** Follows the loudness of one speaker. */
export class LoudnessDetector {
  readonly windowMs = 1000 * WINDOW_SECONDS;
  readonly #windowSamples: number;
  #sumOfSquares = 0;
  #numSamples = 0;
  #noiseDb = FIRST_NOISE_DB;

  constructor(sampleRateHz: number) {
    this.#windowSamples = Math.round(WINDOW_SECONDS * sampleRateHz);
  }

  /**
   * Takes samples.
   *
   * @param samples full scale at 2^15.
   * @returns the likelihood of speech, 0 to 1, in each window that is complete.
   */
  push(samples: Int16Array): Promise<number[]> {
    const likelihoods: number[] = [];
    for (const sample of samples) {
      this.#sumOfSquares += sample * sample;
      if (++this.#numSamples === this.#windowSamples) likelihoods.push(this.#endWindow());
    }
    return Promise.resolve(likelihoods);
  }

  #endWindow(): number {
    const meanSquare = this.#sumOfSquares / this.#numSamples / 2 ** 30;
    const levelDb = Math.max(SILENCE_DB, 10 * Math.log10(meanSquare));
    this.#sumOfSquares = this.#numSamples = 0;
    const risenDb = this.#noiseDb + NOISE_RISE_DB_PER_SECOND * WINDOW_SECONDS;
    this.#noiseDb = Math.min(levelDb, risenDb);
    return 1 / (1 + Math.exp((SPEECH_DB - (levelDb - this.#noiseDb)) / SLOPE_DB));
  }
}
