import assert from "node:assert/strict";
import { decodeImage } from "../../src/media/image.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { postEndlessUpload } from "../fixtures/servers/endless_upload.ts";
import { discFile, discImage } from "../fixtures/images/matting.ts";
import {
  makePng,
  MATTING_MODEL,
  mattingBody,
  mattingForm,
  mattingTest,
  openMattingApp,
  openMattingServer,
  postImage,
  readError,
} from "../fixtures/servers/matting_server.ts";
import { chatBody, TestApp } from "../fixtures/servers/server.ts";

const PATH = "/images/remove_background";
const makeBase64 = (file: Uint8Array) => `base64://${file.toBase64()}`;

mattingTest(
  "remove_background: both paths answer with a chat completion that contains the image",
  async (app) => {
    const image = discFile(61, 47);
    for (const path of [PATH, `/v1${PATH}`]) {
      const response = await app.post(path, mattingBody(makeBase64(image)));
      assert.equal(response.status, 200);
      assert.match(response.headers.get("content-type")!, /^application\/json/);
      const { id, created, choices, ...rest } = await response.json();
      assert.match(id, /^chatcmpl-/);
      assert.ok(Math.abs(created - Date.now() / 1000) < 60);
      assert.deepEqual(rest, {
        object: "chat.completion",
        model: MATTING_MODEL,
        usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      });
      assert.equal(choices.length, 1);
      const [{ message, ...choice }] = choices;
      assert.deepEqual(choice, { index: 0, finish_reason: "stop" });
      assert.equal(message.role, "assistant");
      assert.equal(message.content.length, 1);
      assert.equal(message.content[0].type, "image");
      assert.match(message.content[0].image_url.url, /^data:image\/png;base64,iVBOR/);
    }
  },
);

