/**
 * Compares chats with models of the sizes of Qwen3-0.6B and of two hybrid decoders: Hearth over HTTP, transformers.js
 * and llama.cpp in Node.
 *
 * @module
 */
import { time } from "../report.ts";
import type { Comparison, Contender, Running, Series } from "./comparison.ts";
import { hybridGguf, qwen3Gguf } from "./gguf_models.ts";
import { type BenchDevice, type HearthOptions, RunningHearth } from "./hearth.ts";
import { PeerProcess } from "./peer_process.ts";
import { hybridFolder, type HybridName, SIZES } from "./hybrid.ts";
import { QWEN3, type Qwen3Dtype, qwen3Folder } from "./qwen3.ts";
import { PromptMaker } from "./prompt_maker.ts";

/** Simultaneous requests, and tokens of each. */
interface Streams {
  readonly count: number;
  readonly tokens: number;
  /** Whether programs that take one request at a time are left out, since their rate is that of one stream. */
  readonly batchedOnly?: boolean;
}

/** The streams that are measured on each device. On the CPU, answers of one stream and of several are equally long. */
const STREAMS: Readonly<Record<BenchDevice, readonly Streams[]>> = {
  cpu: [{ count: 1, tokens: 48 }, { count: 8, tokens: 48 }],
  webgpu: [
    { count: 1, tokens: 128 },
    { count: 8, tokens: 32 },
    { count: 32, tokens: 64, batchedOnly: true },
  ],
};
const SHORT_PROMPT = 24;
/** Prompts to measure. The shorter one is sent twice. */
const PROMPTS = [
  { length: 463, comesTwice: true, goals: { "transformers.js": 1.5, "llama.cpp": 0.6 } },
  { length: 2000, comesTwice: false, goals: { "transformers.js": 1.2, "llama.cpp": 0.6 } },
];

/** Goals for a model, relative to the other programs. */
interface ChatGoals {
  /** Goal for one stream, compared with transformers.js. */
  readonly stream: number;
  readonly lengths: readonly {
    readonly length: number;
    readonly comesTwice: boolean;
    readonly goals: Readonly<Record<string, number>>;
  }[];
  /** Goal for a repeated prompt, as a share of the time of the first. */
  readonly again: number;
}

const ATTENTION: ChatGoals = { stream: 1.2, lengths: PROMPTS, again: 0.05 };
const HYBRID: ChatGoals = {
  stream: 1.5,
  lengths: [{ length: 463, comesTwice: true, goals: { "transformers.js": 2 } }],
  again: 0.1,
};

/** llama.cpp's arguments: its device, and how many sequences share a batch. */
const LLAMA_ARGS: Readonly<Record<BenchDevice, readonly string[]>> = {
  cpu: ["cpu", "8"],
  webgpu: ["vulkan", "32"],
};

interface Answer {
  readonly promptTokens: number;
  readonly newTokens: number;
}

interface Request {
  readonly prompt: string;
  readonly maxTokens: number;
  /** Whether the request is one of several simultaneous ones. */
  readonly shares?: boolean;
}

interface RunningChat extends Running {
  /** Whether the program answers one request after the other. */
  readonly isSerial?: boolean;
  /** Whether the program has no prefix cache, so that a repeated prompt takes as long as the first. */
  readonly keepsNothing?: boolean;
  ask(request: Request): Promise<Answer>;
}

/**
 * Compares one dtype. llama.cpp's Q4_0 is compared with the dtype that suits the device best: q4, or q4f16 on a GPU.
 */
export async function compareChat(
  dtype: Qwen3Dtype,
  hearth: HearthOptions,
): Promise<Comparison<RunningChat>> {
  const best = hearth.device === "webgpu" ? "q4f16" : "q4";
  return await compareModel({
    title: `Qwen3-0.6B ${dtype}`,
    folder: await qwen3Folder([dtype]),
    dtype,
    gguf: dtype === best ? await qwen3Gguf() : undefined,
    goals: ATTENTION,
    vocab: QWEN3.vocab,
  }, hearth);
}

/** Compares a hybrid decoder in q4 on the CPU. */
export async function compareHybrid(
  name: HybridName,
  hearth: HearthOptions,
): Promise<Comparison<RunningChat>> {
  return await compareModel({
    title: `${name} q4`,
    folder: await hybridFolder(name),
    dtype: "q4",
    gguf: await hybridGguf(name),
    goals: HYBRID,
    vocab: SIZES[name].vocab,
  }, { ...hearth, device: "cpu" });
}

/** A model, in the format that each program reads. */
interface ChatModel {
  readonly title: string;
  readonly folder: string;
  readonly dtype: Qwen3Dtype;
  /** Path for llama.cpp, which is left out if this is absent. */
  readonly gguf: string | undefined;
  readonly goals: ChatGoals;
  /** Number of tokens. */
  readonly vocab: number;
}

async function compareModel(
  { title, folder, dtype, gguf, goals, vocab }: ChatModel,
  { device = "cpu", ...hearth }: HearthOptions,
): Promise<Comparison<RunningChat>> {
  const contenders: Contender<RunningChat>[] = [
    {
      name: "Hearth",
      start: async () =>
        hearthChat(await RunningHearth.start(folder, { ...hearth, device, dtype })),
    },
    {
      name: "transformers.js",
      start: async () => {
        const task = { task: "text-generation", dtype, device, threads: hearth.threads };
        return { ...asChat(await PeerProcess.transformers(folder, task)), isSerial: true };
      },
    },
  ];
  if (gguf !== undefined) {
    contenders.push({
      name: "llama.cpp",
      start: async () => {
        const threads = hearth.threads === undefined ? [] : [String(hearth.threads)];
        const peer = await PeerProcess.start("llama.mjs", [
          gguf,
          ...LLAMA_ARGS[device],
          ...threads,
        ]);
        return { ...asChat(peer), keepsNothing: true };
      },
    });
  }
  return {
    title,
    contenders,
    series: makeSeries(await PromptMaker.create(vocab), STREAMS[device], goals),
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

function makeSeries(
  prompts: PromptMaker,
  streams: readonly Streams[],
  { stream, lengths, again: againGoal }: ChatGoals,
): Series<RunningChat>[] {
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
    ...streams.map(({ count, tokens, batchedOnly = false }): Series<RunningChat> => ({
      label: `${count} ${count === 1 ? "stream" : "streams"} of ${tokens} tokens`,
      unit: "tokens/s",
      compare: "gain",
      goals: { "transformers.js": count === 1 ? stream : 4, "llama.cpp": 1 },
      measure: async (running, round) => {
        if (batchedOnly && running.isSerial) return undefined;
        return await computeRate(() =>
          Array.from({ length: count }, (_, stream) =>
            running.ask({
              prompt: prompts.make(SHORT_PROMPT, `${count} streams ${round} ${stream}`),
              maxTokens: tokens,
              shares: count > 1,
            }))
        );
      },
    })),
    ...lengths.flatMap(({ length, comesTwice, goals }): Series<RunningChat>[] => {
      const again: Series<RunningChat> = {
        label: "the same again",
        unit: "ms",
        compare: "share",
        goals: { "transformers.js": againGoal },
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

/** Tokens per second of requests that begin together. */
async function computeRate(start: () => readonly Promise<Answer>[]): Promise<number> {
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
