// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** Settings per conversation, presets, the context gauge, and documents. */
import assert from "node:assert/strict";
import { documentFile } from "../../fixtures/documents/documents.ts";
import type { Tab } from "../../fixtures/page/browser.ts";
import { openSettings, pageTest, withFile } from "../../fixtures/page/page_visit.ts";

const CHAT = { model: "hearth-demo-chat" };

/** Sends a message and waits for the answer. @returns the request of the page. */
async function send(tab: Tab, message: string): Promise<Record<string, unknown>> {
  const sent = tab.page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
  await tab.fill("Message", message);
  await tab.click("Send");
  const body = JSON.parse((await sent).postData()!);
  await tab.page.waitForSelector(".message:last-child.assistant footer");
  return body;
}

function getSystem({ messages }: Record<string, unknown>): string | undefined {
  const [first] = messages as { role: string; content: string }[];
  return first!.role === "system" ? first!.content : undefined;
}

function preset({ page }: Tab): Promise<string> {
  return page.$eval(".settings select", (field) => {
    const { selectedOptions } = field as HTMLSelectElement;
    return selectedOptions[0]!.textContent!;
  });
}

pageTest(
  "page: settings belong to a conversation and are kept as presets",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await openSettings(tab);
    assert.equal(await preset(tab), "Default");
    await tab.fill("System prompt", "Answer like a pirate.");
    assert.equal(await preset(tab), "changed");
    await tab.fill("Name of a preset", "Pirate");
    await tab.click("Save preset");
    await page.waitForFunction(() =>
      document.querySelector<HTMLSelectElement>(".settings select")!.value === "Pirate"
    );
    assert.equal(getSystem(await send(tab, "What does a cow say?")), "Answer like a pirate.");

    // Another conversation has its own settings, which are the default ones.
    await tab.click("New conversation");
    await page.waitForSelector(".greeting");
    assert.equal(getSystem(await send(tab, "What is 3 plus 4?")), undefined);
    await tab.click("What does a cow say?");
    await tab.text(".user .plain", /cow/);
    assert.equal(await preset(tab), "Pirate");
    assert.equal(getSystem(await send(tab, "And a dog?")), "Answer like a pirate.");

    // New conversations start with the default preset, also after a reload.
    await tab.fill("System prompt", "Be brief.");
    await tab.fill("Name of a preset", "Default");
    await tab.click("Save preset");
    await tab.click("New conversation");
    await page.waitForSelector(".greeting");
    await page.reload();
    await page.waitForSelector(".composer");
    await openSettings(tab);
    assert.equal(await preset(tab), "Default");
    assert.equal(getSystem(await send(tab, "Hello")), "Be brief.");
    await page.select(".settings select", "Pirate");
    assert.equal(getSystem(await send(tab, "Hello again")), "Answer like a pirate.");
    await tab.click("Delete preset Pirate");
    await page.waitForFunction(() =>
      document.querySelectorAll(".settings option[value=Pirate]").length === 0
    );
    // Schema and tools are the last settings.
    const labels = await page.$$eval(
      ".settings label",
      (all) => all.map((each) => each.textContent),
    );
    assert.deepEqual(labels.slice(-2), ["JSON schema of the answer", "Tools"]);
  },
);

pageTest("page: the gauge shows how full the context is", CHAT, async ({ tab }) => {
  await send(tab, "What does a cow say?");
  const first = await tab.text(".gauge", /^\d+ of 2,048 tokens$/);
  const { prompt, completion } = await tab.page.$eval(".figures", (figures) => ({
    prompt: Number(figures.textContent!.match(/prompt (\d+)/)![1]),
    completion: Number.parseInt(figures.textContent!),
  }));
  assert.equal(Number.parseInt(first), prompt + completion);
  assert.equal(await tab.page.$(".gauge[data-full=true]"), null);
  await send(tab, `Again: ${"moo ".repeat(900)}`);
  await tab.text(".gauge[data-full=true]", /begin a new conversation soon$/);
});

pageTest("page: a PDF is sent with a question, and its text read", CHAT, async ({ tab }) => {
  const bytes = documentFile("text");
  await withFile({ name: "invoice.pdf", bytes }, async (path) => {
    await tab.upload("Files to send", path);
    await tab.text(".thumbs", /invoice\.pdf/);
  });
  const { messages } = await send(tab, "What is in it?");
  type Part = { readonly type: string; readonly file?: { readonly filename: string } };
  const { content } = (messages as { readonly content: readonly Part[] }[])[0]!;
  assert.deepEqual(content.map(({ type }) => type), ["file", "text"]);
  assert.equal(content[0]!.file!.filename, "invoice.pdf");
  assert.equal(await tab.page.$("main > .failure"), null);
  await tab.text(".message.user", /invoice\.pdf/);
});
