/**
 * Compares chats about images with transformers.js: the same folder, device, images and questions, alternating in one
 * process per device, medians of several rounds. The model has Qwen2.5-VL's layout and random weights.
 *
 *     deno task bench vision
 *
 * @module
 */
import { benchEachDevice } from "./each_device.ts";
import { basename, dirname } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { decodeImage } from "../../src/media/image.ts";
import type { Model } from "../../src/models/model.ts";
import type { ChatMessage } from "../../src/models/task.ts";
import { toRawImage } from "../../src/device/ort/hook.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { drawImage } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";
import type { VisionSizes } from "../fixtures/models/vision/vision_encoders.ts";
import { median, printTable, time } from "./report.ts";

const ROUNDS = 5;
const NEW_TOKENS = 64;
const SIDE = 512;
const END_TOKEN = 2041;
const QUESTION = "What colors are there?";
const SECOND_QUESTION = "Which one is the brightest?";

/** 4 million parameters, most of them the decoder's: both programs run the same encoder graph on the same runtime. */
const SIZES: VisionSizes = {
  decoder: { layers: 4, heads: 8, kvHeads: 2, headDim: 32, hidden: 256, vocab: 2064 },
  vision: { layers: 1, width: 64, heads: 2 },
  contextLength: 2048,
};

/** A turn of a conversation about one image. */
interface Turn {
  readonly image: Uint8Array<ArrayBuffer>;
  /** Earlier messages: an answer, and the next question. */
  readonly before?: string | undefined;
}

/** Answers a turn with this many tokens. */
type Contender = (turn: Turn, numTokens: number) => Promise<string>;
type Name = "ours" | "theirs";

function ours(model: Model): Contender {
  return async ({ image, before }, maxTokens) => {
    const messages: ChatMessage[] = [imageMessage(image, QUESTION)];
    if (before !== undefined) {
      messages.push({ role: "assistant", content: before });
      messages.push({ role: "user", content: SECOND_QUESTION });
    }
    const { texts: [text] } = await chat(model, messages, {
      maxTokens,
      logitBias: [[END_TOKEN, -100]],
    });
    return text!;
  };
}

/** Used members of transformers.js's classes, whose declarations are incomplete. */
interface TheirTensor {
  readonly dims: readonly number[];
  slice(...ranges: readonly unknown[]): TheirTensor;
}
interface TheirProcessor {
  (text: string, images: readonly unknown[]): Promise<Readonly<Record<string, TheirTensor>>>;
  apply_chat_template(messages: unknown, options: unknown): string;
  batch_decode(ids: TheirTensor, options: unknown): string[];
}
interface TheirModel {
  generate(options: Readonly<Record<string, unknown>>): Promise<TheirTensor>;
}

async function theirs(folder: string, device: GPUDevice | undefined): Promise<Contender> {
  const transformers = await loadWithModels({
    openModel: peerSessions(device),
    modelsFolder: dirname(folder),
  });
  const name = basename(folder);
  const options = { dtype: "fp32", device: "auto" } as const;
  const [processor, model] = await Promise.all([
    transformers.AutoProcessor.from_pretrained(name, {}),
    transformers.AutoModelForImageTextToText.from_pretrained(name, options),
  ]) as unknown as [TheirProcessor, TheirModel];
  return async ({ image, before }, max_new_tokens) => {
    const rawImage = toRawImage(transformers.RawImage, await decodeImage(image));
    const messages = [
      { role: "user", content: [{ type: "image" }, { type: "text", text: QUESTION }] },
      ...(before === undefined ? [] : [
        { role: "assistant", content: before },
        { role: "user", content: SECOND_QUESTION },
      ]),
    ];
    const text = processor.apply_chat_template(messages, { add_generation_prompt: true });
    const inputs = await processor(text, [rawImage]);
    const output = await model.generate({
      ...inputs,
      max_new_tokens,
      do_sample: false,
      eos_token_id: -1,
    });
    const fresh = output.slice(null, [inputs["input_ids"]!.dims[1], null]);
    return processor.batch_decode(fresh, { skip_special_tokens: true })[0]!;
  };
}

const MEASURED = {
  first: `a ${SIDE}-pixel image, ${NEW_TOKENS} tokens out, ms`,
  second: `a second turn about it, ${NEW_TOKENS} tokens out, ms`,
  secondStart: "a second turn about it, ms to the first token",
} as const;

async function measure(contenders: Readonly<Record<Name, Contender>>) {
  const times = new Map<string, number[]>();
  const note = (what: keyof typeof MEASURED, name: Name, ms: number) => {
    const key = `${what} ${name}`;
    times.set(key, [...times.get(key) ?? [], ms]);
  };
  for (let round = 0; round <= ROUNDS; round++) {
    // A new image in each round, so that nothing is cached.
    const image = drawImage(round, [SIDE, SIDE]);
    for (const name of ["ours", "theirs"] as const) {
      const contender = contenders[name];
      let before = "";
      const first = await time(async () => before = await contender({ image }, NEW_TOKENS));
      const start = await time(() => contender({ image, before }, 1));
      const second = await time(() => contender({ image, before: `${before}.` }, NEW_TOKENS));
      // The first round warms up.
      if (round === 0) continue;
      note("first", name, first);
      note("secondStart", name, start);
      note("second", name, second);
    }
  }
  return (what: keyof typeof MEASURED, name: Name) => times.get(`${what} ${name}`)!;
}

async function benchDevice(name: string): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend: Backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  await using folder = await makeVisionFolder("qwen2_5_vl", SIZES);
  await using model = await openModel(folder.path, { backend });
  const computeTimes = await measure({
    ours: ours(model),
    theirs: await theirs(folder.path, gpu?.device),
  });
  const rows = (Object.keys(MEASURED) as (keyof typeof MEASURED)[]).map((what) => {
    const [mine, other] = [computeTimes(what, "ours"), computeTimes(what, "theirs")];
    // Other work on the machine differs less within a round than between rounds.
    const ratio = median(other.map((ms, round) => ms / mine[round]!));
    const [ms, theirMs] = [median(mine).toFixed(0), median(other).toFixed(0)];
    return [MEASURED[what], ms, theirMs, `${ratio.toFixed(1)}×`];
  });
  printTable([backend.adapter, "Hearth", "transformers.js", "ratio"], rows);
}

await benchEachDevice(import.meta.filename!, benchDevice);
