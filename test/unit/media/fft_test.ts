import assert from "node:assert/strict";
import { Fft } from "../../../src/media/fft.ts";

function transformSlowly(
  re: Float64Array,
  im: Float64Array,
): { re: Float64Array; im: Float64Array } {
  const size = re.length;
  const out = { re: new Float64Array(size), im: new Float64Array(size) };
  for (let k = 0; k < size; k++) {
    for (let n = 0; n < size; n++) {
      const angle = -2 * Math.PI * (k * n % size) / size;
      out.re[k]! += re[n]! * Math.cos(angle) - im[n]! * Math.sin(angle);
      out.im[k]! += re[n]! * Math.sin(angle) + im[n]! * Math.cos(angle);
    }
  }
  return out;
}

for (const size of [1, 2, 4, 5, 8, 10, 16, 25, 64, 80, 200, 512]) {
  Deno.test(`Fft.transform() computes the Fourier transform of size ${size}, in every call`, () => {
    const fft = new Fft(size);
    for (let round = 0; round < 2; round++) {
      const re = Float64Array.from({ length: size }, (_, n) => Math.sin(n * n + round));
      const im = Float64Array.from({ length: size }, (_, n) => Math.cos(3 * n * n + round));
      fft.input.re.set(re);
      fft.input.im.set(im);
      fft.transform();
      const expected = transformSlowly(re, im);
      for (let k = 0; k < size; k++) {
        assert.ok(Math.abs(fft.output.re[k]! - expected.re[k]!) < 1e-10);
        assert.ok(Math.abs(fft.output.im[k]! - expected.im[k]!) < 1e-10);
      }
    }
  });
}

Deno.test("Fft refuses sizes with other factors than 2 and 5", () => {
  for (const size of [3, 0, 7, 12, 1.5]) {
    assert.throws(() => new Fft(size), { name: "RangeError" });
  }
});
