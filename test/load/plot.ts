/**
 * Plots the resources of a process over time.
 *
 * @module
 */
import { encode } from "fast-png";
import type { Usage } from "./served.ts";

/** One measurement of the process. */
export interface Sample extends Usage {
  readonly seconds: number;
  /** The kind of model that the process served. */
  readonly kind: string;
}

const WIDTH = 1000;
const ROW = 200;
const MARGIN = 20;
const ROWS = [
  { name: "rssMb", colour: [200, 60, 40] },
  { name: "descriptors", colour: [40, 110, 190] },
  { name: "threads", colour: [60, 140, 60] },
] as const satisfies readonly { name: keyof Usage; colour: readonly number[] }[];

/** Digits of five rows of three dots. */
const DIGITS = [
  ["###", "# #", "# #", "# #", "###"],
  ["  #", "  #", "  #", "  #", "  #"],
  ["###", "  #", "###", "#  ", "###"],
  ["###", "  #", "###", "  #", "###"],
  ["# #", "# #", "###", "  #", "  #"],
  ["###", "#  ", "###", "  #", "###"],
  ["###", "#  ", "###", "# #", "###"],
  ["###", "  #", "  #", "  #", "  #"],
  ["###", "# #", "###", "# #", "###"],
  ["###", "# #", "###", "  #", "###"],
];
const DOT = 3;

/**
 * A PNG of three rows, each from 0 to its largest value, which is written at the left: memory in MiB, file descriptors,
 * threads. A grey line marks each start of a process.
 */
export function writePlot(samples: readonly Sample[]): Uint8Array {
  const height = ROWS.length * ROW;
  const data = new Uint8Array(WIDTH * height * 3).fill(255);
  const dot = (x: number, y: number, colour: readonly number[]) => {
    if (x >= 0 && x < WIDTH && y >= 0 && y < height) data.set(colour, 3 * (y * WIDTH + x));
  };
  const number = (value: number, left: number, top: number) => {
    [...String(Math.round(value))].forEach((digit, index) => {
      DIGITS[Number(digit)]!.forEach((row, y) =>
        [...row].forEach((mark, x) => {
          if (mark !== "#") return;
          for (let n = 0; n < DOT * DOT; n++) {
            const at = left + (4 * index + x) * DOT + n % DOT;
            dot(at, top + y * DOT + Math.floor(n / DOT), [0, 0, 0]);
          }
        })
      );
    });
  };
  const end = samples.at(-1)?.seconds ?? 1;
  const across = (seconds: number) => Math.round(seconds / end * (WIDTH - 1));
  samples.forEach(({ seconds, kind }, n) => {
    if (n > 0 && kind === samples[n - 1]!.kind) return;
    for (let y = 0; y < height; y++) dot(across(seconds), y, [210, 210, 210]);
  });
  ROWS.forEach(({ name, colour }, row) => {
    const largest = Math.max(...samples.map((sample) => sample[name]));
    const bottom = (row + 1) * ROW - 1;
    for (let x = 0; x < WIDTH; x++) dot(x, bottom, [0, 0, 0]);
    for (const sample of samples) {
      const y = bottom - Math.round(sample[name] / largest * (ROW - 2 * MARGIN));
      for (let n = 0; n < 4; n++) dot(across(sample.seconds) + n % 2, y + (n >> 1), colour);
    }
    number(largest, 4, row * ROW + 2);
  });
  return encode({ width: WIDTH, height, channels: 3, data });
}