mattingTest(
  "remove_background: base64://, data: and file:// in all spellings of parts give the same file as an upload",
  async (app) => {
    const image = discFile();
    const path = await Deno.makeTempFile({ suffix: ".png" });
    await Deno.writeFile(path, image);
    try {
      const upload = await postImage(app, image);
      assert.equal(upload.headers.get("content-type"), "image/png");
      const want = new Uint8Array(await upload.arrayBuffer());
      const data = image.toBase64();
      const parts = [
        { type: "image", image_url: { url: `base64://${data}` } },
        { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
        { type: "image", image_url: `base64://${data}` },
        { type: "image", image_url: { url: `file://${path}` } },
      ];
      for (const part of parts) {
        const content = [{ type: "text", text: "Cut it out." }, part];
        const messages = [
          { role: "system", content: "ignored" },
          { role: "user", content: "an earlier message" },
          { role: "user", content },
        ];
        for (const model of [MATTING_MODEL, `hearth/${MATTING_MODEL}`]) {
          const response = await app.post(PATH, { model, messages, temperature: 1 });
          assert.deepEqual(await makePng(response), want);
        }
      }
    } finally {
      await Deno.remove(path);
    }
  },
);

mattingTest(
  "remove_background: the subject is opaque, its surroundings are transparent, and colours stay",
  async (app) => {
    const image = discImage(120, 90);
    const response = await postImage(app, encodePng(image));
    const { width, height, channels, data } = await decodeImage(await response.bytes());
    assert.deepEqual([width, height, channels], [120, 90, 4]);
    const alphaAt = (x: number, y: number) => data[4 * (y * width + x) + 3]!;
    assert.ok(alphaAt(60, 45) > 240, `${alphaAt(60, 45)}`);
    for (const [x, y] of [[2, 2], [117, 2], [2, 87], [117, 87]] as const) {
      assert.ok(alphaAt(x, y) < 15, `${alphaAt(x, y)}`);
    }
    for (let i = 0; i < width * height; i++) {
      // Fully transparent pixels do not reveal the background.
      const share = data[4 * i + 3] === 0 ? 0 : 1;
      for (let c = 0; c < 3; c++) assert.equal(data[4 * i + c], share * image.data[3 * i + c]!);
    }
  },
);

mattingTest(
  "remove_background: the result's alpha is multiplied by the image's own",
  async (app) => {
    const opaque = discImage(64, 64);
    const data = new Uint8Array(4 * 64 * 64);
    for (let i = 0; i < 64 * 64; i++) {
      data.set(opaque.data.subarray(3 * i, 3 * i + 3), 4 * i);
      data[4 * i + 3] = i % 64 < 32 ? 100 : 255;
    }
    const cut = async (file: Uint8Array<ArrayBuffer>) =>
      await decodeImage(await (await postImage(app, file)).bytes());
    const whole = await cut(encodePng(opaque));
    const half = await cut(encodePng({ ...opaque, channels: 4, data }));
    for (let i = 0; i < 64 * 64; i++) {
      const own = data[4 * i + 3]! / 255;
      const error = Math.abs(half.data[4 * i + 3]! - own * whole.data[4 * i + 3]!);
      assert.ok(error <= 1, `${half.data[4 * i + 3]} at ${i}`);
    }
  },
);

mattingTest("remove_background: options work as JSON and as form fields", async (app) => {
  const image = discFile(120, 90);
  const plain = await decodeImage(await (await postImage(app, image)).bytes());
  const both = async (fields: Record<string, string>, json: Record<string, unknown>) => {
    const upload = await (await postImage(app, image, fields)).bytes();
    const body = mattingBody(makeBase64(image), json);
    assert.deepEqual(await makePng(await app.post(PATH, body)), upload);
    return await decodeImage(upload);
  };

  const mask = await both({ mask_only: "true" }, { mask_only: true });
  for (let i = 0; i < 120 * 90; i++) {
    assert.equal(mask.data[mask.channels * i], plain.data[4 * i + 3]);
  }

  const green = await both({ background: "#00ff40" }, { background: "#00ff40" });
  assert.deepEqual(
    await both({ background: "RebeccaPurple" }, { background: "rebeccapurple" }),
    await both({ background: "#663399" }, { background: "#639f" }),
  );
  assert.equal(green.channels, 3);
  for (let i = 0; i < 120 * 90; i++) {
    const alpha = plain.data[4 * i + 3]! / 255;
    [0, 255, 64].forEach((level, c) => {
      const want = alpha * plain.data[4 * i + c]! + (1 - alpha) * level;
      assert.ok(Math.abs(green.data[3 * i + c]! - want) <= 0.51);
    });
  }

  const refined = await both({ refine: "true" }, { refine: true });
  assert.deepEqual([refined.width, refined.height, refined.channels], [120, 90, 4]);
  assert.notDeepEqual(refined.data, plain.data);

  const cropped = await both({ crop: "true", background: "" }, { crop: true, background: null });
  assert.ok(cropped.width < 90 && cropped.width > 50, `${cropped.width}`);
  assert.ok(cropped.height < 80 && cropped.height > 50, `${cropped.height}`);
  const croppedMask = await both({ crop: "true", mask_only: "true" }, {
    crop: true,
    mask_only: true,
  });
  assert.deepEqual([croppedMask.width, croppedMask.height], [cropped.width, cropped.height]);
});

mattingTest(
  "remove_background: invalid requests are refused, and the field is named",
  async (app) => {
    const image = discFile(8, 8);
    const ref = makeBase64(image);
    const content = [{ type: "image", image_url: { url: ref } }];
    const audio = { type: "audio", audio_url: { url: "base64://AAAA" } };
    const user = (parts: unknown) => ({ messages: [{ role: "user", content: parts }] });
    const cases: [Record<string, unknown>, number, string, string | undefined][] = [
      [{ model: undefined }, 400, "invalid_value", "model"],
      [{ model: "gpt-4o" }, 404, "model_not_found", "model"],
      [{ messages: undefined }, 400, "invalid_value", "messages"],
      [{ messages: [] }, 400, "invalid_value", "messages"],
      [user("words"), 400, "invalid_value", "messages[0].content"],
      [user([...content, ...content]), 400, "invalid_value", "messages[0].content"],
      [user([audio]), 400, "unsupported_by_model", "messages[0].content[0]"],
      [
        user([{ type: "image", image_url: { url: "ftp://x/y" } }]),
        400,
        "invalid_value",
        "messages[0].content[0].image_url.url",
      ],
      [
        { messages: [{ role: "assistant", content: "no user" }] },
        400,
        "invalid_value",
        "messages",
      ],
      [{ background: "greenish" }, 400, "invalid_value", "background"],
      [{ background: "#12345" }, 400, "invalid_value", "background"],
      [{ background: "#fff", mask_only: true }, 400, "invalid_value", "background"],
      [{ mask_only: "yes" }, 400, "invalid_value", "mask_only"],
      [{ crop: 1 }, 400, "invalid_value", "crop"],
      [{ refine: {} }, 400, "invalid_value", "refine"],
    ];
    for (const [extra, status, code, param] of cases) {
      const { message, ...error } = await readError(await app.post(PATH, mattingBody(ref, extra)));
      assert.deepEqual(error, { status, code, ...(param && { param }) }, JSON.stringify(extra));
      assert.ok(message.length > 10);
    }
    const fields: [Record<string, string>, number, string, string][] = [
      [{ model: "gpt-4o" }, 404, "model_not_found", "model"],
      [{ background: "#ggg" }, 400, "invalid_value", "background"],
      [{ crop: "yes" }, 400, "invalid_value", "crop"],
      [{ mask_only: "true", background: "#000" }, 400, "invalid_value", "background"],
    ];
    for (const [extra, status, code, param] of fields) {
      const { message: _, ...error } = await readError(await postImage(app, image, extra));
      assert.deepEqual(error, { status, code, param }, JSON.stringify(extra));
    }
    const missing = await readError(await postImage(app, undefined));
    assert.deepEqual([missing.status, missing.code, missing.param], [400, "missing_file", "image"]);
    const type = await app.request(PATH, { method: "POST", body: image });
    assert.deepEqual([type.status, (await readError(type)).code], [415, "unsupported_media_type"]);
    const json = await readError(await app.post(PATH, "{"));
    assert.deepEqual([json.status, json.code], [400, "invalid_json"]);
    const method = await app.request(PATH);
    assert.deepEqual([method.status, method.headers.get("allow")], [405, "POST, OPTIONS"]);
  },
);

Deno.test("remove_background: refused while no model is loaded, and by models of other kinds", async () => {
  await using loading = new TestApp();
  const unready = await readError(await postImage(loading, new Uint8Array(4)));
  assert.deepEqual([unready.status, unready.code], [503, "model_not_loaded"]);
  await using text = await new TestApp().ready();
  const unsupported = await readError(await postImage(text, new Uint8Array(4)));
  assert.deepEqual([unsupported.status, unsupported.code], [400, "unsupported_by_model"]);
  const posted = await readError(await text.post(PATH, chatBody()));
  assert.match(posted.message, /it serves \/chat\/completions/);
  await using matting = await openMattingApp();
  const chat = await readError(
    await matting.post("/chat/completions", chatBody({ model: MATTING_MODEL })),
  );
  assert.match(
    chat.message,
    /hearth-demo-matting \(matting\).*it serves \/images\/remove_background/,
  );
});

Deno.test("remove_background: more than 100 MiB is refused while it is read, on a real port", async () => {
  await using server = await openMattingServer();
  const response = await postEndlessUpload(`${server.base}${PATH}`, mattingForm);
  const { status, code, message } = await readError(response);
  assert.deepEqual([status, code], [413, "payload_too_large"]);
  assert.match(message, /100 MiB/);
});

Deno.test("remove_background: an image above the configured limit is answered 400 and names the flag", async () => {
  await using app = await openMattingApp({ engine: { prefixCache: true, maxImagePixels: 3e5 } });
  // The first image is small enough to be decoded in the device's thread; the others are decoded in a separate one.
  assert.equal((await postImage(app, discFile(500, 400))).status, 200);
  assert.equal((await postImage(app, discFile(600, 500))).status, 200);
  const { status, code, message } = await readError(
    await postImage(app, discFile(601, 500)),
  );
  assert.deepEqual([status, code], [400, "invalid_media"]);
  assert.match(message, /--max-image-megapixels/);
});

Deno.test("remove_background: a full queue answers 429, and waiting requests are answered", async () => {
  const engine = { prefixCache: true, maxSequences: 1 };
  await using app = await openMattingApp({ engine, maxQueue: 2 });
  const image = discFile(600, 400);
  const responses = await Promise.all(Array.from({ length: 6 }, () => postImage(app, image)));
  const statuses = responses.map(({ status }) => status).sort();
  assert.deepEqual(statuses, [200, 200, 200, 429, 429, 429]);
  const refused = responses.find(({ status }) => status === 429)!;
  assert.ok(refused.headers.has("retry-after"));
  assert.equal((await readError(refused)).code, "overloaded");
});
