/**
 * Graphs may list their nodes in any order that ONNX Runtime accepts: the built-in models with every third node moved
 * to the end are cut and answer the same.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { inspect } from "../../../src/cli/inspect.ts";
import type { Dtype } from "../../../src/base/config.ts";
import type { Model } from "../../../src/models/model.ts";
import type { ChatMessage, Task } from "../../../src/models/task.ts";
import { imageMessage } from "../../fixtures/engine/chat.ts";
import { findModelFolder, unlessThere } from "../../fixtures/engine/goldens.ts";
import { copyWithLateNodes } from "../../fixtures/graphs/late_nodes.ts";
import { DRAWINGS, matte } from "../../fixtures/images/matting.ts";
import { openModel } from "../../fixtures/engine/model.ts";
import { findSpeechFolder } from "../../fixtures/audio/speech.ts";

const requestId = "test";

function chatTask(messages: readonly ChatMessage[]): Task {
  return {
    type: "chat",
    requestId,
    messages,
    options: { stop: [], n: 1, temperature: 0, maxTokens: 24 },
  };
}

function imageTask(file: string, text?: string): Task {
  return chatTask([imageMessage(Deno.readFileSync(file), text)]);
}

interface Case {
  readonly model: string;
  readonly dtypes: readonly Dtype[];
  task(): Task;
}

const CASES: readonly Case[] = [
  {
    model: "hearth-demo-chat",
    dtypes: ["fp32", "fp16", "q4", "q4f16"],
    task: () => chatTask([{ role: "user", content: "What is the capital of France?" }]),
  },
  {
    model: "hearth-demo-embed",
    dtypes: ["fp32", "fp16", "q8"],
    task: () => ({ type: "embed", requestId, inputs: ["a cat", "the moon over the sea"] }),
  },
  {
    model: "hearth-demo-rerank",
    dtypes: ["fp32", "fp16"],
    task: () => ({ type: "rerank", requestId, query: "cats", documents: ["a cat", "the moon"] }),
  },
  {
    model: "hearth-demo-matting",
    dtypes: ["fp32", "fp16"],
    task: () => ({
      type: "matte",
      requestId,
      image: Deno.readFileSync(join(DRAWINGS, "demo-b.png")),
      param: "image",
      options: {},
    }),
  },
  {
    model: "hearth-demo-asr",
    dtypes: ["fp32", "fp16"],
    task: () => ({
      type: "transcribe",
      requestId,
      audio: Deno.readFileSync(join(findSpeechFolder(), firstClip())),
      param: "file",
      temperature: 0,
    }),
  },
  {
    model: "hearth-demo-tts",
    dtypes: ["fp32", "fp16", "q8"],
    task: () => ({
      type: "speak",
      requestId,
      text: "Good morning.",
      param: "input",
      speed: 1,
      format: "wav",
      seed: 1,
    }),
  },
  {
    model: "hearth-demo-ocr",
    dtypes: ["fp32"],
    task: () => imageTask(join(findModelFolder("hearth-demo-ocr")!, "golden/line.png")),
  },
  {
    model: "hearth-demo-vision",
    dtypes: ["fp32", "q4"],
    task: () => imageTask(join(DRAWINGS, "demo-b.png"), "What is this?"),
  },
];

function firstClip(): string {
  const golden = JSON.parse(Deno.readTextFileSync(join(findSpeechFolder(), "demo/golden.json")));
  return join("demo", golden.clips[0].file);
}

/** All events of an answer, without its duration. */
function record(model: Model, task: Task): Promise<readonly unknown[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly unknown[]>();
  const events: unknown[] = [];
  model.start(task, (event) => {
    events.push({ ...event, times: undefined });
    if (event.type === "done") resolve(events);
    if (event.type === "error") reject(new Error(event.error.message));
    return Promise.resolve();
  });
  return promise;
}

/** The sorted lines that `inspect` prints for a folder, without the folder's path. */
async function printed(folder: string): Promise<string[]> {
  const { writeSync } = Deno.stdout;
  let text = "";
  Deno.stdout.writeSync = (bytes) => {
    text += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  try {
    await inspect(folder, { json: false });
  } finally {
    Deno.stdout.writeSync = writeSync;
  }
  return text.replaceAll(folder, "").split("\n").sort();
}

for (const { model, dtypes, task } of CASES) {
  Deno.test(`${model} is cut and answers the same with every third node at the end`, async () => {
    const folder = findModelFolder(model)!;
    const late = await Deno.makeTempDir({ prefix: "hearth-late-nodes-" });
    try {
      await copyWithLateNodes(folder, late);
      assert.deepEqual(await printed(late), await printed(folder));
      for (const dtype of dtypes) {
        const backend = new CpuBackend();
        await using before = await openModel(folder, { backend, dtype });
        await using after = await openModel(late, { backend, dtype });
        assert.equal(after.maxSequences, before.maxSequences);
        assert.deepEqual(await record(after, task()), await record(before, task()), dtype);
      }
    } finally {
      await Deno.remove(late, { recursive: true });
    }
  });
}

const unsorted = findModelFolder("../cases/graphs/unsorted_matting");
Deno.test({
  name: `a matting graph listed backwards removes backgrounds${
    unlessThere(unsorted !== undefined, "cases/graphs", "a graph that another tool wrote")
  }`,
  ignore: unsorted === undefined || !existsSync(unsorted),
  fn: async () => {
    const sorted = findModelFolder("../cases/graphs/sorted_matting")!;
    const image = () => Deno.readFileSync(join(DRAWINGS, "demo-b.png"));
    await using before = await openModel(sorted);
    await using after = await openModel(unsorted!);
    assert.deepEqual((await matte(after, image())).png, (await matte(before, image())).png);
  },
});
