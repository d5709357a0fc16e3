import assert from "node:assert/strict";
import {
  type ColorPlanes,
  computeBoxMeans,
  fitToGuide,
  type Plane,
  PlaneSampler,
} from "../../../src/media/plane.ts";
import { separateColors, unmix } from "../../../src/models/matting/refine_cut_out.ts";
import { Random } from "../engine/random.ts";

function makePlane(width: number, height: number, value: (x: number, y: number) => number): Plane {
  const data = Float32Array.from(
    { length: width * height },
    (_, i) => value(i % width, Math.floor(i / width)),
  );
  return { width, height, data };
}

function assertClose(got: number, want: number, within: number, what = ""): void {
  assert.ok(Math.abs(got - want) <= within, `${got} where ${want} is right ${what}`);
}

Deno.test("computeBoxMeans() is the mean over the part of the window inside the plane", () => {
  const random = new Random(4);
  for (const [width, height, radius] of [[7, 5, 1], [5, 9, 3], [1, 1, 4], [2, 8, 20], [6, 6, 0]]) {
    const plane = makePlane(width!, height!, () => random.between(0, 100) / 100);
    const got = computeBoxMeans(plane, radius!);
    for (let y = 0; y < height!; y++) {
      for (let x = 0; x < width!; x++) {
        let [sum, count] = [0, 0];
        for (let j = Math.max(0, y - radius!); j <= Math.min(height! - 1, y + radius!); j++) {
          for (let i = Math.max(0, x - radius!); i <= Math.min(width! - 1, x + radius!); i++) {
            sum += plane.data[j * width! + i]!;
            count++;
          }
        }
        assertClose(got.data[y * width! + x]!, sum / count, 1e-6);
      }
    }
  }
});

const OPTIONS = { radius: 4, epsilon: 1e-4 };

/** The value that a fitted model gives a pixel of its guide. */
function applied(
  guide: ColorPlanes,
  { factors, constant }: ReturnType<typeof fitToGuide>,
  at: number,
): number {
  return factors.reduce((sum, { data }, c) => sum + data[at]! * guide[c]!.data[at]!, 0) +
    constant.data[at]!;
}

Deno.test("fitToGuide() finds a plane that is linear in the colours", () => {
  const random = new Random(8);
  const noise = () => makePlane(24, 20, () => random.between(0, 1000) / 1000);
  const guide: ColorPlanes = [noise(), noise(), noise()];
  const [r, g, b] = guide;
  const plane = makePlane(24, 20, (x, y) => {
    const at = y * 24 + x;
    return 0.4 * r.data[at]! - 0.7 * g.data[at]! + 0.2 * b.data[at]! + 0.3;
  });
  const model = fitToGuide(guide, plane, { radius: 4, epsilon: 1e-6 });
  for (let at = 0; at < plane.data.length; at++) {
    assertClose(applied(guide, model, at), plane.data[at]!, 2e-3);
  }
});

Deno.test("fitToGuide() moves a blurred edge to the image's own edge", () => {
  const edge = (x: number) => x < 33 ? 0.8 : 0.2;
  const color = makePlane(64, 32, edge);
  const guide: ColorPlanes = [color, makePlane(64, 32, () => 0.5), makePlane(64, 32, () => 0.5)];
  // An edge that is 3 pixels away from the image's, and 8 pixels wide.
  const blurred = makePlane(64, 32, (x) => Math.min(1, Math.max(0, (34 - x) / 8)));
  const model = fitToGuide(guide, blurred, { radius: 8, epsilon: 1e-4 });
  const at = (x: number) => applied(guide, model, 16 * 64 + x);
  assert.ok(at(32) - at(33) > 0.5, `${at(32)} and ${at(33)}`);
  assert.ok(at(32) > 0.6 && at(33) < 0.3);
  assertClose(at(8), 1, 0.01);
  assertClose(at(60), 0, 0.01);
});

Deno.test("fitToGuide() smoothes uniform areas of the image", () => {
  const even = makePlane(20, 20, () => 0.4);
  const guide: ColorPlanes = [even, even, even];
  const spike = makePlane(20, 20, (x, y) => x === 10 && y === 10 ? 1 : 0);
  const model = fitToGuide(guide, spike, OPTIONS);
  assertClose(applied(guide, model, 10 * 20 + 10), 1 / 81, 2e-3);
});

/** A pixel of an enlarged plane: interpolated between the four nearest ones by distance. */
function enlarged(
  { width, height, data }: Plane,
  [x, y]: readonly [number, number],
  large: { readonly width: number; readonly height: number },
): number {
  const weigh = (at: number, length: number, largeLength: number) => {
    const position = (at + 0.5) * length / largeLength - 0.5;
    const first = Math.floor(position);
    const inside = (index: number) => Math.min(length - 1, Math.max(0, index));
    return [[inside(first), 1 - (position - first)], [
      inside(first + 1),
      position - first,
    ]] as const;
  };
  return weigh(y, height, large.height).reduce(
    (sum, [row, down]) =>
      sum + weigh(x, width, large.width).reduce(
          (rowSum, [column, across]) => rowSum + across * data[row * width + column]!,
          0,
        ) * down,
    0,
  );
}

Deno.test("PlaneSampler.read() interpolates between the four nearest pixels of the small plane", () => {
  const random = new Random(2);
  const small = makePlane(6, 5, () => random.between(0, 100));
  const large = { width: 31, height: 17 };
  const sampler = new PlaneSampler({ small, large });
  for (let y = 0; y < large.height; y++) {
    for (let x = 0; x < large.width; x++) {
      sampler.moveTo(x, y);
      assertClose(sampler.read(small), enlarged(small, [x, y], large), 1e-3);
    }
  }
});

Deno.test("separateColors() and unmix() remove the background from a soft edge", () => {
  const [width, height] = [320, 60];
  const alpha = makePlane(width, height, (x) => Math.min(1, Math.max(0, (x - 154) / 6)));
  const subject = [0.9, 0.3, 0.1];
  const behind = [0.1, 0.7, 0.9];
  const image = [0, 1, 2].map((c) =>
    makePlane(width, height, (x, y) => {
      const a = alpha.data[y * width + x]!;
      return a * subject[c]! + (1 - a) * behind[c]!;
    })
  ) as unknown as ColorPlanes;
  const { foreground, background } = separateColors(image, alpha);
  for (let x = 155; x < 160; x++) {
    const at = 30 * width + x;
    for (let c = 0; c < 3; c++) {
      const estimate = unmix(image[c]!.data[at]!, {
        alpha: alpha.data[at]!,
        foreground: foreground[c]!.data[at]!,
        background: background[c]!.data[at]!,
      });
      const before = Math.abs(image[c]!.data[at]! - subject[c]!);
      assert.ok(Math.abs(estimate - subject[c]!) <= 0.35 * before + 0.02, `${estimate} at ${x}`);
    }
  }
});
