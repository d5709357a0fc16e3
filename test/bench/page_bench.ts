// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/**
 * Measures how responsive the web page is: the time until it can be used, and its frames while an answer of 20,000
 * tokens streams into a new conversation and into one of 200 turns.
 *
 * @module
 */
import { BROWSER_PATH, openBrowser, Tab } from "../fixtures/page/browser.ts";
import { TestServer } from "../fixtures/servers/server.ts";
import { median, printTable } from "./report.ts";

const NUM_TOKENS = 20_000;
const TOKENS_PER_SECOND = 1_000;
const NUM_TURNS = 200;
const ROUNDS = 3;

/** Answers chats in the page with Markdown at a steady pace. */
function answerAtPace(numTokens: number, tokensPerSecond: number): void {
  const real = globalThis.fetch;
  const paragraph = "Some **bold** words and `code` in a paragraph of an answer. ".repeat(6);
  const code = "\n\n```python\ndef f(x):\n    return x + 1  # a comment\n```\n\n- one\n- two\n\n";
  const words = `${paragraph}${code}`.match(/\s*\S+/g)!;
  globalThis.fetch = (input, init) => {
    if (!String(input).endsWith("/chat/completions")) return real(input, init);
    let sent = 0;
    const startedMs = performance.now();
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        const due = Math.min(
          numTokens,
          Math.ceil((performance.now() - startedMs) * tokensPerSecond / 1000),
        );
        let text = "";
        for (; sent < due; sent++) {
          const delta = { content: words[sent % words.length] };
          text += `data: ${JSON.stringify({ choices: [{ delta, finish_reason: null }] })}\n\n`;
        }
        if (sent === numTokens) text += "data: [DONE]\n\n";
        controller.enqueue(encoder.encode(text));
        if (sent === numTokens) controller.close();
      },
    });
    return Promise.resolve(new Response(body));
  };
}

/** Records the time between frames. */
function recordFrames(): void {
  const frames: number[] = [];
  Object.assign(globalThis, { frames });
  let before = performance.now();
  const next = (now: number) => {
    frames.push(now - before);
    before = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}

/** An exported conversation with many turns. */
function exportOfTurns(numTurns: number): string {
  const messages = Array.from({ length: numTurns }, (_, index) => [
    { id: `u${index}`, role: "user", text: `Question ${index}` },
    {
      id: `a${index}`,
      role: "assistant",
      text: `# Answer\n\n**Bold** and \`code\`.\n\n`.repeat(8),
    },
  ]).flat();
  const conversation = { id: "long", title: "Long", updatedMs: 1, messages };
  return JSON.stringify({
    format: "hearth-conversations",
    version: 1,
    conversations: [conversation],
  });
}

async function streamInto(tab: Tab): Promise<number[]> {
  const { page } = tab;
  await page.evaluate(recordFrames);
  await tab.fill("Message", "Go on");
  await tab.click("Send");
  await page.waitForSelector("::-p-aria([name='Stop'][role='button'])");
  await page.waitForSelector("::-p-aria([name='Send'][role='button'])", { timeout: 300_000 });
  return await page.evaluate(() => (globalThis as unknown as { frames: number[] }).frames);
}

function describe(name: string, frames: readonly number[]): string[] {
  const sorted = frames.toSorted((a, b) => a - b);
  const at = (share: number) => `${sorted[Math.floor(share * (sorted.length - 1))]!.toFixed(0)} ms`;
  return [name, at(0.5), at(0.95), at(0.99), at(1)];
}

if (BROWSER_PATH === undefined) {
  // deno-lint-ignore no-console -- a benchmark says why it does nothing
  console.log("There is no Chromium on this machine: nothing to measure.");
  Deno.exit(0);
}
await using server = await TestServer.start();
const browser = await openBrowser();
const usableMs: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  await using tab = await Tab.open(browser, server.base);
  await tab.page.waitForSelector(".composer");
  usableMs.push(
    await tab.page.evaluate(() => {
      // The page can be used from the time when the composer exists.
      const [entry] = performance.getEntriesByType("navigation");
      return performance.now() - entry!.startTime;
    }),
  );
}
printTable(["until the page can be used", ""], [[
  "median of 3",
  `${median(usableMs).toFixed(0)} ms`,
]]);

const tab = await Tab.open(browser, server.base);
await tab.page.waitForSelector(".composer");
await tab.page.evaluate(answerAtPace, NUM_TOKENS, TOKENS_PER_SECOND);
const rows = [describe("a new conversation", await streamInto(tab))];
const file = await Deno.makeTempFile({ suffix: ".json" });
await Deno.writeTextFile(file, exportOfTurns(NUM_TURNS));
await tab.upload("File of exported conversations", file);
await tab.page.locator("::-p-text(Long)").click();
await tab.page.waitForFunction(
  (count) => document.querySelectorAll(".message").length === count,
  {},
  2 * NUM_TURNS,
);
rows.push(describe(`one of ${NUM_TURNS} turns`, await streamInto(tab)));
await Deno.remove(file);
printTable(
  [`frames while ${NUM_TOKENS} tokens stream into`, "median", "95 %", "99 %", "longest"],
  rows,
);
await browser.close();
