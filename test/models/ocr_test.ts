import assert from "node:assert/strict";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { join } from "node:path";
import { HearthError, StartupError } from "../../src/base/errors.ts";
import { encodePng } from "../../src/media/image/png.ts";
import type { Model } from "../../src/models/model.ts";
import type { ChatEvent } from "../../src/models/task.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { gatherRequests } from "../fixtures/engine/count_calls.ts";
import { gpuTest, HAS_F16 } from "../fixtures/engine/gpu.ts";
import { writeHalf } from "../fixtures/graphs/half_model.ts";
import { type OpenModel, openModel } from "../fixtures/engine/model.ts";
import { OCR_GOLDENS } from "../fixtures/models/ocr_goldens.ts";
import { makeTinyOcr, ocrImage, type TinyOcrFamily } from "../fixtures/models/tiny_ocr.ts";
import { imageEncoder } from "../fixtures/models/tiny_ocr_graphs.ts";

/** The id of `</s_answer>`: after four special tokens, the bytes and five other tags. */
const ANSWER_END = 4 + 256 + 5;

async function withModel(family: TinyOcrFamily, use: (model: OpenModel) => Promise<void>) {
  await using tiny = await makeTinyOcr(family);
  await using model = await openModel(tiny.folder);
  await use(model);
}

async function readFigure(model: Model, name: string): Promise<number> {
  const metric = await model.metrics.getSingleMetric(name)!.get();
  const sums = metric.values.filter((value) =>
    !("metricName" in value) || value.metricName === `${name}_count`
  );
  return sums.reduce((sum, { value }) => sum + value, 0);
}

async function refusal(
  answer: Promise<unknown>,
): Promise<{ kind: string; param: string | undefined }> {
  const error = await answer.then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof HearthError, `${error}`);
  return { kind: error.kind, param: error.param };
}

/** Runs eight images concurrently, with answers of up to `numTokens` tokens: each step adds a token to every answer. */
async function checkTogether(model: Model, numTokens: number): Promise<void> {
  const messages = Array.from({ length: 8 }, (_, number) => imageMessage(ocrImage(number)));
  const endless = { logitBias: [[2, -100]] } as const;
  const alone: string[] = [];
  for (const message of messages) {
    const answer = await chat(model, [copy(message)], { ...endless, maxTokens: numTokens });
    alone.push(answer.texts[0]!);
  }
  assert.ok(new Set(alone).size >= 7, "too few of the images have different answers");
  const stepsAlone = await readFigure(model, "hearth_step_seconds");
  // The thread that prepares images returns them one by one.
  using _gathered = gatherRequests(messages.length);
  const together = await Promise.all(
    messages.map((message, index) =>
      chat(model, [message], { ...endless, maxTokens: numTokens - index })
    ),
  );
  together.forEach(({ texts, usage }, index) => {
    assert.equal(usage.completionTokens, numTokens - index);
    assert.ok(alone[index]!.startsWith(texts[0]!.replace(/\uFFFD+$/, "")), `image ${index}`);
  });
  assert.equal(await readFigure(model, "hearth_step_seconds") - stepsAlone, numTokens);
}

/** A copy, because a model takes over a file's memory. */
function copy(message: ReturnType<typeof imageMessage>): ReturnType<typeof imageMessage> {
  return structuredClone(message);
}

Deno.test("OcrModel on the CPU answers eight requests together like each alone, in fewer steps", () =>
  withModel("trocr", (model) => checkTogether(model, 50)));

gpuTest(
  "OcrModel on WebGPU answers eight requests together like each alone, in fewer steps",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    await using tiny = await makeTinyOcr("florence");
    await using model = await openModel(tiny.folder, { backend });
    await checkTogether(model, 20);
  },
);

const GRAPHS = {
  trocr: ["encoder_model", "decoder_model_merged"],
  florence: ["vision_encoder", "embed_tokens", "encoder_model", "decoder_model_merged"],
} as const;

