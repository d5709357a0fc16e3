/**
 * Log-mel features computed directly from their definition in float64, and sounds to compute them from.
 *
 * @module
 */
import {
  type LogMelRow,
  type LogMelSpec,
  makeMelFilters,
} from "../../kernels/log_mel/log_mel_spec.ts";

/** Whisper's sizes, except that there are fewer frames. */
export const SMALL: LogMelSpec = {
  mels: 80,
  fftSamples: 400,
  hopSamples: 160,
  sampleRateHz: 16_000,
  frames: 24,
};

/** Computes the mel energies of a row, `[mels][frames]`, by a direct Fourier transform of every frame. */
function computeEnergies(spec: LogMelSpec, samples: Float32Array): number[][] {
  const { fftSamples: size, hopSamples, frames } = spec;
  const bins = Array.from(
    { length: frames },
    (_, frame) =>
      Array.from({ length: size / 2 + 1 }, (_, bin) => {
        let re = 0;
        let im = 0;
        for (let n = 0; n < size; n++) {
          const hann = Math.sin(Math.PI * n / size) ** 2;
          const x = hann * (samples[frame * hopSamples + n] ?? 0);
          re += x * Math.cos(2 * Math.PI * n * bin / size);
          im += x * Math.sin(2 * Math.PI * n * bin / size);
        }
        return re * re + im * im;
      }),
  );
  return makeMelFilters(spec).map(({ firstBin, weights }) =>
    bins.map((power) => weights.reduce((sum, weight, i) => sum + weight * power[firstBin + i]!, 0))
  );
}

/** Computes the features of rows of one recording, `[rows, mels, frames]`. */
export function readFeatures(
  spec: LogMelSpec,
  rows: readonly Omit<LogMelRow, "recording">[],
): number[] {
  const energies = rows.map(({ samples }) => computeEnergies(spec, samples));
  const floor = Math.max(1e-10, 1e-8 * Math.max(...energies.flat(2)));
  return rows.flatMap(({ contentFrames }, row) =>
    energies[row]!.flatMap((mel) =>
      mel.map((energy, frame) =>
        frame < contentFrames ? (Math.log10(Math.max(energy, floor)) + 4) / 4 : 0
      )
    )
  );
}

/** Makes difficult sounds of different kinds, each of `numSamples` samples. */
export function makeSounds(numSamples: number): Record<string, Float32Array> {
  const make = (value: (i: number) => number) =>
    Float32Array.from({ length: numSamples }, (_, i) => value(i));
  let state = 1;
  const noise = () => (state = Math.imul(state, 48271) & 0x7fffffff) / 0x40000000 - 1;
  return {
    "noise": make(() => 0.3 * noise()),
    "a chirp to half the sample rate": make((i) => Math.sin(Math.PI * i * i / 2 / numSamples)),
    "a click in silence": make((i) => i === 1234 ? 1 : 0),
    "a full-scale tone next to a faint one": make((i) =>
      Math.sin(i * 0.37) + 1e-4 * Math.sin(i * 1.7)
    ),
    "a whisper after a bang": make((i) => (i < 600 ? 1 : 1e-3) * noise()),
    "a constant": make(() => 0.5),
    "silence": make(() => 0),
  };
}
