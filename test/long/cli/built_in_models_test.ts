/** Every built-in model by its name alone, as a user starts it on a machine without network. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CHAT_EXAMPLES } from "../../../src/server/http/chat/chat.ts";
import { listBuiltIn } from "../../../src/hub/catalogue.ts";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { makeWav } from "../../fixtures/audio/audio_files.ts";
import { discFile } from "../../fixtures/images/matting.ts";
import { decodeAll } from "../../fixtures/servers/tts_server.ts";

/** The request for a kind, and the expected answer. */
interface Use {
  readonly kind: string;
  readonly check: (base: string, model: string) => Promise<void>;
}

const MODELS = fileURLToPath(new URL("../../../models/", import.meta.url));

const USES: Readonly<Record<string, Use>> = {
  "hearth-demo-asr": {
    kind: "asr",
    check: async (base, model) => {
      const form = new FormData();
      const silence = makeWav(new Float32Array(16_000), { sampleRateHz: 16_000 });
      form.set("file", new Blob([silence]), "silence.wav");
      form.set("model", model);
      const response = await fetch(`${base}/v1/audio/transcriptions`, {
        method: "POST",
        body: form,
      });
      assert.deepEqual(Object.keys(await response.json()), ["text"]);
    },
  },
  "hearth-demo-chat": {
    kind: "text",
    check: async (base, model) => {
      const answer = await chat(base, model, "What is the capital of France?");
      assert.equal(answer, "The capital of France is Paris.");
    },
  },
  "hearth-demo-embed": {
    kind: "embedding",
    check: async (base, model) => {
      const { data } = await post(`${base}/v1/embeddings`, { model, input: "an egg" });
      assert.equal(data[0].embedding.length, 128);
    },
  },
  "hearth-demo-matting": {
    kind: "matting",
    check: async (base, model) => {
      const form = new FormData();
      form.set("image", new Blob([discFile(40, 30)]), "disc.png");
      form.set("model", model);
      const response = await fetch(`${base}/images/remove_background`, {
        method: "POST",
        body: form,
      });
      assert.equal(response.headers.get("content-type"), "image/png");
      await response.body?.cancel();
    },
  },
  "hearth-demo-ocr": {
    kind: "ocr",
    check: async (base, model) => {
      const text = await chat(base, model, [await makeImage(model, "golden/card.png")]);
      assert.equal(text, await getReading(model, "golden/card.png"));
    },
  },
  "hearth-demo-rerank": {
    kind: "rerank",
    check: async (base, model) => {
      const documents = ["Put the egg into boiling water.", "The capital of Portugal is Lisbon."];
      const query = "what is the capital of Portugal";
      const { results } = await post(`${base}/v1/rerank`, { model, query, documents });
      assert.equal(results[0].index, 1);
    },
  },
  "hearth-demo-tts": {
    kind: "tts",
    check: async (base, model) => {
      const response = await fetch(
        `${base}/v1/audio/speech`,
        json({ model, input: "Good morning.", response_format: "wav" }),
      );
      assert.equal(response.status, 200);
      const samples = await decodeAll(new Uint8Array(await response.arrayBuffer()), 24_000);
      assert.ok(samples.length > 12_000 && samples.some((sample) => Math.abs(sample) > 0.1));
    },
  },
  "hearth-demo-vision": {
    kind: "vision",
    check: async (base, model) => {
      const answer = await chat(base, model, [
        await makeImage(model, "golden/one_shape.png"),
        { type: "text", text: "What is this?" },
      ]);
      assert.equal(answer, "A brown cross on a white background.");
      const example = CHAT_EXAMPLES["a question about an image"];
      const { choices } = await post(`${base}/v1/chat/completions`, example);
      assert.equal(choices[0].message.content, "A red circle on a white background.");
    },
  },
};

function json(body: unknown): RequestInit {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

// deno-lint-ignore no-explicit-any -- as a client sees it
async function post(url: string, body: unknown): Promise<any> {
  return await (await fetch(url, json(body))).json();
}

async function chat(base: string, model: string, content: unknown): Promise<string> {
  const messages = [{ role: "user", content }];
  const { choices } = await post(`${base}/v1/chat/completions`, {
    model,
    messages,
    temperature: 0,
  });
  return choices[0].message.content;
}

async function makeImage(model: string, file: string): Promise<unknown> {
  const data = (await Deno.readFile(join(MODELS, model, file))).toBase64();
  return { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
}

async function getReading(model: string, file: string): Promise<string> {
  const { cases } = JSON.parse(await Deno.readTextFile(join(MODELS, model, "golden.json")));
  return cases.find(({ image }: { image: string }) => image === file).text;
}

for (const model of await listBuiltIn()) {
  Deno.test(`-m ${model} answers`, async () => {
    const use = USES[model];
    assert.ok(use, "this test has no request for it");
    await using hearth = new HearthProcess([
      "-m",
      model,
      "-p",
      "0",
      "--device",
      "cpu",
      "--offline",
    ]);
    const base = await hearth.ready();
    assert.match(hearth.stdout, new RegExp(`kind +${use.kind}\n`));
    await use.check(base, model);
  });
}
