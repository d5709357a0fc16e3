// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** No user text is lost: branches, deletion, reloads, drafts and several tabs. */
import assert from "node:assert/strict";
import { Tab } from "../../fixtures/page/browser.ts";
import {
  download,
  openSettings,
  pageTest,
  setField,
  withFile,
} from "../../fixtures/page/page_visit.ts";

const CHAT = { model: "hearth-demo-chat" };

async function ask(tab: Tab, message: string, count = 1): Promise<void> {
  await tab.fill("Message", message);
  await tab.click("Send");
  await untilAnswers(tab, count);
}

async function untilAnswers({ page }: Tab, count: number): Promise<void> {
  await page.waitForFunction(
    (count) =>
      document.querySelectorAll(".assistant footer").length === count &&
      document.querySelector(".assistant[aria-busy=true]") === null,
    {},
    count,
  );
}

function getTexts({ page }: Tab, selector: string): Promise<string[]> {
  return page.$$eval(selector, (all) => all.map((each) => each.textContent ?? ""));
}

/** Another tab of the same browser, with the same storage. */
async function openBeside(tab: Tab, url = tab.page.url()): Promise<Tab> {
  return await Tab.openIn(tab.page.browserContext(), url);
}

/** Makes the next answer begin with `text` and go on until it is stopped. */
async function answerWithoutEnd({ page }: Tab, text: string): Promise<void> {
  await page.evaluate((text) => {
    const real = globalThis.fetch;
    globalThis.fetch = (input, init) => {
      if (!String(input).endsWith("/chat/completions")) return real(input, init);
      globalThis.fetch = real;
      const encoder = new TextEncoder();
      let timer: ReturnType<typeof setInterval>;
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          const send = (content: string) => {
            const chunk = { choices: [{ index: 0, delta: { content }, finish_reason: null }] };
            controller.enqueue(encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`));
          };
          send(text);
          timer = setInterval(() => send(" on"), 100);
          init!.signal!.addEventListener("abort", () => {
            clearInterval(timer);
            controller.error(init!.signal!.reason);
          });
        },
      });
      return Promise.resolve(new Response(body));
    };
  }, text);
}

pageTest(
  "page: edited questions and answers become branches, and the earlier ones remain",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await setField(tab, "temperature", "0");
    await ask(tab, "What does a cow say?");
    await ask(tab, "What is 3 plus 4?", 2);
    const shown = await getTexts(tab, ".message .plain, .message .markdown");

    // Editing the first question begins another branch.
    await tab.click("Edit");
    await tab.fill("Edit the message", "What is the capital of France?");
    await tab.click("Send again");
    await tab.text(".assistant .markdown", /Paris/);
    await untilAnswers(tab, 1);
    assert.deepEqual(await getTexts(tab, ".user .branches"), ["‹2/2›"]);
    await tab.click("Previous version");
    await untilAnswers(tab, 2);
    assert.deepEqual(await getTexts(tab, ".message .plain, .message .markdown"), shown);

    // An answer edited by the user is kept next to the model's, and the model reads it.
    const edit = await page.$$("::-p-aria([name='Edit'][role='button'])");
    await edit.at(-1)!.click();
    await tab.fill("Edit the message", "3 + 4 = 8.");
    await tab.click("Keep");
    await tab.text(".message:last-child .markdown", /^3 \+ 4 = 8\.\s*$/);
    await tab.text(".message:last-child footer", /Edited\. ‹2\/2›|Edited\.‹2\/2›/);
    const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
    await tab.fill("Message", "Really?");
    await tab.click("Send");
    const { messages } = JSON.parse((await sent).postData()!);
    assert.equal(messages[3].content, "3 + 4 = 8.");
    await untilAnswers(tab, 3);

    // Everything is there after a reload, at the same position.
    const before = await getTexts(tab, ".message .plain, .message .markdown");
    await page.reload();
    await untilAnswers(tab, 3);
    assert.deepEqual(await getTexts(tab, ".message .plain, .message .markdown"), before);
    await tab.click("Next version");
    await tab.text(".assistant .markdown", /Paris/);
  },
);

pageTest(
  "page: a deleted turn and a deleted conversation can be restored",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await ask(tab, "What does a cow say?");
    await ask(tab, "What is 3 plus 4?", 2);
    await tab.click("Delete");
    await page.waitForSelector(".greeting");
    await tab.click("Undo");
    await untilAnswers(tab, 2);

    await tab.click("Delete What does a cow say?");
    await page.waitForSelector(".greeting");
    await page.reload();
    await page.waitForSelector(".composer");
    assert.equal((await page.$$(".side .entry[aria-current]")).length, 0);
    await page.locator(".side summary ::-p-text(Deleted in the last 30 days)").click();
    await tab.click("Restore What does a cow say?");
    await tab.click("What does a cow say?");
    await untilAnswers(tab, 2);
  },
);

pageTest(
  "page: a conversation has a URL, which reopens it with its draft",
  CHAT,
  async ({ tab }) => {
    const { page } = tab;
    await ask(tab, "What does a cow say?");
    const address = page.url();
    assert.match(address, /\/#\/c\/[\da-f]{32}$/);
    await tab.fill("Message", "A thought that is not fin");
    const text = new TextEncoder().encode("name,age\nAda,36\n");
    await withFile({ name: "people.csv", bytes: text }, async (path) => {
      await tab.upload("Files to send", path);
      await tab.text(".thumbs", /people\.csv/);
    });
    await page.focus(".composer textarea");
    await page.keyboard.type("ished");
    await page.reload();
    await untilAnswers(tab, 1);
    assert.equal(page.url(), address);
    const draft = () =>
      page.$eval(".composer textarea", (field) => (field as HTMLTextAreaElement).value);
    assert.equal(await draft(), "A thought that is not finished");
    await tab.text(".thumbs", /people\.csv/);

    // Another conversation has another draft; the browser's back button leads to the first.
    await tab.click("New conversation");
    await page.waitForSelector(".greeting");
    assert.equal(await draft(), "");
    await tab.fill("Message", "Something else");
    await tab.text(".side", /Draft: Something else/);
    await page.goBack();
    await untilAnswers(tab, 1);
    assert.equal(await draft(), "A thought that is not finished");

    // The attachment is sent as text.
    const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
    await tab.click("Send");
    const { messages } = JSON.parse((await sent).postData()!);
    assert.equal(
      messages.at(-1).content,
      "people.csv:\n```\nname,age\nAda,36\n\n```\n\nA thought that is not finished",
    );
    await untilAnswers(tab, 2);
    await page.reload();
    await untilAnswers(tab, 2);
    assert.equal(await draft(), "");
  },
);

pageTest(
  "page: an unfinished answer survives a reload, and is continued",
  CHAT,
  async (visit) => {
    const { tab } = visit;
    const { page } = tab;
    await setField(tab, "temperature", "0");
    await page.waitForSelector(".composer");
    await answerWithoutEnd(tab, "The cow");
    await tab.fill("Message", "What does a cow say?");
    await tab.click("Send");
    // The answer is written for longer than the interval between two saves.
    await tab.text(".assistant .markdown", /(?: on){15}/);
    await page.reload();
    await tab.text(".assistant .markdown", /^The cow( on){5}/);
    await tab.text(".assistant footer", /The page was closed before the answer ended/);
    const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
    const begun = (await getTexts(tab, ".assistant .markdown"))[0]!.trim();
    await tab.click("Continue");
    const body = JSON.parse((await sent).postData()!);
    assert.equal(body.continue_final_message, true);
    assert.equal(body.messages.at(-1).content, begun);
    await untilAnswers(tab, 1);
    const [whole] = await getTexts(tab, ".assistant .markdown");
    assert.ok(whole!.startsWith(begun), whole);
    assert.match(await tab.text(".figures", /tokens/), /tokens/);
  },
);

pageTest(
  "page: two tabs write to one conversation, and both keep everything",
  CHAT,
  async ({ tab }) => {
    await ask(tab, "What does a cow say?");
    await using other = await openBeside(tab);
    await untilAnswers(other, 1);

    // A question sent in one tab appears in the other.
    await ask(other, "What is 3 plus 4?", 2);
    await untilAnswers(tab, 2);

    // Questions sent at once get a branch each.
    await answerWithoutEnd(tab, "First");
    await answerWithoutEnd(other, "Second");
    await tab.fill("Message", "Tell me a story.");
    await other.fill("Message", "Tell me another.");
    await Promise.all([tab.click("Send"), other.click("Send")]);
    await other.text(".message:last-child .markdown", /Second on/);
    await tab.text(".message:last-child .markdown", /First on/);
    await Promise.all([tab.click("Stop"), other.click("Stop")]);
    for (const each of [tab, other]) {
      await each.page.reload();
      await untilAnswers(each, 3);
    }
    const seen = new Set<string>();
    for (const _ of [1, 2]) {
      const [branches] = await getTexts(tab, ".user:has(.branches)");
      seen.add(branches!.match(/Tell me (a story|another)/)![0]);
      const isFirst = branches!.includes("1/2");
      await tab.click(isFirst ? "Next version" : "Previous version");
      await tab.text(".user .branches", isFirst ? /2\/2/ : /1\/2/);
    }
    assert.deepEqual(seen, new Set(["Tell me a story", "Tell me another"]));

    // A title from one tab and settings from the other are both kept. Only the front tab receives keys.
    await tab.page.bringToFront();
    await tab.click("Rename What does a cow say?");
    await tab.page.keyboard.type("Animals");
    await tab.page.keyboard.press("Enter");
    await openSettings(other);
    await other.fill("System prompt", "Be brief.");
    await other.text(".side", /Animals/);
    await tab.page.reload();
    await untilAnswers(tab, 3);
    await tab.text(".side .entry", /Animals/);
    await openSettings(tab);
    assert.equal(
      await tab.page.$eval(".settings textarea", (field) => (field as HTMLTextAreaElement).value),
      "Be brief.",
    );
    assert.deepEqual(other.errors, []);
  },
);

pageTest("page: a change immediately before a reload is kept", CHAT, async (visit) => {
  const { tab } = visit;
  const { page } = tab;
  await ask(tab, "What does a cow say?");
  await tab.click("New conversation");
  await ask(tab, "What is the capital of France?");
  // Nothing runs between the click and the reload.
  const pressAndReload = async (name: string) => {
    const isLoaded = page.waitForNavigation();
    await page.evaluate((name) => {
      document.querySelector<HTMLElement>(`[aria-label="${name}"]`)!.click();
      location.reload();
    }, name);
    await isLoaded;
    await page.waitForSelector(".side .entry");
  };
  for (let round = 0; round < 5; round++) {
    await page.locator(`[aria-label="Rename ${round === 0 ? "What does a cow say?" : round - 1}"]`)
      .click();
    await page.waitForSelector(".side input.entry");
    const isLoaded = page.waitForNavigation();
    await page.evaluate((title) => {
      const field = document.querySelector<HTMLInputElement>(".side input.entry")!;
      field.value = title;
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      location.reload();
    }, String(round));
    await isLoaded;
    await page.waitForSelector(".side .entry");
    assert.deepEqual((await getTexts(tab, ".side li > .entry")).sort(), [
      String(round),
      "What is the capital of France?",
    ]);
  }
  await pressAndReload("Delete What is the capital of France?");
  assert.deepEqual(await getTexts(tab, ".side li > .entry"), ["4"]);
  await tab.text(".side", /Deleted in the last 30 days \(1\)/);
  await page.locator(".side details:not(.settings) > summary").click();
  const isLoaded = page.waitForNavigation();
  await page.evaluate(() => {
    const buttons = [...document.querySelectorAll<HTMLElement>(".side button")];
    buttons.find(({ textContent }) => textContent === "Restore")!.click();
    location.reload();
  });
  await isLoaded;
  await page.waitForSelector(".side .entry");
  assert.deepEqual((await getTexts(tab, ".side li > .entry")).sort(), [
    "4",
    "What is the capital of France?",
  ]);
  assert.deepEqual(
    await page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes("unwritten"))),
    [],
  );
});

pageTest("page: conversations are searched, by title and by message text", CHAT, async (visit) => {
  const { tab } = visit;
  await ask(tab, "What does a cow say?");
  await tab.click("New conversation");
  await ask(tab, "What is the capital of France?");
  const entries = () => getTexts(tab, ".side .entry");
  await tab.fill("Search conversations", "MOO");
  await tab.page.waitForFunction(() => document.querySelectorAll(".side .entry").length === 1);
  assert.deepEqual(await entries(), ["What does a cow say?"]);
  await tab.fill("Search conversations", "capital of");
  await tab.text(".side .entry", /France/);
  await tab.page.waitForFunction(() => document.querySelectorAll(".side .entry").length === 1);
  await tab.fill("Search conversations", "zebra");
  await tab.text(".side [role=status]", /Nothing found/);
  await tab.page.focus("[type=search]");
  await tab.page.keyboard.press("Escape");
  await tab.page.waitForFunction(() => document.querySelectorAll(".side .entry").length === 2);
});

/** Creates a database in the format of the page's first version. */
async function storeOldConversation({ page }: Tab): Promise<void> {
  await page.evaluate(() =>
    new Promise<void>((resolve, reject) => {
      const gone = indexedDB.deleteDatabase("hearth");
      gone.onsuccess = () => {
        const request = indexedDB.open("hearth", 1);
        request.onupgradeneeded = () => {
          const store = request.result.createObjectStore("conversations", { keyPath: "id" });
          store.add({
            id: "old",
            title: "From before",
            updatedMs: 1_700_000_000_000,
            messages: [
              { id: "1", role: "user", text: "Hello", images: [] },
              { id: "2", role: "assistant", text: "Hi **there**", note: "Stopped." },
              { id: "1", role: "user", text: "And now?", images: [] },
              { id: "4", role: "assistant", text: "Later", reasoning: "Hm" },
            ],
          });
        };
        request.onsuccess = () => {
          request.result.close();
          resolve();
        };
        request.onerror = () => reject(request.error);
      };
    })
  );
}

pageTest(
  "page: conversations that the page's first version stored are migrated",
  CHAT,
  async ({ tab, server }) => {
    const { page } = tab;
    await page.waitForSelector(".composer");
    await page.goto(`${server.base}/page/icon.svg`);
    await storeOldConversation(tab);
    await page.goto(`${server.base}/#/c/old`);
    await untilAnswers(tab, 2);
    assert.deepEqual(await getTexts(tab, ".message .plain:not(.thought *), .message .markdown"), [
      "Hello",
      "Hi there\n",
      "And now?",
      "Later\n",
    ]);
    assert.deepEqual(await getTexts(tab, ".side .entry"), ["From before"]);
    await ask(tab, "What does a cow say?", 3);
  },
);

pageTest(
  "page: branches are exported; for a damaged file, the error names the position",
  CHAT,
  async (visit) => {
    const { tab } = visit;
    const { page } = tab;
    await ask(tab, "What does a cow say?");
    await tab.click("Regenerate");
    await tab.text(".assistant .branches", /2\/2/);
    await untilAnswers(tab, 1);
    const bytes = await download(tab, "Export", "hearth-conversations.json");
    const file = JSON.parse(new TextDecoder().decode(bytes));
    assert.equal(file.version, 2);
    assert.equal(file.conversations[0].turns.length, 3);

    const upload = async (content: unknown, wanted: RegExp) => {
      const text = new TextEncoder().encode(JSON.stringify(content));
      await withFile({ name: "file.json", bytes: text }, async (path) => {
        await tab.upload("File of exported conversations", path);
        await tab.text(".side", wanted);
      });
    };
    const [conversation] = file.conversations;
    const damaged = structuredClone(file);
    damaged.conversations[0].turns[1].role = "system";
    await upload(
      damaged,
      /Turn 2 of conversation "What does a cow say\?" has the role "system"; wanted/,
    );
    await upload(
      { ...file, version: 3 },
      /The file has version 3; this page reads versions 1 and 2/,
    );

    // An existing conversation does not change; a file of an older version is also accepted.
    await upload(file, /1 imported from file\.json/);
    assert.match((await getTexts(tab, ".assistant .branches"))[0]!, /2\/2/);
    const old = {
      id: "older",
      title: "Older",
      updatedMs: 1,
      messages: [{ id: "m", role: "user", text: "Hey" }],
    };
    await upload({ ...file, version: 1, conversations: [old] }, /Older/);
    await tab.click("Older");
    await tab.text(".user .plain", /^Hey$/);

    // The file restores a deleted conversation.
    await tab.click("Delete What does a cow say?");
    await page.waitForFunction(() =>
      document.querySelectorAll(".side ul .entry[aria-current]").length === 1
    );
    await upload({ ...file, conversations: [conversation] }, /1 imported/);
    await tab.click("What does a cow say?");
    await tab.text(".assistant .branches", /2\/2/);
  },
);