for (const family of ["trocr", "florence"] as const) {
  gpuTest(
    `OcrModel in half precision returns the same first four tokens as in full precision: ${family}`,
    async (gpu) => {
      const backend = await WebGpuBackend.create(gpu);
      await using tiny = await makeTinyOcr(family);
      for (const graph of GRAPHS[family]) await writeHalf(tiny.folder, graph);
      await using model = await openModel(tiny.folder, { backend, dtype: "fp16" });
      assert.equal(model.dtype, "fp16");
      const { tokenTexts } = await loadTokenizer(await openFolder(tiny.folder));
      for (const { number, request, tokens } of OCR_GOLDENS[family].slice(0, 3)) {
        const message = imageMessage(ocrImage(number), request);
        const { logprobs } = await chat(model, [message], { maxTokens: 4, topLogprobs: 0 });
        const wanted = tokens.slice(0, 4).map((token) => tokenTexts.of(token).bytes);
        assert.deepEqual(logprobs[0]!.map(({ bytes }) => bytes), wanted);
      }
    },
    { ignore: !HAS_F16 },
  );
}

Deno.test("OcrModel runs requests with different texts concurrently", () =>
  withModel("florence", async (model) => {
    const goldens = OCR_GOLDENS.florence;
    const answers = await Promise.all(
      goldens.map(async ({ number, request, tokens }) =>
        await chat(model, [imageMessage(ocrImage(number), request)], {
          maxTokens: tokens.length,
        })
      ),
    );
    assert.deepEqual(answers.map(({ texts }) => texts[0]), goldens.map(({ text }) => text));
  }));

Deno.test("OcrModel returns different choices, and the same ones for the same seed", () =>
  withModel("trocr", async (model) => {
    const ask = async (n: number, seed: number) =>
      await chat(model, [imageMessage(ocrImage(1))], {
        n,
        seed,
        temperature: 1.5,
        maxTokens: 12,
      });
    const three = await ask(3, 5);
    assert.equal(new Set(three.texts).size, 3);
    assert.equal(three.usage.completionTokens, 36);
    assert.deepEqual((await ask(3, 5)).texts, three.texts);
    assert.equal((await ask(1, 5)).texts[0], three.texts[0]);
    const many = await ask(16, 5);
    assert.deepEqual(many.texts.slice(0, 3), three.texts);
  }));

Deno.test("OcrModel reads greedily by default", () =>
  withModel("trocr", async (model) => {
    const [golden] = OCR_GOLDENS.trocr;
    const result = await chat(model, [imageMessage(ocrImage(golden!.number))], {
      maxTokens: golden!.tokens.length,
      temperature: undefined,
    });
    assert.equal(result.texts[0], golden!.text);
  }));

Deno.test("OcrModel ends at a stop string, at max_tokens and at the end of the context", () =>
  withModel("donut", async (model) => {
    const [golden] = OCR_GOLDENS.donut;
    const ask = async (extra: object) =>
      await chat(model, [imageMessage(ocrImage(golden!.number))], extra);
    const stopped = await ask({ stop: ["ii<"] });
    assert.equal(stopped.texts[0], golden!.text.slice(0, golden!.text.indexOf("ii<")));
    assert.deepEqual(stopped.reasons, ["stop"]);
    const cut = await ask({ maxTokens: 2 });
    assert.deepEqual([cut.reasons, cut.usage.completionTokens], [["length"], 2]);
    const endless = await ask({ logitBias: [[2, -100]] });
    assert.deepEqual([endless.reasons, endless.usage.completionTokens], [["length"], 63]);
  }));

Deno.test("OcrModel ends an answer to a question at its closing tag", () =>
  withModel("docvqa", async (model) => {
    const message = imageMessage(ocrImage(0), "What does it cost?");
    const forced = { logitBias: [[ANSWER_END, 100]], maxTokens: 5 } as const;
    const result = await chat(model, [message], forced);
    assert.deepEqual([result.texts, result.reasons], [[""], ["stop"]]);
    assert.equal(result.usage.completionTokens, 1);
  }));

