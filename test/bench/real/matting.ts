/**
 * Compares background removal with a U-Net of 44 million parameters, from a JPEG file to a PNG file: Hearth over HTTP,
 * transformers.js (with sharp) in Node.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { time } from "../report.ts";
import type { Comparison, Running } from "./comparison.ts";
import { type HearthOptions, RunningHearth } from "./hearth.ts";
import { PeerProcess } from "./peer_process.ts";
import { unetFolder } from "./unet.ts";

const PHOTO = fileURLToPath(
  new URL("../../../../shared/testdata/bgremoval/girl-1.jpg", import.meta.url),
);
const TOGETHER = 8;

interface RunningMatting extends Running {
  cutOut(): Promise<unknown>;
}

/** Makes the comparison. */
export async function compareMatting(hearth: HearthOptions): Promise<Comparison<RunningMatting>> {
  const folder = await unetFolder();
  const { device, threads } = hearth;
  const task = { task: "background-removal", dtype: "fp32", device, threads };
  return {
    title: "U-Net, 44 M parameters",
    contenders: [
      { name: "Hearth", start: async () => await ours(await RunningHearth.start(folder, hearth)) },
      {
        name: "transformers.js",
        start: async () => theirs(await PeerProcess.transformers(folder, task)),
      },
    ],
    series: [
      {
        label: "a photo",
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 1.1 },
        measure: (running) => time(() => running.cutOut()),
      },
      {
        label: `${TOGETHER} photos at once`,
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 1.1 },
        measure: (running) =>
          time(() => Promise.all(Array.from({ length: TOGETHER }, () => running.cutOut()))),
      },
    ],
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

async function ours(hearth: RunningHearth): Promise<RunningMatting> {
  const photo = new Blob([await Deno.readFile(PHOTO)], { type: "image/jpeg" });
  return {
    pid: hearth.pid,
    cutOut: async () => {
      const form = new FormData();
      form.append("image", photo, "photo.jpg");
      const response = await hearth.request("/v1/images/remove_background", form);
      return await response.bytes();
    },
    [Symbol.asyncDispose]: () => hearth[Symbol.asyncDispose](),
  };
}

function theirs(peer: PeerProcess): RunningMatting {
  return {
    pid: peer.pid,
    cutOut: () => peer.ask({ image: PHOTO }),
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}
