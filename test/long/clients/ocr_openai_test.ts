/** Images sent by the official OpenAI client to OCR models, against a real server on a real port. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import OpenAI, { BadRequestError } from "openai";
import { findModelFolder, unlessThere } from "../../fixtures/engine/goldens.ts";
import { OCR_GOLDENS } from "../../fixtures/models/ocr_goldens.ts";
import { IMAGES } from "../../fixtures/images/images.ts";
import { TestServer } from "../../fixtures/servers/server.ts";
import { makeTinyOcr, ocrImage, type TinyOcrFamily } from "../../fixtures/models/tiny_ocr.ts";
import { Random } from "../../unit/engine/random.ts";

const MODEL = "ocr-under-test";
const NUM_HOSTILE = 300;
const NUM_REQUESTS = 80;
const NUM_HANG_UPS = 40;

interface Opened {
  readonly server: TestServer;
  readonly client: OpenAI;
}

async function withFolder(folder: string, use: (opened: Opened) => Promise<void>): Promise<void> {
  await using server = await TestServer.start({ folder, model: MODEL, maxQueue: NUM_REQUESTS });
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  await use({ server, client });
}

async function withFamily(family: TinyOcrFamily, use: (opened: Opened) => Promise<void>) {
  await using tiny = await makeTinyOcr(family);
  await withFolder(tiny.folder, use);
}

function ask(image: Uint8Array, extra: { text?: string; max_tokens?: number } = {}) {
  const { text, ...rest } = extra;
  const url = `data:image/png;base64,${image.toBase64()}`;
  const content: OpenAI.ChatCompletionContentPart[] = [{ type: "image_url", image_url: { url } }];
  if (text !== undefined) content.push({ type: "text", text });
  return { model: MODEL, messages: [{ role: "user" as const, content }], ...rest };
}

for (const family of ["trocr", "florence"] as const) {
  Deno.test(`openai: ${family} reads an image, with and without a stream`, () =>
    withFamily(family, async ({ client }) => {
      const [golden] = OCR_GOLDENS[family];
      const { number, request, tokens, text } = golden!;
      const body = ask(ocrImage(number), { text: request, max_tokens: tokens.length });
      const whole = await client.chat.completions.create(body);
      assert.equal(whole.choices[0]!.message.content, text);
      assert.equal(whole.choices[0]!.finish_reason, "length");
      assert.equal(whole.usage!.completion_tokens, tokens.length);
      const stream = await client.chat.completions.create({
        ...body,
        stream: true,
        stream_options: { include_usage: true },
      });
      const pieces: string[] = [];
      let usage: OpenAI.CompletionUsage | null | undefined;
      for await (const chunk of stream) {
        pieces.push(chunk.choices[0]?.delta.content ?? "");
        usage = chunk.usage ?? usage;
      }
      assert.equal(pieces.join(""), text);
      assert.ok(pieces.filter((piece) => piece !== "").length > 1);
      assert.deepEqual(usage, whole.usage);
    }));
}

Deno.test("openai: an OCR model without an image names the missing input", () =>
  withFamily("trocr", async ({ client }) => {
    const messages = [{ role: "user" as const, content: "What does it say?" }];
    await assert.rejects(
      client.chat.completions.create({ model: MODEL, messages }),
      (error: unknown) => {
        assert.ok(error instanceof BadRequestError);
        assert.equal(error.code, "invalid_value");
        assert.match(error.message, /reads images; want an image in the last/);
        return true;
      },
    );
  }));

Deno.test(`openai: ${NUM_HOSTILE} hostile images are read or refused, and the server keeps reading`, () =>
  withFamily("donut", async ({ client, server }) => {
    const random = new Random(7);
    const codes = new Map<string, number>();
    const send = async (image: Uint8Array) => {
      let code = "read";
      try {
        await client.chat.completions.create(ask(image, { max_tokens: 2 }));
      } catch (error) {
        assert.ok(error instanceof BadRequestError, `${error}`);
        code = String(error.code);
      }
      codes.set(code, (codes.get(code) ?? 0) + 1);
    };
    for (let from = 0; from < NUM_HOSTILE; from += 20) {
      await Promise.all(Array.from({ length: 20 }, () => send(spoil(random))));
    }
    assert.deepEqual([...codes.keys()].sort(), ["invalid_media", "read"]);
    const [golden] = OCR_GOLDENS.donut;
    const body = ask(ocrImage(golden!.number), { max_tokens: golden!.tokens.length });
    const answer = await client.chat.completions.create(body);
    assert.equal(answer.choices[0]!.message.content, golden!.text);
    assert.equal(await server.figure("hearth_worker_losses_total"), 0);
  }));

/** A damaged image of any format: with bytes changed, cut off or repeated, or only noise. */
function spoil(random: Random): Uint8Array {
  const image = IMAGES[random.between(0, IMAGES.length - 1)]!.file.slice();
  const { length } = image;
  switch (random.between(0, 4)) {
    case 0:
      return image.subarray(0, random.between(0, length - 1));
    case 1:
      return Uint8Array.from({ length: random.between(0, 400) }, () => random.between(0, 255));
    case 2: {
      // The header contains the sizes and counts.
      for (let i = 0; i < 4; i++) {
        image[random.between(0, Math.min(60, length) - 1)] = random.between(0, 255);
      }
      return image;
    }
    case 3: {
      const at = random.between(0, length - 1);
      image.copyWithin(at, random.between(0, length - 1));
      return image;
    }
    default:
      for (let i = 0; i < 8; i++) image[random.between(0, length - 1)] = random.between(0, 255);
      return image;
  }
}

