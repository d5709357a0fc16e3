// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** The page as other machines see it: browsers disable some of their functions for pages at plain http://. */
import assert from "node:assert/strict";
import { startServer } from "../../../src/server/http/server.ts";
import { openBrowser, Tab } from "../../fixtures/page/browser.ts";
import { PAGE_TEST } from "../../fixtures/page/page_visit.ts";
import { TestApp } from "../../fixtures/servers/server.ts";

const NAME = "hearth.test";

/** Opens the page of a model by a host name that the browser does not consider local. */
async function withPage(model: string, look: (tab: Tab) => Promise<void>): Promise<void> {
  await using app = await new TestApp({ model, settings: { allowedHosts: [NAME] } }).ready();
  const server = startServer(app.deps);
  const browser = await openBrowser([`--host-resolver-rules=MAP ${NAME} 127.0.0.1`]);
  try {
    await using tab = await Tab.open(browser, `http://${NAME}:${server.address.port}`);
    assert.equal(await tab.page.evaluate(() => isSecureContext), false);
    await look(tab);
    assert.deepEqual(tab.errors, []);
  } finally {
    await browser.close();
    await server.stop();
  }
}

Deno.test({
  ...PAGE_TEST,
  name: "page: over plain http a question is answered, and the answer copied",
  fn: () =>
    withPage("hearth-demo-chat", async (tab) => {
      const { page } = tab;
      await page.waitForSelector(".composer");
      await tab.click("What is the capital of France?");
      await page.waitForSelector(".assistant footer");
      const answer = await tab.text(".assistant .markdown", /France/);
      await page.locator(".assistant footer button ::-p-text(Copy)").click();
      await tab.text(".assistant footer", /Copied/);
      await page.focus(".composer textarea");
      await page.keyboard.press("KeyV", { commands: ["Paste"] });
      assert.equal(
        await page.$eval(".composer textarea", (field) => (field as HTMLTextAreaElement).value),
        answer.trim(),
      );
    }),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: over plain http a microphone is refused with the reason and what to do",
  fn: () =>
    withPage("hearth-demo-asr", async (tab) => {
      await tab.page.waitForSelector(".drop");
      await tab.click("Record");
      await tab.text(".failure", /only on https:\/\/ pages.*choose the file here/);
    }),
});