Deno.test("OcrModel answers a task with locations in one event, with log-probabilities", () =>
  withModel("florence", async (model) => {
    const message = imageMessage(ocrImage(0), "<OCR_WITH_REGION>");
    const result = await chat(model, [message], { maxTokens: 40, topLogprobs: 2 });
    assert.equal(result.numDeltas, 1);
    assert.equal(result.logprobs[0]!.length, 40);
    // The first is forced: log-probabilities only contain the allowed token.
    assert.deepEqual(result.logprobs[0]!.map(({ top }) => top.length), [
      1,
      ...result.logprobs[0]!.slice(1).map(() => 2),
    ]);
    const { labels, quad_boxes } = JSON.parse(result.texts[0]!);
    assert.equal(labels.length, quad_boxes.length);
    assert.ok(quad_boxes.every((box: number[]) => box.length === 8));
  }));

Deno.test("OcrModel refuses unsupported input, naming the part", () =>
  withModel("florence", async (model) => {
    const image = ocrImage(0);
    const part = (param: string, bytes = image.slice()) =>
      ({ type: "image", bytes, param }) as const;
    const user = (content: Parameters<typeof chat>[1][number]["content"]) =>
      refusal(chat(model, [{ role: "user", content }]));
    const path = "messages[0].content";
    assert.deepEqual(await user("Read this."), { kind: "invalid_value", param: path });
    assert.deepEqual(
      await user([part(`${path}[0]`), part(`${path}[1]`)]),
      { kind: "invalid_value", param: `${path}[1]` },
    );
    assert.deepEqual(await refusal(chat(model, [])), { kind: "invalid_value", param: "messages" });
    for (const bytes of [new Uint8Array(), image.slice(0, 100), new Uint8Array(5000).fill(7)]) {
      const seen = await user([part(`${path}[0]`, bytes)]);
      assert.deepEqual(seen, { kind: "invalid_media", param: `${path}[0]` });
    }
    const long = await refusal(chat(model, [imageMessage(image.slice(), "word ".repeat(40))]));
    assert.deepEqual(long, { kind: "context_length_exceeded", param: "messages" });
    const bias = { logitBias: [[90000, 1]] as const };
    const biased = await refusal(chat(model, [imageMessage(image.slice())], bias));
    assert.deepEqual(biased, { kind: "invalid_value", param: `logitBias["90000"]` });
  }));

Deno.test("OcrModel reads the image of the last user message", () =>
  withModel("trocr", async (model) => {
    const [first, second] = OCR_GOLDENS.trocr;
    const read = await chat(model, [
      { role: "system", content: "You read." },
      imageMessage(ocrImage(first!.number)),
      { role: "assistant", content: first!.text },
      imageMessage(ocrImage(second!.number)),
    ], { maxTokens: second!.tokens.length });
    assert.equal(read.texts[0], second!.text);
  }));

Deno.test("OcrModel requires a question if the model only answers questions", () =>
  withModel("docvqa", async (model) => {
    const seen = await refusal(chat(model, [imageMessage(ocrImage(0))]));
    assert.deepEqual(seen, { kind: "invalid_value", param: "messages" });
  }));

Deno.test("OcrModel refuses an image above the configured limit, naming the flag", async () => {
  await using tiny = await makeTinyOcr("trocr");
  // As large as the largest image of the warm-up.
  const [width, height] = [96, 64];
  await using model = await openModel(tiny.folder, {
    engine: { maxImagePixels: width * height },
  });
  const show = async (size: { width: number; height: number }) =>
    await chat(model, [imageMessage(ocrImage(0, size))], { maxTokens: 1 });
  await show({ width, height });
  await assert.rejects(show({ width: width + 1, height }), (error: unknown) => {
    assert.ok(error instanceof HearthError);
    assert.equal(error.kind, "invalid_media");
    assert.match(error.message, /^messages\[0\]\.content\[0\]: .*--max-image-megapixels/);
    return true;
  });
});

Deno.test("OcrModel refuses a strip that its processor would enlarge too much", () =>
  withModel("donut", async (model) => {
    const [width, height] = [2, 60_000];
    const data = new Uint8Array(width * height * 3);
    const strip = encodePng({ width, height, channels: 3, data });
    const seen = await refusal(chat(model, [imageMessage(strip)]));
    assert.deepEqual(seen, { kind: "invalid_media", param: "messages[0].content[0]" });
  }));

