/**
 * Cloned voices: each recording is processed once, however often it is sent.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import { ByteBudgetCache } from "../byte_budget_cache.ts";
import type { VoiceRecording } from "../task.ts";
import { readReference } from "./reference_recording.ts";
import type { ClonedVoice, Voice, VoiceCloner } from "./synthesizer.ts";

/** Most bytes of cached voices. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

export class RecordedVoices {
  readonly #cloner: VoiceCloner;
  readonly #onMade: () => void;
  /** By checksum of the recording's file. */
  readonly #kept = new ByteBudgetCache<Voice>(MAX_KEPT_BYTES);
  readonly #inWork = new Map<string, Promise<ClonedVoice>>();

  /** @param onMade called each time a voice was created. */
  constructor(cloner: VoiceCloner, onMade: () => void) {
    this.#cloner = cloner;
    this.#onMade = onMade;
  }

  /** @throws {HearthError} `invalid_media`, naming the recording's path, when its voice cannot be cloned. */
  async voiceOf({ audio, param }: VoiceRecording): Promise<Voice> {
    const key = new Uint8Array(await crypto.subtle.digest("SHA-256", audio)).toHex();
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    try {
      return await this.#make(key, audio);
    } catch (error) {
      if (!(error instanceof HearthError)) throw error;
      throw new HearthError(error.kind, `${param}: ${error.message}`, { param, cause: error });
    }
  }

  /** Concurrent requests with the same recording share the work. */
  async #make(key: string, audio: Uint8Array<ArrayBuffer>): Promise<Voice> {
    const work = this.#inWork.getOrInsertComputed(key, () => this.#clone(audio));
    try {
      const { voice, numBytes } = await work;
      this.#kept.set(key, voice, numBytes);
      return voice;
    } finally {
      this.#inWork.delete(key);
    }
  }

  async #clone(audio: Uint8Array<ArrayBuffer>): Promise<ClonedVoice> {
    const samples = await readReference(audio, this.#cloner);
    const made = await this.#cloner.clone(samples);
    this.#onMade();
    return made;
  }
}
