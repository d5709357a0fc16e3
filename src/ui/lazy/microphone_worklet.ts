/**
 * Passes on the microphone's sound in chunks of 16-bit samples. This code runs in the browser's audio thread.
 *
 * @module
 */

/** Declared here because only the audio thread has it. */
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: typeof AudioWorkletProcessor): void;

/** A tenth of a second at 24 kHz. */
const CHUNK_SAMPLES = 2400;

class Microphone extends AudioWorkletProcessor {
  #chunk = new Int16Array(CHUNK_SAMPLES);
  #filled = 0;

  process([channels]: Float32Array[][]): boolean {
    for (const sample of channels?.[0] ?? []) {
      this.#chunk[this.#filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.#filled < CHUNK_SAMPLES) continue;
      this.port.postMessage(this.#chunk, [this.#chunk.buffer]);
      this.#chunk = new Int16Array(CHUNK_SAMPLES);
      this.#filled = 0;
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