Deno.test("OcrModel frees cancelled requests in any state", () =>
  withModel("trocr", async (model) => {
    const image = ocrImage(0);
    const heard: ChatEvent[] = [];
    const options = { stop: [], n: 2, temperature: 0, logitBias: [[2, -100]] } as const;
    const cancels = Array.from({ length: 20 }, () => {
      const messages = [imageMessage(image.slice())];
      return model.start({ type: "chat", requestId: "test", messages, options }, (event) => {
        heard.push(event as ChatEvent);
        return Promise.resolve();
      });
    });
    const stays = chat(model, [imageMessage(image.slice())], { maxTokens: 40 });
    for (const cancel of cancels.slice(0, 10)) cancel();
    while (heard.length < 30) await new Promise((resolve) => setTimeout(resolve, 1));
    for (const cancel of cancels) cancel();
    const numHeard = heard.length;
    assert.equal((await stays).texts[0], OCR_GOLDENS.trocr[0]!.text);
    assert.equal(heard.length, numHeard);
    // The last answer's slot is returned after its events are emitted.
    while (await readFigure(model, "hearth_sequences_running") > 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.equal(await readFigure(model, "hearth_sequences_waiting"), 0);
  }));

for (const family of ["trocr", "captioner"] as const) {
  Deno.test(`OcrModel fails only the image whose logits are NaN: ${family}`, async () => {
    await using tiny = await makeTinyOcr(family);
    const encoder = imageEncoder("last_hidden_state", 11, { failsInTheDark: true });
    await Deno.writeFile(join(tiny.folder, "onnx/encoder_model.onnx"), encoder);
    await using model = await openModel(tiny.folder);
    const ask = async (level: number) => {
      const [width, height] = [64, 48];
      const data = Uint8Array.from({ length: width * height * 3 }, (_, at) => level + at % 50);
      const image = encodePng({ width, height, channels: 3, data });
      return await chat(model, [imageMessage(image)], { maxTokens: 6, n: 2 });
    };
    const [bright, white] = [await ask(160), await ask(200)];
    const together = await Promise.allSettled([160, 0, 200, 10].map(ask));
    assert.deepEqual(together.map(({ status }) => status), [
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
    ]);
    const values = together.flatMap((each) =>
      each.status === "fulfilled" ? [each.value.texts] : []
    );
    assert.deepEqual(values, [bright.texts, white.texts]);
    assert.deepEqual((await ask(200)).texts, white.texts);
  });
}

Deno.test("loadModel() names the missing parts of an OCR folder", async () => {
  const refusals: readonly (readonly [RegExp, (folder: string) => Promise<void>])[] = [
    [
      /model_type "other_ocr". Of kind ocr, this version of Hearth serves the types vision-encoder-decoder, florence2/,
      (folder) => change(folder, "config.json", { model_type: "other_ocr" }),
    ],
    [
      /no number max_position_embeddings/,
      (folder) =>
        change(folder, "config.json", { decoder: { ...DECODER, max_position_embeddings: null } }),
    ],
    [/no number decoder_start_token_id/, (folder) =>
      change(folder, "generation_config.json", {
        decoder_start_token_id: null,
        bos_token_id: null,
      })],
    [
      /no onnx\/encoder_model\*\.onnx/,
      (folder) => Deno.remove(join(folder, "onnx/encoder_model.onnx")),
    ],
    [/is not a merged decoder/, (folder) =>
      Deno.copyFile(
        join(folder, "onnx/encoder_model.onnx"),
        join(folder, "onnx/decoder_model_merged.onnx"),
      )],
  ];
  for (const [wanted, spoil] of refusals) {
    await using tiny = await makeTinyOcr("trocr");
    await spoil(tiny.folder);
    await assert.rejects(openModel(tiny.folder, { kind: "ocr" }), (error: unknown) => {
      assert.ok(error instanceof StartupError, `${error}`);
      assert.match(error.message, wanted);
      return true;
    });
  }
});

const DECODER = { model_type: "trocr", vocab_size: 260, decoder_start_token_id: 2 };

/** Changes a JSON file of a folder. */
async function change(folder: string, name: string, values: object): Promise<void> {
  const path = join(folder, name);
  const before = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify({ ...before, ...values }));
}
