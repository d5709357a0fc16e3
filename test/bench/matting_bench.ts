/**
 * Compares background removal with transformers.js's pipeline: the same folder, weights, device and images, alternating
 * in one process per device, medians of several rounds. Where transformers.js needs a canvas, it uses Hearth's
 * functions: `decodeImage`, `resize` and `encodePng`.
 *
 *     deno task bench matting
 *
 * @module
 */
import { benchEachDevice } from "./each_device.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { decodeImage } from "../../src/media/image.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { type ResampleFilter, resize } from "../../src/media/resample.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { matte } from "../fixtures/images/matting.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { Random } from "../unit/engine/random.ts";
import { median, printTable, time } from "./report.ts";

const MODEL = "hearth-demo-matting";
const FOLDER = findModelFolder(MODEL)!;
const ROUNDS = 5;
const NUM_TOGETHER = 6;
const TOGETHER_ROUNDS = 2;
const FILTERS: readonly ResampleFilter[] = ["nearest", "lanczos", "bilinear", "bicubic", "box"];

/** Widths and heights of the images, by name. */
const SIZES = {
  "640 × 480": [640, 480],
  "1080p": [1920, 1080],
  "12 megapixels": [4000, 3000],
} as const;
const TOGETHER_SIZES = { "320 × 240": [320, 240], "1080p": [1920, 1080] } as const;

/** Makes a subject in front of a background, both with the grain of a photograph. */
function makePhoto(width: number, height: number): Pixels {
  const random = new Random(3);
  const grain = Uint8Array.from({ length: 65_521 }, () => random.between(0, 11));
  const data = new Uint8Array(3 * width * height);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const isSubject = Math.hypot(x - width / 2, 1.4 * (y - height / 2)) < height / 2.4;
      const light = isSubject ? 150 + 60 * Math.sin(x / 90) : 60 + 40 * y / height;
      for (let c = 0; c < 3; c++, at++) data[at] = light * (1 - 0.2 * c) + grain[at % 65_521]!;
    }
  }
  return { width, height, channels: 3, data };
}

type CutOut = (file: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>;

async function makeTheirs(device: GPUDevice | undefined): Promise<CutOut> {
  const { pipeline, RawImage } = await loadWithModels({
    openModel: peerSessions(device),
    modelsFolder: `${FOLDER}/..`,
  });
  type Image = InstanceType<typeof RawImage>;
  RawImage.prototype.resize = function (this: Image, width, height, { resample = 2 } = {}) {
    const resized = resize(this as Pixels, {
      width,
      height,
      filter: FILTERS[Number(resample)]!,
    });
    return Promise.resolve(new RawImage(resized.data, width, height, resized.channels));
  };
  const remove = await pipeline("background-removal", MODEL, { dtype: "fp32", device: "auto" });
  return async (file) => {
    const { data, width, height, channels } = await decodeImage(file);
    const cut = await remove(new RawImage(data, width, height, channels)) as unknown as Image;
    return encodePng(cut as Pixels);
  };
}

interface Contenders {
  readonly ours: CutOut;
  readonly theirs: CutOut;
}

/** The mean difference of two files' alpha, in levels. */
async function alphaDifference(a: Uint8Array, b: Uint8Array): Promise<number> {
  const [first, second] = [await decodeImage(a), await decodeImage(b)];
  const numPixels = first.width * first.height;
  let sum = 0;
  for (let i = 3; i < first.data.length; i += 4) sum += Math.abs(first.data[i]! - second.data[i]!);
  return sum / numPixels;
}

async function compare(
  label: string,
  contenders: Contenders,
  file: Uint8Array<ArrayBuffer>,
): Promise<string[]> {
  const times = { ours: [] as number[], theirs: [] as number[] };
  const results = { ours: new Uint8Array(), theirs: new Uint8Array() };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of ["ours", "theirs"] as const) {
      // The model takes over the memory of its file.
      const copy = file.slice();
      const ms = await time(async () => void (results[name] = await contenders[name](copy)));
      // The first round warms up.
      if (round > 0) times[name].push(ms);
    }
  }
  const [ours, theirs] = [median(times.ours), median(times.theirs)];
  const difference = await alphaDifference(results.ours, results.theirs);
  const megabytes = ({ length }: Uint8Array) => (length / 1e6).toFixed(1);
  return [
    label,
    ours.toFixed(0),
    theirs.toFixed(0),
    `${(theirs / ours).toFixed(1)}×`,
    `${megabytes(results.ours)} and ${megabytes(results.theirs)}`,
    difference.toFixed(2),
  ];
}

async function benchDevice(name: string): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const theirs = await makeTheirs(gpu?.device);
  await using model = await openModel(FOLDER, {
    backend,
    cpuThreads: navigator.hardwareConcurrency,
  });
  const ours: CutOut = async (file) => (await matte(model, file)).png;
  const rows: string[][] = [];
  for (const [label, [width, height]] of Object.entries(SIZES)) {
    rows.push(await compare(label, { ours, theirs }, encodePng(makePhoto(width, height))));
  }
  printTable(
    [
      `${backend.adapter}: file to PNG, ms`,
      "Hearth",
      "transformers.js",
      "ratio",
      "MB of their files",
      "levels of alpha apart",
    ],
    rows,
  );
  const together: string[][] = [];
  for (const [label, [width, height]] of Object.entries(TOGETHER_SIZES)) {
    const file = encodePng(makePhoto(width, height));
    together.push(await compareTogether(label, { ours, theirs }, file));
  }
  printTable(
    [
      `${NUM_TOGETHER} images that come together, ms`,
      "Hearth",
      "Hearth, one after the other",
      "transformers.js",
      "ratio",
    ],
    together,
  );
}

/** Measures images that arrive together: Hearth gets them all at once, transformers.js one at a time. */
async function compareTogether(
  label: string,
  { ours, theirs }: Contenders,
  file: Uint8Array<ArrayBuffer>,
): Promise<string[]> {
  const files = () => Array.from({ length: NUM_TOGETHER }, () => file.slice());
  const inTurn = (cutOut: CutOut) => async () => {
    for (const each of files()) await cutOut(each);
  };
  const works = {
    atOnce: () => Promise.all(files().map(ours)),
    inTurn: inTurn(ours),
    theirs: inTurn(theirs),
  };
  const times = { atOnce: [] as number[], inTurn: [] as number[], theirs: [] as number[] };
  for (let round = 0; round <= TOGETHER_ROUNDS; round++) {
    for (const name of ["atOnce", "inTurn", "theirs"] as const) {
      const ms = await time(works[name]);
      if (round > 0) times[name].push(ms);
    }
  }
  const [atOnce, one, other] = [times.atOnce, times.inTurn, times.theirs].map(median);
  return [
    label,
    atOnce!.toFixed(0),
    one!.toFixed(0),
    other!.toFixed(0),
    `${(other! / atOnce!).toFixed(1)}×`,
  ];
}

await benchEachDevice(import.meta.filename!, benchDevice);
