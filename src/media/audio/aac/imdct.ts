/**
 * The inverse modified discrete cosine transform (Princen, Johnson and Bradley 1987).
 *
 * @module
 */
import { Fft } from "../../fft.ts";

/** Transforms `size` coefficients into `2 size` samples, which overlap with those before and after. */
export class Imdct {
  readonly size: number;
  readonly #fft: Fft;
  /** The discrete cosine transform of type IV. */
  readonly #dct: Float64Array;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;

  constructor(size: number) {
    this.size = size;
    this.#fft = new Fft(size / 2);
    this.#dct = new Float64Array(size);
    const angles = Float64Array.from({ length: size / 2 }, (_, n) => -Math.PI * (n + 1 / 8) / size);
    this.#cos = angles.map(Math.cos);
    this.#sin = angles.map(Math.sin);
  }

  /** `output[n] = 1/size Σ spectrum[k] cos(π/size (n + 1/2 + size/2)(k + 1/2))`. */
  transform(spectrum: Float64Array, output: Float64Array): void {
    this.#transformDct(spectrum);
    const { size } = this;
    const dct = this.#dct;
    const half = size / 2;
    for (let n = 0; n < half; n++) {
      output[n] = dct[half + n]!;
      output[half + n] = -dct[size - 1 - n]!;
      output[size + n] = -dct[half - 1 - n]!;
      output[size + half + n] = -dct[n]!;
    }
  }

  #transformDct(spectrum: Float64Array): void {
    const { size } = this;
    const { input, output } = this.#fft;
    for (let n = 0; n < size / 2; n++) {
      const re = spectrum[2 * n]!;
      const im = spectrum[size - 1 - 2 * n]!;
      input.re[n] = re * this.#cos[n]! - im * this.#sin[n]!;
      input.im[n] = re * this.#sin[n]! + im * this.#cos[n]!;
    }
    this.#fft.transform();
    for (let k = 0; k < size / 2; k++) {
      const re = output.re[k]! / size;
      const im = output.im[k]! / size;
      this.#dct[2 * k] = re * this.#cos[k]! - im * this.#sin[k]!;
      this.#dct[size - 1 - 2 * k] = -(re * this.#sin[k]! + im * this.#cos[k]!);
    }
  }
}
