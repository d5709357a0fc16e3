import assert from "node:assert/strict";
import { startServer } from "../../src/server/http/server.ts";
import { Tab } from "../fixtures/page/browser.ts";
import { PAGE_TEST, shareBrowser } from "../fixtures/page/page_visit.ts";
import { TestApp, type TestServerOptions } from "../fixtures/servers/server.ts";

/** Opens the page of a server whose session has not started to load. */
async function withPage(
  options: TestServerOptions,
  look: (tab: Tab, app: TestApp) => Promise<void>,
): Promise<void> {
  const app = new TestApp(options);
  const server = startServer(app.deps);
  try {
    await using tab = await Tab.open(
      await shareBrowser(),
      `http://127.0.0.1:${server.address.port}`,
    );
    await look(tab, app);
    assert.deepEqual(tab.errors, []);
    assert.deepEqual(tab.foreign, []);
  } finally {
    await server.stop();
  }
}

Deno.test(
  "page: the page shows that the model is loading, and continues when it is ready",
  PAGE_TEST,
  async () => {
    await withPage({}, async (tab, app) => {
      assert.match(await tab.text("h1", /loading/), /The model is loading/);
      await tab.page.waitForSelector("progress");
      await app.ready();
      await tab.page.waitForSelector(".composer");
    });
  },
);

Deno.test("page: the page shows why the model could not be loaded", PAGE_TEST, async () => {
  await withPage({ folder: "/nowhere/model" }, async (tab, app) => {
    await app.ready().catch(() => {});
    await tab.text("h1", /The model is not available/);
    assert.match(await tab.text("section p", /nowhere/), /cannot be read/);
  });
});
