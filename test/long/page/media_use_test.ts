// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** Dropped and pasted files, the microphone, and the use of the results. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeImage } from "../../../src/media/image.ts";
import type { Tab } from "../../fixtures/page/browser.ts";
import { withMicrophone } from "../../fixtures/page/microphone.ts";
import { documentFile, DOCUMENTS } from "../../fixtures/documents/documents.ts";
import {
  download,
  PAGE_TEST,
  pageTest,
  visitPage,
  withFile,
} from "../../fixtures/page/page_visit.ts";

import { makeVisionFolder } from "../../fixtures/models/vision/vision_folder.ts";
import { makeTinyTts } from "../../fixtures/models/tiny_tts.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const CIRCLE = join(ROOT, "docs/samples/circle.png");
const RECEIPT = join(ROOT, "docs/samples/receipt.png");
const TIMER = join(ROOT, "docs/samples/timer.mp3");
const CAR = join(ROOT, "docs/cut_out_before.jpg");

/** Drops a local file on an element, like the browser itself. */
async function drop({ page }: Tab, selector: string, file: string): Promise<void> {
  const element = await page.waitForSelector(selector);
  const { x, y, width, height } = (await element!.boundingBox())!;
  const session = await page.createCDPSession();
  const center = { x: x + width / 2, y: y + height / 2 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    await session.send("Input.dispatchDragEvent", {
      type,
      ...center,
      data: { items: [], files: [file], dragOperationsMask: 1 },
    });
  }
}

/** Pastes a file like one that was copied in another program. */
async function paste(
  { page }: Tab,
  { name, type, bytes }: { name: string; type: string; bytes: Uint8Array },
): Promise<void> {
  await page.waitForSelector(".drop, .composer");
  await page.evaluate(
    (name, type, base64) => {
      const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File([bytes], name, { type }));
      document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
    },
    name,
    type,
    bytes.toBase64(),
  );
}

async function pastedImage(path: string) {
  return { name: "image.png", type: "image/png", bytes: await Deno.readFile(path) };
}

pageTest(
  "page: images are dropped and pasted into a conversation",
  { model: "hearth-demo-vision" },
  async ({ tab }) => {
    await drop(tab, ".composer", CIRCLE);
    await tab.page.waitForSelector(".thumbs img");
    await tab.fill("Message", "What is this?");
    await tab.click("Send");
    await tab.text(".assistant .markdown", /A red circle on a white background/);
    await paste(tab, await pastedImage(CIRCLE));
    await tab.page.waitForSelector(".thumbs img");
    await tab.click("Remove image 1");
    await tab.page.waitForFunction(() => document.querySelector(".thumbs img") === null);
  },
);

pageTest("page: the text of a dropped image is read, and that of a pasted one", {
  model: "hearth-demo-ocr",
}, async ({ tab }) => {
  await drop(tab, ".drop", RECEIPT);
  await tab.text(".result", /Tea for two\nTotal: 7\.50\nThank you!/);
  await paste(tab, await pastedImage(join(ROOT, "models/hearth-demo-ocr/golden/askew.png")));
  await tab.text(".result", /Room 214 at 10:30/);
});

