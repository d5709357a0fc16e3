/**
 * Measures how long it takes to decode, resize and encode a photograph of 12 megapixels, compared with other packages
 * without native code: imagescript, jpeg-js and fast-png. Milliseconds, medians of alternating rounds.
 *
 *     deno task bench image [rounds]
 *
 * @module
 */
import encodeJpeg, { init } from "@jsquash/jpeg/encode.js";
import { decode as decodePngElsewhere, encode as encodePngElsewhere } from "fast-png";
import { Image } from "imagescript";
import jpegJs from "jpeg-js";
import { decodeImage } from "../../src/media/image.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { resize } from "../../src/media/resample.ts";
import { median, printTable, time } from "./report.ts";

const DEFAULT_ROUNDS = 5;
const [WIDTH, HEIGHT] = [4000, 3000];
const SIDE = 1024;

type Work = () => Promise<unknown> | unknown;

/** Makes waves of many lengths with a camera's noise, so that files are as large as those of photographs. */
function makePhotograph(): Pixels {
  const data = new Uint8Array(WIDTH * HEIGHT * 3);
  let state = 1;
  for (let y = 0, to = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const shade = 40 * Math.sin(x / 97 + y / 211) + 30 * Math.sin(x / 11 - y / 23) +
        20 * Math.sin(x * y / 90_000);
      for (let channel = 0; channel < 3; channel++) {
        state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0;
        data[to++] = 128 + shade * (1 - channel / 5) + (state >>> 28);
      }
    }
  }
  return { width: WIDTH, height: HEIGHT, channels: 3, data };
}

function toRgba({ data }: Pixels): Uint8ClampedArray<ArrayBuffer> {
  const rgba = new Uint8ClampedArray(WIDTH * HEIGHT * 4).fill(255);
  for (let from = 0, to = 0; from < data.length; from += 3, to += 4) {
    rgba.set(data.subarray(from, from + 3), to);
  }
  return rgba;
}

async function encodePhotograph(rgba: Uint8ClampedArray<ArrayBuffer>, isProgressive: boolean) {
  const image = { data: rgba, width: WIDTH, height: HEIGHT, colorSpace: "srgb" } as ImageData;
  return new Uint8Array(await encodeJpeg(image, { quality: 90, progressive: isProgressive }));
}

/** Prints a row of the table: Hearth, then the other packages that can do the work. */
async function compare(works: Readonly<Record<string, Work>>, rounds: number): Promise<string[]> {
  const times: Record<string, number[]> = {};
  for (let round = -1; round < rounds; round++) {
    for (const [name, work] of Object.entries(works)) {
      const ms = await time(async () => await work());
      if (round >= 0) (times[name] ??= []).push(ms);
    }
  }
  return COLUMNS.map((name) => times[name] === undefined ? "" : median(times[name]).toFixed(0));
}

const COLUMNS = ["hearth", "imagescript", "jpeg-js", "fast-png"];

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  await init({
    locateFile: (name: string) => import.meta.resolve(`@jsquash/jpeg/codec/enc/${name}`),
  });
  const photograph = makePhotograph();
  const rgba = toRgba(photograph);
  const jpeg = await encodePhotograph(rgba, false);
  const progressive = await encodePhotograph(rgba, true);
  const png = encodePng(photograph);
  const image = new Image(WIDTH, HEIGHT);
  image.bitmap.set(rgba);
  const size = { width: SIDE, height: SIDE };

  const rows: Record<string, Readonly<Record<string, Work>>> = {
    "decode JPEG": {
      "hearth": () => decodeImage(jpeg),
      "imagescript": () => Image.decode(jpeg),
      "jpeg-js": () => jpegJs.decode(jpeg, { maxMemoryUsageInMB: 4096 }),
    },
    "decode progressive JPEG": {
      "hearth": () => decodeImage(progressive),
      "imagescript": () => Image.decode(progressive),
      "jpeg-js": () => jpegJs.decode(progressive, { maxMemoryUsageInMB: 4096 }),
    },
    "decode PNG": {
      "hearth": () => decodeImage(png),
      "imagescript": () => Image.decode(png),
      "fast-png": () => decodePngElsewhere(png),
    },
    "encode PNG": {
      "hearth": () => encodePng(photograph),
      "imagescript": () => image.encode(1),
      "fast-png": () => encodePngElsewhere({ ...photograph, depth: 8 }),
    },
    [`resize to ${SIDE} × ${SIDE}, bilinear`]: {
      "hearth": () => resize(photograph, { ...size, filter: "bilinear" }),
      // imagescript picks the nearest pixel, since it has no antialiased filter.
      "imagescript": () => image.clone().resize(SIDE, SIDE),
    },
    [`resize to ${SIDE} × ${SIDE}, bicubic`]: {
      "hearth": () => resize(photograph, { ...size, filter: "bicubic" }),
    },
    [`resize to ${SIDE} × ${SIDE}, Lanczos`]: {
      "hearth": () => resize(photograph, { ...size, filter: "lanczos" }),
    },
  };
  const table: string[][] = [];
  for (const [name, works] of Object.entries(rows)) {
    table.push([name, ...await compare(works, rounds)]);
  }
  printTable(["12 megapixels, ms", ...COLUMNS], table);
  const megabytes = (bytes: Uint8Array) => `${(bytes.length / 1e6).toFixed(1)} MB`;
  printTable(["PNG file", "size"], [
    ["hearth", megabytes(png)],
    ["imagescript", megabytes(await image.encode(1))],
    ["fast-png", megabytes(encodePngElsewhere({ ...photograph, depth: 8 }))],
  ]);
}
