/**
 * The built-in vision model in every dtype on both backends: prompts and greedy replies equal its goldens token by
 * token.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { decodeImage } from "../../src/media/image.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import type { ChatMessage } from "../../src/models/task.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { findMediaToken } from "../../src/models/media_encoder.ts";
import { VisionProcessor } from "../../src/models/images/vision_processor.ts";
import { VisionPrompt } from "../../src/models/vision/vision_prompt.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { chat } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";

const FOLDER = findModelFolder("hearth-demo-vision")!;
const DTYPES: readonly Dtype[] = ["fp32", "q4"];

type GoldenPart =
  | { readonly type: "image"; readonly file: string }
  | { readonly type: "text"; readonly text: string };

interface Golden {
  readonly name: string;
  readonly messages: readonly {
    readonly role: ChatMessage["role"];
    readonly content: string | readonly GoldenPart[];
  }[];
  readonly prompt_ids: readonly number[];
  readonly reply: string;
  readonly reply_ids: readonly number[];
}

const goldens: readonly Golden[] =
  JSON.parse(await Deno.readTextFile(`${FOLDER}/golden.json`)).conversations;

/** The messages with their images loaded. */
function makeMessages({ messages }: Golden): ChatMessage[] {
  return messages.map(({ role, content }): ChatMessage => ({
    role,
    content: typeof content === "string"
      ? content
      : content.map((part, index) =>
        part.type === "text" ? part : {
          type: "image",
          bytes: Deno.readFileSync(`${FOLDER}/${part.file}`),
          param: `content[${index}]`,
        }
      ),
  }));
}

async function assertReplies(
  backend: Backend,
  dtype: Dtype,
  replies: readonly Golden[] = goldens,
): Promise<void> {
  const { tokenTexts } = await loadTokenizer(await openFolder(FOLDER));
  await using model = await openModel(FOLDER, { backend, dtype });
  assert.ok(model.maxSequences > 1, "the decoder was not cut");
  const answers = await Promise.all(
    replies.map((golden) => chat(model, makeMessages(golden), { topLogprobs: 0 })),
  );
  replies.forEach(({ name, prompt_ids, reply, reply_ids }, index) => {
    const { texts, logprobs, reasons, usage } = answers[index]!;
    assert.equal(usage.promptTokens, prompt_ids.length, name);
    assert.deepEqual([texts[0], reasons[0]], [reply, "stop"], name);
    const wanted = reply_ids.map((id) => tokenTexts.of(id).token);
    assert.deepEqual(logprobs[0]!.map(({ token }) => token), wanted, name);
  });
}

Deno.test("VisionPrompt.build() builds the golden prompts of hearth-demo-vision", async () => {
  const folder = await openFolder(FOLDER);
  const tokenizer = await loadTokenizer(folder);
  const processor = await VisionProcessor.load(FOLDER);
  const { placeholder } = processor;
  const tokenId = findMediaToken(folder.config, "image");
  const prompt = new VisionPrompt({ tokenizer, media: { image: { placeholder, tokenId } } });
  for (const golden of goldens) {
    const messages = makeMessages(golden);
    const parts = messages.flatMap(({ content }) => typeof content === "string" ? [] : content)
      .filter((part) => part.type === "image");
    const prepared = await Promise.all(
      parts.map(async ({ bytes }) => await processor.prepare(await decodeImage(bytes))),
    );
    const media = prepared.map(({ text }, index) => ({
      medium: "image" as const,
      key: String(index),
      text,
      source: { rows: () => Promise.reject() },
    }));
    const { promptTokens } = prompt.build(messages, { media });
    assert.deepEqual([...promptTokens], golden.prompt_ids, golden.name);
  }
});

for (const [number, dtype] of DTYPES.entries()) {
  cpuTest(
    `hearth-demo-vision ${dtype} gives its golden replies on the CPU`,
    (backend) => assertReplies(backend, dtype),
  );

  gpuTest(
    `hearth-demo-vision ${dtype} gives its golden replies on WebGPU`,
    // A software adapter is slow for images: each dtype runs some of them.
    async (gpu) =>
      await assertReplies(
        await WebGpuBackend.create(gpu),
        dtype,
        goldens.filter((_, i) => i % DTYPES.length === number),
      ),
  );
}
