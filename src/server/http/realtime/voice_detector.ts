/**
 * Detects speech with the voice activity model that is loaded beside the recogniser.
 *
 * @module
 */
import { AudioResampler } from "../../../media/sound_rate.ts";
import type { VoiceState, VoiceWindows } from "../../../models/task.ts";
import type { Session } from "../../session/session.ts";
import { whenRoom } from "./when_room.ts";

interface VoiceDetectorOptions {
  readonly session: Session;
  readonly requestId: string;
  readonly windows: VoiceWindows;
  /** Sample rate of the audio that is pushed. */
  readonly sampleRateHz: number;
  readonly signal: AbortSignal;
}

/** Follows one speaker. */
export class VoiceDetector {
  readonly windowMs: number;
  readonly #options: VoiceDetectorOptions;
  readonly #resampler: AudioResampler | undefined;
  #state: VoiceState | undefined;

  constructor(options: VoiceDetectorOptions) {
    const { windows, sampleRateHz } = options;
    this.#options = options;
    this.windowMs = 1000 * windows.windowSamples / windows.sampleRateHz;
    if (sampleRateHz !== windows.sampleRateHz) {
      this.#resampler = new AudioResampler(sampleRateHz, windows.sampleRateHz);
    }
  }

  /**
   * Takes samples.
   *
   * @param samples full scale at 2^15.
   * @returns the likelihood of speech, 0 to 1, in each window that is complete.
   * @throws {HearthError} when the model cannot be run.
   */
  async push(samples: Int16Array): Promise<readonly number[]> {
    const { session, requestId, signal } = this.#options;
    const scaled = Float32Array.from(samples, (sample) => sample / 2 ** 15);
    const heard = this.#resampler?.push(scaled) ?? scaled;
    const { likelihoods, state } = await whenRoom(() =>
      session.answer({
        type: "detect",
        requestId,
        samples: heard,
        state: this.#state,
      }, { signal }), signal);
    this.#state = state;
    return likelihoods;
  }
}
