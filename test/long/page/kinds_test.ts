// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encode } from "fast-png";
import { documentFile } from "../../fixtures/documents/documents.ts";
import { DESKTOP, Tab } from "../../fixtures/page/browser.ts";
import {
  checkAccessibility,
  download,
  openSettings,
  PAGE_TEST,
  pageTest,
  setField,
  shareBrowser,
  withFile,
} from "../../fixtures/page/page_visit.ts";
import { TestServer } from "../../fixtures/servers/server.ts";
import { fragileSpawner } from "../../fixtures/threads/fragile.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const OCR_SAMPLE = join(ROOT, "models/hearth-demo-ocr/golden/askew.png");
const SPEECH = join(ROOT, "test/fixtures/audio/spoken_words.opus");

/** A filled circle on white. */
function drawCircle(color: readonly [number, number, number]): Uint8Array {
  const size = 128;
  const data = new Uint8Array(size * size * 3).fill(255);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      if (Math.hypot(x - 64, y - 64) < 40) data.set(color, 3 * (y * size + x));
    }
  }
  return encode({ width: size, height: size, data, channels: 3 });
}

const { spawnWorker, workers } = fragileSpawner();

pageTest(
  "page: a chat streams, can be stopped and edited, is stored, and is shown as a request",
  { model: "hearth-demo-chat", screenshot: "hearth-demo-chat", spawnWorker },
  async ({ tab, server }) => {
    const { page } = tab;
    await tab.fill("Message", "What is the capital of France?");
    await page.keyboard.press("Enter");
    await tab.text(".assistant .markdown", /Paris/);
    assert.match(
      await tab.text(".figures", /tokens/),
      /^\d+ tokens.* · first after .* · prompt \d+/,
    );

    // An answer without an end, which would take more than half a minute, is stopped.
    workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
    await setField(tab, "min_tokens", "1900");
    await tab.fill("Message", "Tell me a long story.");
    await tab.click("Send");
    await tab.click("Stop");
    await page.waitForFunction(() => document.querySelector(".composer [type=submit]"));
    await server.untilIdle();
    const numTokens = await server.figure("hearth_completion_tokens_total");
    assert.ok(numTokens < 1500, `${numTokens} tokens of an answer that was stopped`);
    workers[0]!.postMessage({ type: "slow-steps", ms: 0 });

    // The first question is reworded: everything after it is in another branch.
    await setField(tab, "min_tokens", "0");
    await setField(tab, "temperature", "0");
    await tab.click("Edit");
    await tab.fill("Edit the message", "What does a cow say?");
    await tab.click("Send again");
    await page.waitForFunction(() =>
      document.querySelectorAll(".message").length === 2 &&
      document.querySelectorAll(".assistant footer").length === 1
    );

    await page.locator("summary ::-p-text(Show the request)").click();
    assert.match(await tab.text(".request pre", /curl/), /cow say/);

    await page.reload();
    await page.locator(".side .entry").click();
    assert.match(await tab.text(".message.user", /cow/), /What does a cow say\?/);

    await tab.click("Live figures");
    await page.waitForFunction(() => {
      const shown = document.querySelector("[data-plot='Memory of the process'] output");
      return Number.parseFloat(shown?.textContent ?? "") > 10;
    });
    await page.waitForFunction(() => document.querySelectorAll(".plot canvas").length >= 5);
    await tab.click("Chat");
  },
);

pageTest(
  "page: token probabilities are shown on demand",
  { model: "hearth-demo-chat" },
  async ({ tab }) => {
    await openSettings(tab);
    await tab.page.locator("input[type=checkbox]").click();
    await tab.fill("Message", "What is 3 plus 4?");
    await tab.click("Send");
    await tab.click("Probabilities");
    await tab.page.locator(".tokens span").hover();
    assert.match(await tab.text(".tokens table", /%/), /Alternatives to/);
  },
);

pageTest("page: a question about an image is answered", "hearth-demo-vision", async ({ tab }) => {
  await withFile({ name: "circle.png", bytes: drawCircle([220, 20, 20]) }, async (path) => {
    await tab.upload("Files to send", path);
    await tab.page.waitForSelector(".thumbs img");
    await tab.fill("Message", "What color is the circle?");
    await tab.click("Send");
    await tab.text(".assistant .markdown", /[Rr]ed/);
  });
});

pageTest(
  "page: a recording is transcribed and its words light up",
  "hearth-demo-asr",
  async ({ tab }) => {
    const { page } = tab;
    await tab.upload("Drop or paste a recording", SPEECH);
    await page.waitForSelector(".waveform");
    await page.waitForFunction(() => document.querySelectorAll(".transcript button").length >= 5);
    await tab.click("Transcribe again");
    await page.waitForFunction(() => document.querySelectorAll(".transcript button").length >= 5);
    await page.evaluate(() => {
      const audio = document.querySelector("audio")!;
      audio.muted = true;
      return audio.play();
    });
    await page.waitForFunction(() => document.querySelector(".transcript [aria-current=true]"));
    const second = await page.$(".transcript button:nth-child(3)");
    await second!.click();
    await page.waitForFunction(() => document.querySelector("audio")!.currentTime > 0);
    await page.evaluate(() => document.querySelector("audio")!.pause());
  },
);

