/**
 * Speech by loudness, for models that have no voice activity model beside them: what is well above the noise.
 *
 * @module
 */

const WINDOW_SECONDS = 0.032;
/** Nothing quieter is heard, in decibels below full scale. */
const SILENCE_DB = -55;
/** Of the noise, until a quieter moment tells. */
const FIRST_NOISE_DB = -45;
/** Above the noise; here speech is as likely as not. */
const SPEECH_DB = 12;
/** How steeply the likelihood rises. */
const SLOPE_DB = 3;
/** The noise is the quietest sound of late: it follows louder sound slowly, and quieter sound at once. */
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
