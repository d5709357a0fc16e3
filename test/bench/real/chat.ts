/**
 * Chat with the size of Qwen3-0.6B: Hearth over HTTP, transformers.js and llama.cpp in Node.
 *
 * @module
 */
import { time } from "../report.ts";
import type { Comparison, Contender, Running, Series } from "./comparison.ts";
import { qwen3Gguf } from "./gguf.ts";
import { type HearthOptions, RunningHearth } from "./hearth.ts";
import { PeerProcess } from "./peer_process.ts";
import { type Qwen3Dtype, qwen3Folder } from "./qwen3.ts";
import { PromptMaker } from "./prompt_maker.ts";

const STREAMS = 8;
const ALONE_TOKENS = 48;
const TOGETHER_TOKENS = 16;
const SHORT_PROMPT = 24;
/** The shorter one comes twice; the longer one takes the others as long again. */
const PROMPTS = [
  { length: 463, comesTwice: true, goals: { "transformers.js": 1.5, "llama.cpp": 0.6 } },
  { length: 2000, comesTwice: false, goals: { "transformers.js": 1.2, "llama.cpp": 0.6 } },
];

interface Answer {
  readonly promptTokens: number;
  readonly newTokens: number;
}

interface Request {
  readonly prompt: string;
  readonly maxTokens: number;
  /** One of several at the same time. */
  readonly shares?: boolean;
}

interface RunningChat extends Running {
  /** It is asked so that nothing is left of a prompt when it comes again. */
  readonly keepsNothing?: boolean;
  ask(request: Request): Promise<Answer>;
}

/** The comparison in one dtype; llama.cpp's Q4_0 stands beside q4. */
export async function compareChat(
  dtype: Qwen3Dtype,
  hearth: HearthOptions,
): Promise<Comparison<RunningChat>> {
  const folder = await qwen3Folder([dtype]);
  const prompts = await PromptMaker.create();
  const contenders: Contender<RunningChat>[] = [
    {
      name: "Hearth",
      start: async () => hearthChat(await RunningHearth.start(folder, { ...hearth, dtype })),
    },
    {
      name: "transformers.js",
      start: async () =>
        asChat(await PeerProcess.transformers(folder, { task: "text-generation", dtype })),
    },
  ];
  if (dtype === "q4") {
    const gguf = await qwen3Gguf();
    contenders.push({
      name: "llama.cpp",
      start: async () => {
        const peer = await PeerProcess.start("llama.mjs", [gguf]);
        return { ...asChat(peer), keepsNothing: true };
      },
    });
  }
  return {
    title: `Qwen3-0.6B ${dtype}`,
    contenders,
    series: seriesOf(prompts),
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

function seriesOf(prompts: PromptMaker): Series<RunningChat>[] {
  const timeToFirst = async (
    running: RunningChat,
    { length, round }: { readonly length: number; readonly round: number },
  ) => {
    const prompt = prompts.make(length, String(round));
    let promptTokens: number | undefined;
    const ms = await time(async () => {
      ({ promptTokens } = await running.ask({ prompt, maxTokens: 1 }));
    });
    if (promptTokens === length) return ms;
    throw new Error(`A prompt of ${length} tokens was seen as ${promptTokens}.`);
  };
  return [
    {
      label: `1 stream of ${ALONE_TOKENS} tokens`,
      unit: "tokens/s",
      compare: "gain",
      goals: { "transformers.js": 1.2, "llama.cpp": 1 },
      measure: async (running, round) => {
        const prompt = prompts.make(SHORT_PROMPT, `alone ${round}`);
        return await rateOf(() => [running.ask({ prompt, maxTokens: ALONE_TOKENS })]);
      },
    },
    {
      label: `${STREAMS} streams of ${TOGETHER_TOKENS} tokens`,
      unit: "tokens/s",
      compare: "gain",
      goals: { "transformers.js": 4, "llama.cpp": 1 },
      measure: async (running, round) =>
        await rateOf(() =>
          Array.from({ length: STREAMS }, (_, stream) =>
            running.ask({
              prompt: prompts.make(SHORT_PROMPT, `together ${round} ${stream}`),
              maxTokens: TOGETHER_TOKENS,
              shares: true,
            }))
        ),
    },
    ...PROMPTS.flatMap(({ length, comesTwice, goals }): Series<RunningChat>[] => {
      const again: Series<RunningChat> = {
        label: "the same again",
        unit: "ms",
        compare: "share",
        goals: { "transformers.js": 0.05 },
        measure: async (running, round) =>
          running.keepsNothing ? undefined : await timeToFirst(running, { length, round }),
      };
      return [
        {
          label: `prompt of ${length} tokens`,
          unit: "ms",
          compare: "gain",
          goals,
          measure: (running, round) => timeToFirst(running, { length, round }),
        },
        ...(comesTwice ? [again] : []),
      ];
    }),
  ];
}

/** Tokens a second of requests that begin together. */
async function rateOf(start: () => readonly Promise<Answer>[]): Promise<number> {
  let newTokens = 0;
  const ms = await time(async () => {
    for (const answer of await Promise.all(start())) newTokens += answer.newTokens;
  });
  return 1000 * newTokens / ms;
}

function hearthChat(hearth: RunningHearth): RunningChat {
  return {
    pid: hearth.pid,
    ask: async ({ prompt, maxTokens }) => {
      const { usage } = await hearth.post("/v1/chat/completions", {
        messages: [{ role: "user", content: prompt }],
        max_tokens: maxTokens,
        temperature: 0,
      });
      return { promptTokens: usage.prompt_tokens, newTokens: usage.completion_tokens };
    },
    [Symbol.asyncDispose]: () => hearth[Symbol.asyncDispose](),
  };
}

function asChat(peer: PeerProcess): RunningChat {
  return {
    pid: peer.pid,
    ask: async (request) => await peer.ask(request) as unknown as Answer,
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}
