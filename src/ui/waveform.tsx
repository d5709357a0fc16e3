/**
 * The waveform of a sound. The played part has the accent colour; a click seeks.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { readColour } from "./clipboard.ts";
import { useMedia } from "./controls.tsx";

const NUM_BARS = 200;
const WIDTH = 1000;
const HEIGHT = 80;

/** The peak in each of {@linkcode NUM_BARS} intervals. */
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

/** @param props.fraction the part that was played, 0 to 1. */
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