pageTest("page: a text is spoken while it streams", "hearth-demo-tts", async ({ tab }) => {
  await tab.fill("Text", "Hello there. How are you?");
  await tab.click("Speak");
  await tab.page.waitForSelector(".waveform");
  const seconds = await tab.page.waitForFunction(() =>
    document.querySelector("audio")?.duration || 0
  );
  assert.ok(await seconds.jsonValue() as number > 0.5);
});

pageTest(
  "page: a background is removed, compared and saved",
  "hearth-demo-matting",
  async ({ tab }) => {
    const { page } = tab;
    await tab.upload("Drop or paste images", join(ROOT, "docs/cut_out_before.jpg"));
    await page.waitForSelector(".compare .before");
    const sizes = await page.waitForFunction(() => {
      const images = [...document.querySelectorAll<HTMLImageElement>(".compare img")];
      const loaded = images.every((image) => image.complete && image.naturalWidth > 0);
      return loaded && images.map((image) => [image.naturalWidth, image.naturalHeight]);
    });
    const [after, before] = await sizes.jsonValue() as number[][];
    assert.deepEqual(after, before);
    const file = await download(tab, "Download PNG", "cut_out.png");
    assert.equal(new TextDecoder().decode(file.subarray(1, 4)), "PNG");
  },
);

pageTest("page: the text of an image is read", "hearth-demo-ocr", async ({ tab }) => {
  await tab.upload("Drop or paste an image", OCR_SAMPLE);
  assert.equal(
    await tab.text(".result", /plans/),
    "Meeting notes\nRoom 214 at 10:30\nBring the new plans",
  );
});

pageTest("page: the pages of a PDF are read", "hearth-demo-ocr", async ({ tab }) => {
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "invoice.pdf");
    await Deno.writeFile(path, documentFile("text"));
    await tab.upload("Drop or paste an image", path);
    const text = await tab.text(".result", /Invoice 2: 42 EUR\n.*lazy dog/);
    assert.match(text, /^Invoice 1: 42 EUR\nThe quick brown fox/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

pageTest(
  "page: texts are compared in a heat map and in a plane",
  "hearth-demo-embed",
  async ({ tab }) => {
    await tab.click("Compare");
    await tab.page.waitForSelector(".heat td[title]");
    const cells = await tab.page.$$eval(
      ".heat td[title]",
      (all) => all.map((cell) => Number((cell as HTMLElement).title)),
    );
    assert.equal(cells.length, 36);
    for (let row = 0; row < 6; row++) {
      const line = cells.slice(6 * row, 6 * row + 6);
      assert.ok(line[row]! > 0.999);
      // The examples are pairs: the nearest text of each is its partner.
      const others = line.with(row, -1);
      assert.equal(others.indexOf(Math.max(...others)), row ^ 1);
    }
    assert.equal((await tab.page.$$(".map circle")).length, 6);
  },
);

pageTest("page: of more than 100 texts, the first 100 are compared, and the page says so", {
  model: "hearth-demo-embed",
}, async ({ tab }) => {
  const many = Array.from({ length: 130 }, (_, at) => `text ${at}`).join("\n");
  await tab.fill("One text per line, at most 100", many);
  await tab.text("main .row", /the first 100 of 130 texts/);
});

pageTest("page: documents are ranked", "hearth-demo-rerank", async ({ tab }) => {
  await tab.click("Rank");
  await tab.page.waitForSelector(".bars li");
  const scores = await tab.page.$$eval(
    ".bars [role=meter]",
    (all) => all.map((meter) => Number(meter.ariaValueNow)),
  );
  assert.equal(scores.length, 4);
  assert.match(await tab.text(".bars li", /Paris/), /^Paris is the capital of France/);
  assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
});

Deno.test({
  name:
    "page: in dark mode, the page asks for an API key, works with the right one, and keeps it only in memory",
  ...PAGE_TEST,
  fn: async () => {
    await using server = await TestServer.start({
      settings: { apiKeys: [{ label: "test", key: "secret" }] },
    });
    await using tab = await Tab.open(await shareBrowser(), server.base, DESKTOP);
    await tab.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await tab.text(
      "form",
      /This server requires an API key\. The key is kept in this page's memory/,
    );
    await tab.fill("Key", "wrong");
    await tab.click("Continue");
    await tab.text("form", /not one of this server's keys/);
    await tab.fill("Key", "secret");
    await tab.click("Continue");
    await tab.fill("Message", "What does a cow say?");
    await tab.click("Send");
    await tab.text(".assistant .figures", /tokens/);
    await checkAccessibility(tab);
    const kept = await tab.page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, document.cookie])
    );
    assert.ok(!kept.includes("secret"), kept);
    assert.deepEqual(tab.errors, []);
  },
});
