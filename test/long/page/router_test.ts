// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** The page of a router: a choice of models, and speech models in addition to the chat model. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openBrowser, Tab } from "../../fixtures/page/browser.ts";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { withMicrophone } from "../../fixtures/page/microphone.ts";
import { checkAccessibility, download, PAGE_TEST } from "../../fixtures/page/page_visit.ts";

const TIMER = fileURLToPath(new URL("../../../docs/samples/timer.mp3", import.meta.url));
const MODELS = ["chat", "asr", "tts", "matting"].map((kind) => `hearth-demo-${kind}`);

async function withRouter(
  browserArgs: readonly string[],
  look: (tab: Tab, url: string) => Promise<void>,
): Promise<void> {
  const words = MODELS.flatMap((model) => ["-m", model]);
  await using router = new HearthProcess(["router", ...words, "-p", "0", "--device", "cpu"]);
  const url = await router.url();
  const browser = await openBrowser(browserArgs);
  try {
    await using tab = await Tab.open(browser, url);
    await look(tab, url);
    assert.deepEqual(tab.errors, []);
    assert.deepEqual(tab.foreign, []);
  } finally {
    await browser.close();
  }
}

Deno.test({
  ...PAGE_TEST,
  name: "page: behind a router a question is dictated, its answer read aloud, another model chosen",
  fn: () =>
    withMicrophone(TIMER, (browserArgs) =>
      withRouter(browserArgs, async (tab) => {
        const { page } = tab;
        // A chat model is selected first.
        await page.waitForSelector(".composer");
        const chosen = () =>
          page.$eval("header select", (field) => (field as HTMLSelectElement).value);
        assert.equal(await chosen(), "hearth-demo-chat");
        const choices = await page.$$eval("header option", (all) =>
          all.map((each) => each.textContent));
        assert.deepEqual(choices, [
          "hearth-demo-chat (text)",
          "hearth-demo-asr (asr)",
          "hearth-demo-tts (tts)",
          "hearth-demo-matting (matting)",
        ]);

        await tab.click("Dictate");
        await page.waitForSelector("::-p-aria([name='Stop dictating'])");
        await new Promise((resolve) =>
          setTimeout(resolve, 6000)
        );
        await tab.click("Stop dictating");
        await page.waitForFunction(() =>
          /timer for ten minutes/.test(
            document.querySelector<HTMLTextAreaElement>(".composer textarea")!.value,
          )
        );
        await tab.fill("Message", "What is the capital of France?");
        await tab.click("Send");
        await page.waitForSelector(".assistant footer");
        const spoken = page.waitForResponse((response) => response.url().endsWith("/audio/speech"));
        await tab.click("Read aloud");
        const response = await spoken;
        assert.equal(response.status(), 200);
        const body = JSON.parse(response.request().postData()!);
        assert.equal(body.model, "hearth-demo-tts");
        assert.match(body.input, /^The capital of France|Paris/);
        await page.waitForSelector("::-p-aria([name='Read aloud'])");
        await checkAccessibility(tab);

        // Another model has another page; the conversation is still there after returning.
        await page.select("header select", "hearth-demo-tts");
        await page.waitForSelector("h1 ::-p-text(Speak a text)");
        await tab.fill("Text", "Hello.");
        await tab.click("Speak");
        await page.waitForSelector("audio");
        const mp3 = await download(tab, "Download MP3", "speech.mp3");
        assert.ok(mp3.length > 500 && (mp3[0] === 0xff || mp3[0] === 0x49), "MPEG frames or ID3");
        await page.reload();
        await page.waitForSelector("h1 ::-p-text(Speak a text)");
        assert.equal(await chosen(), "hearth-demo-tts");
        await page.select("header select", "hearth-demo-chat");
        await tab.text(".user .plain", /France/);
        await tab.click("Live figures");
        await page.waitForSelector(".plot canvas");
      })),
});