Deno.test("openai: clients that disconnect from an OCR model leave nothing running", () =>
  withFamily("trocr", async ({ client, server }) => {
    const random = new Random(3);
    const image = ocrImage(0);
    const one = async (index: number) => {
      const hangsUp = index < NUM_HANG_UPS;
      const options = hangsUp ? { signal: AbortSignal.timeout(random.between(0, 800)) } : {};
      try {
        const body = { ...ask(image), stream: true, n: 1 + index % 2 } as const;
        for await (const _ of await client.chat.completions.create(body, options));
      } catch (error) {
        if (!hangsUp) throw error;
      }
    };
    await Promise.all(Array.from({ length: NUM_REQUESTS }, (_, index) => one(index)));
    await server.untilIdle();
    assert.equal(await server.figure("hearth_queue_room"), server.app.session.capacity);
    assert.equal(await server.figure("hearth_worker_losses_total"), 0);
    const [golden] = OCR_GOLDENS.trocr;
    const body = ask(image, { max_tokens: golden!.tokens.length });
    const answer = await client.chat.completions.create(body);
    assert.equal(answer.choices[0]!.message.content, golden!.text);
  }));

const line = fileURLToPath(new URL("../../../../shared/testdata/ocr/en_rec.jpg", import.meta.url));
const ppocr = findModelFolder("ppocr-v2-mobile");

Deno.test({
  name: "openai: PP-OCR reads a printed line, with and without a stream" +
    unlessThere(ppocr !== undefined, "models/ppocr-v2-mobile", "PP-OCR's own weights"),
  ignore: ppocr === undefined || !existsSync(line),
  fn: () =>
    withFolder(ppocr!, async ({ client }) => {
      const body = ask(await Deno.readFile(line), { text: "What does it say?" });
      const { choices: [choice] } = await client.chat.completions.create(body);
      const wanted =
        "To facilitate the shot type analysis in videos, we collect MovieShots, a large-scale";
      assert.equal(choice!.message.content, wanted);
      assert.equal(choice!.finish_reason, "stop");
      const pieces: string[] = [];
      for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
        pieces.push(chunk.choices[0]?.delta.content ?? "");
      }
      assert.equal(pieces.join(""), wanted);
    }),
});
