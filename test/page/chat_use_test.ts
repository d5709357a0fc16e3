// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** Tests what a user does with conversations: asking, stopping, editing, deleting, exporting. */
import assert from "node:assert/strict";
import type { KeyInput } from "puppeteer-core";
import { DESKTOP, PHONE, Tab } from "../fixtures/page/browser.ts";
import {
  download,
  openSettings,
  PAGE_TEST,
  pageTest,
  setField,
  shareBrowser,
  shareServer,
  withFile,
} from "../fixtures/page/page_visit.ts";
import { TOOLS, WEATHER_ANSWER } from "../fixtures/servers/weather.ts";

const CHAT = { model: "hearth-demo-chat" };

/** Sends a message and waits for the end of its answer, which is the `count`th. */
async function ask(tab: Tab, message: string, count = 1): Promise<void> {
  await tab.fill("Message", message);
  await tab.click("Send");
  await untilAnswers(tab, count);
}

async function untilAnswers({ page }: Tab, count: number): Promise<void> {
  await page.waitForFunction(
    (count) => document.querySelectorAll(".assistant footer").length === count,
    {},
    count,
  );
}

async function readText({ page }: Tab, selector: string): Promise<string> {
  return await page.$eval(selector, (element) => element.textContent ?? "");
}

/** Makes the next answer start and never end, on any machine. */
function answerWithoutEnd(): void {
  const real = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    if (!String(input).endsWith("/chat/completions")) return real(input, init);
    globalThis.fetch = real;
    const chunk = { choices: [{ index: 0, delta: { content: "Once" }, finish_reason: null }] };
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`));
        init!.signal!.addEventListener("abort", () => controller.error(init!.signal!.reason));
      },
    });
    return Promise.resolve(new Response(body));
  };
}

/** Presses Tab until the element with this name has the focus. */
async function tabTo({ page }: Tab, name: RegExp, key: KeyInput = "Tab"): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement | null;
      const label = element?.closest("label")?.textContent;
      return element?.getAttribute("aria-label") ?? label ?? element?.textContent ?? "";
    });
    if (name.test(focused)) return;
    if (key === "Tab") await page.keyboard.press("Tab");
    else {
      await page.keyboard.down("Shift");
      await page.keyboard.press("Tab");
      await page.keyboard.up("Shift");
    }
  }
  assert.fail(`no press of Tab led to ${name}`);
}

pageTest("page: a conversation works with the keyboard alone", CHAT, async (visit) => {
  const { tab } = visit;
  const { page } = tab;
  await page.waitForSelector(".composer");
  await tabTo(tab, /^Message$/);
  await page.keyboard.type("What does a cow say?");
  await page.keyboard.press("Enter");
  await untilAnswers(tab, 1);
  await tabTo(tab, /^Regenerate$/, "ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".assistant[aria-busy=true], .assistant footer");
  await untilAnswers(tab, 1);

  // A setting, and an endless answer that is stopped.
  await tabTo(tab, /^Settings$/);
  await page.keyboard.press("Enter");
  await page.waitForSelector("input[name=max_tokens]");
  await tabTo(tab, /^max_tokens/);
  await page.keyboard.type("50");
  await page.evaluate(answerWithoutEnd);
  await tabTo(tab, /^Message$/, "ArrowLeft");
  await page.keyboard.type("Tell me a story.");
  await page.keyboard.press("Enter");
  await tab.text(".message:last-child .markdown", /Once/);
  await page.keyboard.press("Escape");
  await untilAnswers(tab, 2);
  assert.match(await readText(tab, ".message:last-child footer"), /[Ss]topped/);

  await tabTo(tab, /^Settings$/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".side.settings[open]") === null);
  await tabTo(tab, /^New conversation$/, "ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".greeting");
  await tabTo(tab, /^What does a cow say\?$/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 4);
  await tabTo(tab, /^Live figures$/, "ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".plot canvas");
});

pageTest(
  "page: a tool call is shown, and its result is entered and answered",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await setField(tab, "temperature", "0");
    await tab.fill("Tools", JSON.stringify(TOOLS));
    await ask(tab, "What is the weather in Paris?");
    assert.match(await readText(tab, ".calls"), /Calls get_weather.*"city": "Paris"/s);
    await page.locator(".calls label input").fill('{"temperature": 21, "condition": "sunny"}');
    await tab.click("Continue with these results");
    await untilAnswers(tab, 2);
    assert.equal((await readText(tab, ".message:last-child .markdown")).trim(), WEATHER_ANSWER);
    assert.match(await readText(tab, ".message.tool"), /sunny/);
  },
);

pageTest("page: an answer follows the JSON schema of the settings", CHAT, async ({ tab }) => {
  await openSettings(tab);
  await tab.fill("JSON schema of the answer", "{ no JSON");
  await tab.fill("Message", "Hello");
  await tab.click("Send");
  await tab.text("main .failure", /JSON schema in the settings is not JSON/);
  const schema = {
    type: "object",
    properties: { city: { enum: ["Paris", "Rome"] }, sure: { type: "boolean" } },
    required: ["city", "sure"],
    additionalProperties: false,
  };
  await tab.fill("JSON schema of the answer", JSON.stringify(schema));
  await ask(tab, "What is the capital of France?");
  const answer = JSON.parse(await readText(tab, ".message:last-child .markdown"));
  assert.deepEqual(Object.keys(answer), ["city", "sure"]);
  assert.ok(["Paris", "Rome"].includes(answer.city) && typeof answer.sure === "boolean");
});

pageTest("page: an answer is regenerated next to the old one", CHAT, async (visit) => {
  const { tab, server } = visit;
  await setField(tab, "temperature", "0");
  await ask(tab, "What does a cow say?");
  const first = await readText(tab, ".assistant .markdown");
  const tokens = await server.figure("hearth_completion_tokens_total");
  await tab.click("Regenerate");
  await server.untilIdle();
  await untilAnswers(tab, 1);
  assert.ok(await server.figure("hearth_completion_tokens_total") > tokens);
  assert.equal((await tab.page.$$(".message")).length, 2);
  assert.equal(await readText(tab, ".assistant .markdown"), first);
  assert.match(await readText(tab, ".assistant .branches"), /2\/2/);
});

pageTest("page: an unanswered question is asked again", CHAT, async ({ tab }) => {
  // When the message can be typed, the page has requested the model.
  await tab.fill("Message", "What does a cow say?");
  await tab.page.setOfflineMode(true);
  await tab.page.keyboard.press("Enter");
  await tab.text("[role=alert]", /does not answer/);
  await tab.page.setOfflineMode(false);
  await tab.click("Try again");
  await untilAnswers(tab, 1);
  assert.equal((await tab.page.$$(".message")).length, 2);
  assert.equal(await tab.page.$("main .failure"), null);
});

/** Asks, and waits for the first word of an endless answer. */
async function askWithoutEnd(tab: Tab, message: string): Promise<void> {
  await tab.page.evaluate(answerWithoutEnd);
  await tab.fill("Message", message);
  await tab.click("Send");
  await tab.text(".message:last-child .markdown", /Once/);
}

pageTest(
  "page: an answer stays in its conversation if the user leaves during generation",
  CHAT,
  async (visit) => {
    const { tab } = visit;
    const { page } = tab;
    const entries = () => page.$$eval(".side .entry", (all) => all.map((each) => each.textContent));
    const questions = () =>
      page.$$eval(".user .plain", (all) => all.map((each) => each.textContent));
    await ask(tab, "What does a cow say?");
    await tab.click("New conversation");
    await askWithoutEnd(tab, "Tell me a story.");
    await tab.click("What does a cow say?");
    await untilAnswers(tab, 1);
    assert.deepEqual(await questions(), ["What does a cow say?"]);
    await page.waitForSelector(".side [aria-label='Answer in progress']");
    await tab.click("Tell me a story.");
    await tab.text(".assistant[aria-busy=true] .markdown", /Once/);
    await tab.click("Stop");
    await tab.text(".assistant footer", /Stopped/);

    // Edited during the answer: the new question replaces the old one.
    await tab.click("New conversation");
    await askWithoutEnd(tab, "What is 17 plus 25?");
    await tab.click("Edit");
    await tab.fill("Edit the message", "What is 3 plus 4?");
    await tab.click("Send again");
    await untilAnswers(tab, 1);
    assert.deepEqual(await questions(), ["What is 3 plus 4?"]);
    assert.doesNotMatch(await readText(tab, ".assistant .markdown"), /Once/);

    // Deleted during the answer: it does not come back.
    await tab.click("New conversation");
    await askWithoutEnd(tab, "Where is Rome?");
    await tab.click("Delete Where is Rome?");
    await page.waitForSelector(".greeting");
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));
    const kept = ["What is 3 plus 4?", "Tell me a story.", "What does a cow say?"];
    assert.deepEqual((await entries()).toSorted(), kept.toSorted());
    // Unless the user restores it.
    await tab.click("Undo");
    await page.waitForFunction(() => document.querySelectorAll(".side .entry").length === 4);
    await tab.click("Delete Where is Rome?");
    // Waits until the deletion is stored: no user reloads as fast as a test.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
    await page.reload();
    await page.waitForSelector(".side .entry");
    assert.deepEqual((await entries()).toSorted(), kept.toSorted());
  },
);

pageTest(
  "page: an answer reports that the server disconnected, and keeps the received text",
  CHAT,
  async (visit) => {
    const { tab } = visit;
    const breakOff = async (end: string) => {
      await tab.page.evaluate((end) => {
        const real = globalThis.fetch;
        globalThis.fetch = (input, init) => {
          if (!String(input).endsWith("/chat/completions")) return real(input, init);
          globalThis.fetch = real;
          const chunk = {
            choices: [{ index: 0, delta: { content: "Once" }, finish_reason: null }],
          };
          let reads = 0;
          const body = new ReadableStream<Uint8Array>({
            pull(controller) {
              const text = reads++ === 0 ? `data: ${JSON.stringify(chunk)}\n\n` : end;
              // Chromium's error for a lost connection.
              if (text === "") controller.error(new TypeError("network error"));
              else controller.enqueue(new TextEncoder().encode(text));
            },
          }, { highWaterMark: 0 });
          return Promise.resolve(new Response(body));
        };
      }, end);
    };
    await tab.page.waitForSelector(".composer");
    await breakOff("");
    await ask(tab, "Tell me a story.");
    await tab.text(
      ".assistant .failure",
      /was lost during the answer\. Check that it is still running/,
    );
    assert.match(await readText(tab, ".assistant .markdown"), /Once/);
    await breakOff(`data: {"error":{"message":"shutting down","code":"shutting_down"}}\n\n`);
    await ask(tab, "Tell me another.", 2);
    await tab.text(".message:last-child .failure", /server was stopped.*Start it again/);
  },
);

pageTest(
  "page: conversations are exported as JSON, and imported by another browser",
  CHAT,
  async (visit) => {
    const { tab, server } = visit;
    await ask(tab, "What is the capital of France?");
    const bytes = await download(tab, "Export", "hearth-conversations.json");
    const file = JSON.parse(new TextDecoder().decode(bytes));
    assert.equal(file.conversations.length, 1);
    assert.equal(file.conversations[0].turns.length, 2);
    await using other = await Tab.open(tab.page.browser(), server.base);
    await other.page.waitForSelector(".composer");
    assert.equal((await other.page.$$(".side .entry")).length, 0);
    await withFile({ name: "no.json", bytes: new TextEncoder().encode("{}") }, async (path) => {
      await other.upload("File of exported conversations", path);
      await other.text(".side .failure", /no\.json was not imported\. .*"format" is not/);
    });
    await withFile({ name: "all.json", bytes }, async (path) => {
      await other.upload("File of exported conversations", path);
      await other.page.locator(".side .entry").click();
    });
    assert.equal(
      await other.text(".message.user", /France/),
      await tab.text(".message.user", /France/),
    );
    await other.text(".assistant .markdown", /Paris/);
  },
);

pageTest(
  "page: the copied request works in curl and JavaScript, and is valid Python",
  CHAT,
  async (visit) => {
    const { tab, server } = visit;
    const { page } = tab;
    await page.browserContext().overridePermissions(server.base, [
      "clipboard-read",
      "clipboard-write",
      "clipboard-sanitized-write",
    ]);
    await setField(tab, "temperature", "0");
    await ask(tab, "What's the capital of France?");
    await page.locator("summary ::-p-text(Show the request)").click();
    const copy = async (language: string) => {
      await tab.click(language);
      await tab.page.locator(".request figcaption > button").click();
      await tab.text(".request figcaption > button", /Copied/);
      return await page.evaluate(() => navigator.clipboard.readText());
    };
    const run = async (command: string, ...args: string[]) => {
      const { stdout, stderr } = await new Deno.Command(command, { args }).output();
      return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    };
    const wanted = /"content":"Paris"|"content":" Paris"|Par/;
    assert.match(await run("bash", "-c", await copy("curl")), wanted);
    const script = new TextEncoder().encode(await copy("JavaScript"));
    await withFile({ name: "ask.mjs", bytes: script }, async (path) => {
      assert.match(await run(Deno.execPath(), "run", "-A", path), wanted);
    });
    const python = await copy("Python");
    assert.match(python, /^import json, requests\n/);
    // Only checks the syntax: the requests package is not on every machine.
    const check = "import ast, sys; ast.parse(sys.argv[1])";
    const seen = await run("python3", "-c", check, python).catch(() => "");
    assert.equal(seen, "");
  },
);

pageTest("page: plots move while the model answers", CHAT, async ({ tab }) => {
  const { page } = tab;
  await page.waitForSelector(".composer");
  await tab.click("Live figures");
  await page.waitForSelector("[data-plot='Tokens a second'] canvas, .plot canvas");
  const draw = () =>
    page.$$eval(
      ".plot canvas",
      (all) => all.map((each) => (each as HTMLCanvasElement).toDataURL()),
    );
  const before = await draw();
  await page.evaluate(async () => {
    await fetch("v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        messages: [{ role: "user", content: "Tell me a story." }],
        min_tokens: 400,
        max_tokens: 400,
      }),
    }).then((response) => response.text());
  });
  await page.waitForFunction(
    (before) => {
      const now = [...document.querySelectorAll<HTMLCanvasElement>(".plot canvas")];
      return now.every((each, at) => each.toDataURL() !== before[at]);
    },
    {},
    before,
  );
});

pageTest(
  "page: thought is folded separately from the answer, and sent back with it",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await setField(tab, "temperature", "0");
    await page.locator("::-p-aria([name='Thinking'])").fill("high");
    await ask(tab, "What is 17 plus 25?");
    const thought = await page.$eval(".thought", (element) => {
      const { open, textContent } = element as HTMLDetailsElement;
      return { open, text: textContent ?? "" };
    });
    assert.equal(thought.open, false);
    assert.match(thought.text, /^ThoughtAdd the digits/);
    assert.match(await readText(tab, ".assistant .markdown"), /^17 \+ 25 = 42\./);
    const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
    await tab.fill("Message", "And plus 1?");
    await tab.click("Send");
    const { messages, reasoning_effort } = JSON.parse((await sent).postData()!);
    assert.equal(reasoning_effort, "high");
    assert.match(messages[1].reasoning_content, /^Add the digits/);
    await page.waitForFunction(() => document.querySelectorAll(".assistant footer").length === 2);
  },
);

pageTest("page: an empty conversation proposes questions", CHAT, async ({ tab }) => {
  assert.match(await tab.text(".greeting", /127/), /http:\/\/127\.0\.0\.1:\d+\/v1/);
  await tab.click("What is the capital of France?");
  await tab.text(".assistant .markdown", /Paris/);
});

Deno.test({
  ...PAGE_TEST,
  name: "page: nothing is animated if the user prefers reduced motion",
  fn: async () => {
    const server = await shareServer(CHAT);
    await using tab = await Tab.open(await shareBrowser(), server.base);
    await tab.page.waitForSelector(".composer");
    const motion = () =>
      tab.page.evaluate(() => {
        const waiting = document.createElement("p");
        waiting.className = "dots";
        document.body.append(waiting);
        const { animationName } = getComputedStyle(waiting, "::after");
        waiting.remove();
        return animationName;
      });
    assert.equal(await motion(), "pulse");
    await tab.page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
    assert.equal(await motion(), "none");
  },
});

Deno.test({
  ...PAGE_TEST,
  name: "page: on a phone the panels are folded, one opens at a time, and the message can be sent",
  fn: async () => {
    const server = await shareServer(CHAT);
    await using tab = await Tab.open(await shareBrowser(), server.base, PHONE);
    const { page } = tab;
    await page.waitForSelector(".composer");
    assert.equal((await page.$$(".side[open]")).length, 0);
    await ask(tab, "What does a cow say?");
    for (const panel of ["Conversations", "Settings"]) {
      await page.locator(`.side summary ::-p-text(${panel})`).click();
      await page.waitForFunction(
        (panel) => {
          const open = [...document.querySelectorAll(".side[open] summary")];
          return open.length === 1 && open[0]!.textContent === panel;
        },
        {},
        panel,
      );
      const covered = await page.$eval(".composer [type=submit]", (button) => {
        const { left, top, width, height } = button.getBoundingClientRect();
        const there = document.elementFromPoint(left + width / 2, top + height / 2);
        return there !== button && !button.contains(there);
      });
      assert.equal(covered, false, `${panel} covers Send`);
    }
    // The panels are folded again when the window was widened and narrowed.
    await page.setViewport(DESKTOP);
    // An open panel of conversations shows that the page has handled the wide window.
    await page.waitForFunction(() => {
      const open = [...document.querySelectorAll(".side[open] summary")];
      return open.length === 1 && open[0]!.textContent === "Conversations";
    });
    await page.setViewport(PHONE);
    await page.waitForFunction(() => document.querySelectorAll(".side[open]").length === 0);
    assert.deepEqual(tab.errors, []);
  },
});