pageTest("page: a question with a refused image is withdrawn, and the next is answered", {
  model: "hearth-demo-vision",
}, async ({ tab }) => {
  await withFile({ name: "notes.txt", bytes: new Uint8Array(9) }, async (path) => {
    await drop(tab, ".messages", path);
    await tab.text(
      ".composer .failure",
      /notes\.txt is neither text nor a PDF\. Add images \(PNG, JPEG/,
    );
  });
  await withFile({ name: "no.png", bytes: new Uint8Array(9) }, async (path) => {
    await drop(tab, "header", path);
    await tab.page.waitForSelector(".thumbs img");
  });
  assert.equal(await tab.page.$(".composer .failure"), null);
  await tab.fill("Message", "What is this?");
  await tab.click("Send");
  await tab.text("main > .failure", /^The file is not a supported image/);
  await tab.click("Take it back");
  await tab.page.waitForSelector(".greeting");
  await drop(tab, ".composer", CIRCLE);
  await tab.page.waitForSelector(".thumbs img");
  await tab.fill("Message", "What is this?");
  await tab.click("Send");
  await tab.text(".assistant .markdown", /A red circle on a white background/);
});

pageTest("page: a refused file shows no result, and does not replace the page", {
  model: "hearth-demo-matting",
}, async ({ tab }) => {
  await drop(tab, "header", CAR);
  await tab.page.waitForSelector(".compare .before");
  await withFile({ name: "no.png", bytes: new Uint8Array(9) }, async (path) => {
    await drop(tab, ".drop", path);
    await tab.text("main > .failure", /^The file is not a supported image/);
  });
  assert.equal(
    await tab.page.$(".compare"),
    null,
    "the previous cut-out is not shown for a refused file",
  );
  await withFile({ name: "large.png", bytes: new Uint8Array(101 * 2 ** 20) }, async (path) => {
    await drop(tab, ".drop", path);
    await tab.text(
      ".drop .failure",
      /large\.png is 101 MiB large\. Choose a file of at most 100 MiB/,
    );
  });
});

pageTest("page: a file that is not a recording does not report missing speech", {
  model: "hearth-demo-asr",
}, async ({ tab }) => {
  await drop(tab, "header", CIRCLE);
  await tab.text("main > .failure", /not supported audio/);
  assert.equal(await tab.page.$eval(".transcript", (element) => element.textContent), "");
});

pageTest("page: a text-only model reports that it accepts no files", {
  model: "hearth-demo-chat",
}, async ({ tab }) => {
  await drop(tab, ".composer", CIRCLE);
  await tab.text(".composer .failure", /circle\.png was not added: this model cannot read images/);
});

Deno.test({
  name: "page: a recording is dropped into a conversation with a model that hears",
  ...PAGE_TEST,
  fn: async () => {
    await using folder = await makeVisionFolder("gemma4");
    await visitPage({ model: folder.path }, async ({ tab, server }) => {
      await drop(tab, ".composer", TIMER);
      await tab.text(".composer", /timer\.mp3/);
      await tab.fill("Message", "What is said?");
      await tab.click("Send");
      await tab.text(".assistant .markdown", /\S/);
      assert.equal(await server.figure("hearth_audio_encoder_runs_total"), 1);
    });
  },
});

pageTest("page: boxes around lines are drawn on the image", {
  model: "hearth-demo-ocr",
}, async ({ tab }) => {
  const { page } = tab;
  await drop(tab, ".drop", RECEIPT);
  const plain = await tab.text(".result", /Thank you!/);
  assert.equal(await page.$(".boxed polygon"), null);
  await page.locator("::-p-aria([name='Boxes around the lines'])").click();
  await page.waitForSelector(".boxed polygon");
  const boxes = await page.$$eval(".boxed polygon", (all) => {
    const { width, height } = document.querySelector(".boxed svg")!.getBoundingClientRect();
    const image = document.querySelector(".boxed img")!.getBoundingClientRect();
    return all.map((each) => {
      const { x, y, right, bottom } = each.getBoundingClientRect();
      const isInside = x >= image.x && y >= image.y && right <= image.right &&
        bottom <= image.bottom;
      return {
        label: each.textContent,
        isInside,
        fits: width === image.width && height === image.height,
      };
    });
  });
  const words = (text: string) => text.split(/\s+/).sort();
  assert.deepEqual(words(boxes.map(({ label }) => label).join(" ")), words(plain));
  assert.ok(boxes.length > 1 && boxes.every(({ isInside, fits }) => isInside && fits));
  assert.equal(await tab.text(".result", /\S/), boxes.map(({ label }) => label).join("\n"));
});

pageTest(
  "page: the pages of a PDF file are read",
  { model: "hearth-demo-ocr" },
  async ({ tab }) => {
    const wanted = DOCUMENTS["text"]!.pages.length;
    await withFile({ name: "invoice.pdf", bytes: documentFile("text") }, async (path) => {
      await tab.upload("Drop or paste an image", path);
      await tab.text("main", /The pages of a PDF file/);
      await tab.page.waitForFunction(() => document.querySelector(".result")!.ariaBusy === "false");
    });
    const text = await tab.text(".result", /\S/);
    assert.equal(text.split("\f").length, wanted);
    assert.equal(await tab.page.$("main > .failure"), null);
  },
);

pageTest("page: a recording is dropped or pasted, and its subtitles saved", {
  model: "hearth-demo-asr",
}, async ({ tab }) => {
  await drop(tab, ".drop", TIMER);
  await tab.text(".transcript", /Set ?a ?timer ?for ?ten ?minutes/);
  const decoder = new TextDecoder();
  const srt = decoder.decode(await download(tab, "SRT", "subtitles.srt"));
  assert.match(srt, /^1\n00:00:00,\d{3} --> 00:00:0\d,\d{3}\nSet a timer for ten minutes\.\n/);
  const vtt = decoder.decode(await download(tab, "VTT", "subtitles.vtt"));
  assert.match(vtt, /^WEBVTT\n\n00:00:00\.\d{3} --> /);
  const bytes = await Deno.readFile(TIMER);
  await paste(tab, { name: "again.mp3", type: "audio/mpeg", bytes });
  await tab.page.waitForFunction(() => document.querySelector(".transcript[aria-busy=true]"));
  await tab.text(".transcript", /Set ?a ?timer ?for ?ten ?minutes/);
});

async function record(tab: Tab, seconds: number): Promise<void> {
  await tab.click("Record");
  await tab.page.waitForSelector("::-p-aria([name='Stop recording'])");
  // The sound plays in real time.
  await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  await tab.click("Stop recording");
}

Deno.test({
  ...PAGE_TEST,
  name: "page: a recording by the microphone is transcribed",
  fn: () =>
    withMicrophone(
      TIMER,
      (browserArgs) =>
        visitPage({ model: "hearth-demo-asr", browserArgs }, async ({ tab }) => {
          await record(tab, 6);
          await tab.text(".transcript", /timer ?for ?ten ?minutes/);
          await tab.page.waitForSelector(".waveform");
        }),
    ),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: speech at the microphone is transcribed while it is spoken",
  fn: () =>
    withMicrophone(
      TIMER,
      (browserArgs) =>
        visitPage({ model: "hearth-demo-asr", browserArgs }, async ({ tab }) => {
          await tab.click("Transcribe live");
          // The speaker pauses before the file begins again.
          await tab.text(".live", /timer ?for ?ten ?minutes/);
          await tab.click("Stop listening");
          await tab.page.waitForSelector("::-p-aria([name='Transcribe live'])");
          const text = await download(tab, "Save text", "transcript.txt");
          assert.match(new TextDecoder().decode(text), /timer ?for ?ten ?minutes/);
          assert.equal(await tab.page.$("main .failure"), null);
        }),
    ),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: the microphone is released when live transcription has no connection",
  fn: () =>
    withMicrophone(
      TIMER,
      (browserArgs) =>
        visitPage({ model: "hearth-demo-asr", browserArgs }, async ({ tab }) => {
          const { page } = tab;
          await page.evaluate(() => {
            const { mediaDevices } = navigator;
            const open = mediaDevices.getUserMedia.bind(mediaDevices);
            mediaDevices.getUserMedia = async (wanted) => {
              const stream = await open(wanted);
              Object.assign(globalThis, { stream });
              return stream;
            };
            globalThis.WebSocket = new Proxy(WebSocket, {
              construct: () => {
                throw new Error("No connection.");
              },
            });
          });
          await tab.click("Transcribe live");
          await tab.text("main .failure", /No connection/);
          const states = await page.evaluate(() => {
            const { stream } = globalThis as unknown as { stream: MediaStream };
            return stream.getTracks().map(({ readyState }) => readyState);
          });
          assert.deepEqual(states, ["ended"]);
        }),
    ),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: a voice is recorded with the microphone, used for speech, and removed",
  fn: () =>
    withMicrophone(TIMER, async (browserArgs) => {
      await using tiny = await makeTinyTts("chatterbox");
      await visitPage({ model: tiny.folder, browserArgs }, async ({ tab }) => {
        const { page } = tab;
        await record(tab, 3);
        await tab.text(".drop", /Speaks with the voice of recording\.webm/);
        await tab.fill("Text", "Hello.");
        await tab.click("Speak");
        const seconds = await page.waitForFunction(() =>
          document.querySelector("audio")?.duration || 0
        );
        assert.ok(await seconds.jsonValue() as number > 0);
        await tab.click("Remove");
        await tab.text(".drop", /Drop a recording to speak with its voice/);
      });
    }),
});

pageTest("page: a cut-out is available as a mask, cropped, refined and with a background colour", {
  model: "hearth-demo-matting",
}, async ({ tab }) => {
  const { page } = tab;
  await paste(tab, { name: "car.jpg", type: "image/jpeg", bytes: await Deno.readFile(CAR) });
  await page.waitForSelector(".compare .before");
  const choose = async (name: string) => {
    const busy = page.waitForSelector("main .dots");
    await page.locator(`::-p-aria([name="${name}"][role="checkbox"])`).click();
    await busy;
    await page.waitForFunction(() => document.querySelector("main .dots") === null);
    return await decodeImage(
      Uint8Array.from(await download(tab, "Download PNG", "cut_out.png")),
    );
  };
  const before = await decodeImage(await Deno.readFile(CAR));
  const refined = await choose("Refine edges");
  assert.deepEqual([refined.width, refined.height, refined.channels], [
    before.width,
    before.height,
    4,
  ]);
  const cropped = await choose("Crop to the subject");
  assert.ok(cropped.width < before.width || cropped.height < before.height);
  await choose("Crop to the subject");
  const coloured = await choose("Fill background");
  // The first pixel is in a corner, where a trace of the image may remain.
  assert.ok(coloured.data.subarray(0, 3).every((level) => level > 250));
  await choose("Fill background");
  const mask = await choose("Mask only");
  const grey = Array.from({ length: mask.width * mask.height }, (_, at) => {
    const pixel = mask.data.subarray(mask.channels * at, mask.channels * at + 3);
    assert.ok(pixel.every((level) => level === pixel[0]));
    return pixel[0]!;
  });
  assert.ok(grey.some((level) => level < 10) && grey.some((level) => level > 245));
});

pageTest("page: several images are cut out, saved as a zip, and one is copied", {
  model: "hearth-demo-matting",
}, async ({ tab, server }) => {
  const { page } = tab;
  const broken = new TextEncoder().encode("no image");
  await withFile({ name: "broken.png", bytes: broken }, async (path) => {
    await tab.uploadAll("Drop or paste images", [CAR, CIRCLE, path, CIRCLE]);
    await page.waitForFunction(() =>
      document.querySelectorAll(".batch li").length === 4 &&
      document.querySelector("main .dots") === null
    );
  });
  assert.match(await tab.text(".batch li:nth-child(3)", /broken/), /image/);
  await withFile({
    name: "all.zip",
    bytes: await download(tab, "Download all 3 (zip)", "cut_outs.zip"),
  }, async (path) => {
    // Python's reader, which verifies the checksums.
    const script =
      "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; " +
      "print(*[i.filename for i in z.infolist()]); " +
      "print(all(z.read(n)[1:4] == b'PNG' for n in z.namelist()))";
    const { stdout, stderr } = await new Deno.Command("python3", { args: ["-c", script, path] })
      .output();
    assert.equal(
      new TextDecoder().decode(stdout),
      "cut_out_before.png circle.png circle_2.png\nTrue\n",
      new TextDecoder().decode(stderr),
    );
  });

  await page.browserContext().overridePermissions(server.base, [
    "clipboard-read",
    "clipboard-write",
    "clipboard-sanitized-write",
  ]);
  await tab.click("Copy image");
  await tab.text(".batch li", /Copied/);
  const copied = await page.evaluate(async () => {
    const [item] = await navigator.clipboard.read();
    const image = await createImageBitmap(await item!.getType("image/png"));
    return [image.width, image.height];
  });
  const car = await decodeImage(await Deno.readFile(CAR));
  assert.deepEqual(copied, [car.width, car.height]);
});
