/**
 * Plays raw speech while it arrives (16-bit samples, one channel, 24 kHz), and draws the waveform of a recording.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { readColour, useMedia } from "./controls.tsx";

/** Sample rate of `response_format: pcm`. */
const SAMPLE_RATE = 24_000;
/** Seconds of sound that are buffered before playback starts, so that it does not stall at once. */
const LEAD_SECONDS = 0.15;

/** Plays 16-bit samples while they arrive, and keeps them. */
export class SpeechPlayer {
  readonly #context = new AudioContext({ sampleRate: SAMPLE_RATE });
  readonly #parts: Float32Array<ArrayBuffer>[] = [];
  #playsUntil = 0;
  /** The first byte of a sample that is split between chunks. */
  #odd: number | undefined;

  /** Takes the next bytes, and plays them after the previous ones. */
  add(bytes: Uint8Array): void {
    const samples = this.#decode(bytes);
    if (samples.length === 0) return;
    this.#parts.push(samples);
    const buffer = this.#context.createBuffer(1, samples.length, SAMPLE_RATE);
    buffer.copyToChannel(samples, 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#context.destination);
    const startsAt = Math.max(this.#playsUntil, this.#context.currentTime + LEAD_SECONDS);
    source.start(startsAt);
    this.#playsUntil = startsAt + buffer.duration;
  }

  /** All samples received so far. */
  samples(): Float32Array<ArrayBuffer> {
    const all = new Float32Array(this.#parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** Resolves when everything that was added has been played. */
  async finished(): Promise<void> {
    const restSeconds = this.#playsUntil - this.#context.currentTime;
    if (restSeconds > 0) await new Promise((resolve) => setTimeout(resolve, restSeconds * 1000));
  }

  /** Stops playback at once. */
  async close(): Promise<void> {
    if (this.#context.state !== "closed") await this.#context.close();
  }

  #decode(bytes: Uint8Array): Float32Array<ArrayBuffer> {
    const whole = new Uint8Array(bytes.length + (this.#odd === undefined ? 0 : 1));
    if (this.#odd !== undefined) whole[0] = this.#odd;
    whole.set(bytes, whole.length - bytes.length);
    this.#odd = whole.length % 2 === 1 ? whole.at(-1) : undefined;
    const view = new DataView(whole.buffer);
    return Float32Array.from(
      { length: whole.length >> 1 },
      (_, at) => view.getInt16(2 * at, true) / 32768,
    );
  }
}

/** Makes a WAV file with 16-bit samples. */
export function makeWav(samples: Float32Array): Blob {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (at: number, text: string) =>
    [...text].forEach((character, index) => view.setUint8(at + index, character.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, SAMPLE_RATE, true);
  view.setUint32(28, 2 * SAMPLE_RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) =>
    view.setInt16(44 + 2 * index, Math.max(-1, Math.min(1, sample)) * 32767, true)
  );
  return new Blob([view.buffer], { type: "audio/wav" });
}

const NUM_BARS = 200;
const WIDTH = 1000;
const HEIGHT = 80;

/** Finds the peak in each of {@linkcode NUM_BARS} intervals. */
export function findPeaks(samples: Float32Array): number[] {
  const perBar = Math.max(1, samples.length / NUM_BARS);
  return Array.from({ length: NUM_BARS }, (_, bar) => {
    let peak = 0;
    const end = Math.min(samples.length, Math.ceil((bar + 1) * perBar));
    for (let at = Math.floor(bar * perBar); at < end; at++) {
      peak = Math.max(peak, Math.abs(samples[at]!));
    }
    return peak;
  });
}

/** Decodes a file and computes the peaks of its first channel; `undefined` if the browser cannot decode it. */
export async function readPeaks(file: Blob): Promise<number[] | undefined> {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await file.arrayBuffer());
    return findPeaks(sound.getChannelData(0));
  } catch {
    return undefined;
  } finally {
    await context.close();
  }
}

/** Draws a waveform, and seeks when it is clicked. @param props.fraction how much was played, 0 to 1. */
export function Waveform({ peaks, fraction, onSeek }: {
  peaks: readonly number[];
  fraction: number;
  onSeek: (fraction: number) => void;
}): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = useMedia("(prefers-color-scheme: dark)");
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    // Colours are read from an element that is added to the canvas, since children of a canvas are not shown.
    const colours = ["--accent", "--line-strong"].map((name) => readColour(canvas.current!, name));
    context.clearRect(0, 0, WIDTH, HEIGHT);
    const most = Math.max(0.01, ...peaks);
    const step = WIDTH / peaks.length;
    peaks.forEach((peak, index) => {
      context.fillStyle = colours[(index + 1) / peaks.length <= fraction ? 0 : 1]!;
      const height = Math.max(2, (peak / most) * HEIGHT);
      context.fillRect(index * step, (HEIGHT - height) / 2, step * 0.65, height);
    });
  }, [peaks, fraction, isDark]);
  return (
    <canvas
      ref={canvas}
      class="waveform"
      width={WIDTH}
      height={HEIGHT}
      role="slider"
      tabIndex={0}
      aria-label="Position in the sound"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(fraction * 100)}
      onClick={(event) => {
        const { left, width } = event.currentTarget.getBoundingClientRect();
        onSeek((event.clientX - left) / width);
      }}
      onKeyDown={({ key }) => {
        if (key === "ArrowRight") onSeek(Math.min(1, fraction + 0.05));
        if (key === "ArrowLeft") onSeek(Math.max(0, fraction - 0.05));
      }}
    />
  );
}
