/**
 * Compares embeddings with a model of all-MiniLM-L6-v2's size: Hearth over HTTP, transformers.js in Node.
 *
 * @module
 */
import { time } from "../report.ts";
import type { Comparison, Running } from "./comparison.ts";
import { type HearthOptions, RunningHearth } from "./hearth.ts";
import { miniLmFolder } from "./minilm.ts";
import { PeerProcess } from "./peer_process.ts";
import { Random } from "./random.ts";

const NUM_TEXTS = 64;
/** Sequential requests. The first ones are slower, because programs compile code. */
const NUM_IN_TURN = 24;
const WORDS =
  "the of a river stone cow bird light house garden winter summer market engine letter " +
  "music paper water mountain road city small green old quick answer question story people time";

interface RunningEmbed extends Running {
  embed(texts: readonly string[]): Promise<unknown>;
}

/** Makes the comparison. */
export async function compareEmbed(hearth: HearthOptions): Promise<Comparison<RunningEmbed>> {
  const folder = await miniLmFolder();
  return {
    title: "all-MiniLM-L6-v2",
    contenders: [
      { name: "Hearth", start: async () => ours(await RunningHearth.start(folder, hearth)) },
      {
        name: "transformers.js",
        start: async () =>
          theirs(
            await PeerProcess.transformers(folder, {
              task: "feature-extraction",
              dtype: "fp32",
              device: hearth.device,
              threads: hearth.threads,
            }),
          ),
      },
    ],
    series: [
      {
        label: "one text at a time",
        unit: "ms",
        compare: "gain",
        measure: async (running, round) => {
          const texts = makeTexts(NUM_IN_TURN, round + 100);
          const ms = await time(async () => {
            for (const text of texts) await running.embed([text]);
          });
          return ms / NUM_IN_TURN;
        },
      },
      {
        label: `${NUM_TEXTS} texts of 5 to 100 words in one call`,
        unit: "texts/s",
        compare: "gain",
        goals: { "transformers.js": 2.5 },
        measure: async (running, round) => {
          const ms = await time(() => running.embed(makeTexts(NUM_TEXTS, round)));
          return 1000 * NUM_TEXTS / ms;
        },
      },
      {
        label: `${NUM_TEXTS} clients with a text each`,
        unit: "texts/s",
        compare: "gain",
        goals: { "transformers.js": 3 },
        measure: async (running, round) => {
          const texts = makeTexts(NUM_TEXTS, round + 50);
          const ms = await time(() => Promise.all(texts.map((text) => running.embed([text]))));
          return 1000 * NUM_TEXTS / ms;
        },
      },
    ],
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

function makeTexts(count: number, seed: number): string[] {
  const words = WORDS.split(" ");
  const random = new Random(seed + 1);
  return Array.from({ length: count }, () => {
    const [length = 0, ...picks] = random.bytes(101);
    return picks.slice(0, 5 + length % 96).map((pick) => words[pick % words.length]).join(" ");
  });
}

function ours(hearth: RunningHearth): RunningEmbed {
  return {
    pid: hearth.pid,
    embed: (input) => hearth.post("/v1/embeddings", { input }),
    [Symbol.asyncDispose]: () => hearth[Symbol.asyncDispose](),
  };
}

function theirs(peer: PeerProcess): RunningEmbed {
  return {
    pid: peer.pid,
    embed: (texts) => peer.ask({ texts }),
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}
