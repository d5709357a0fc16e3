// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/** Tools of MCP servers: the user connects servers, the model calls tools, and the page runs what the user allows. */
import assert from "node:assert/strict";
import { AuthorizationServer } from "../../fixtures/servers/authorization_server.ts";
import { Tab } from "../../fixtures/page/browser.ts";
import { WeatherServer } from "../../fixtures/servers/mcp_server.ts";
import {
  checkAccessibility,
  openSettings,
  PAGE_TEST,
  setField,
  shareBrowser,
  shareServer,
} from "../../fixtures/page/page_visit.ts";
import { WEATHER_ANSWER } from "../../fixtures/servers/weather.ts";

const QUESTION = "What is the weather in Paris?";

async function withPage(
  look: (tab: Tab, weather: WeatherServer) => Promise<void>,
  guard?: AuthorizationServer,
): Promise<void> {
  const server = await shareServer();
  await using weather = new WeatherServer(guard);
  await using tab = await Tab.open(await shareBrowser(), server.base);
  await tab.page.waitForSelector(".composer");
  await look(tab, weather);
  assert.deepEqual(tab.errors, []);
  const known = [weather.url, guard?.url ?? weather.url].map((url) => new URL(url).origin);
  const others = tab.foreign.filter((url) => !known.includes(new URL(url).origin));
  assert.deepEqual(others, []);
}

async function addServer(tab: Tab, url: string, token = ""): Promise<void> {
  await openSettings(tab);
  await tab.fill("Address", url);
  if (token !== "") await tab.page.locator("input[type=password]").fill(token);
  await tab.click("Add server");
}

async function untilConnected(tab: Tab): Promise<void> {
  // The page reloads in between; folded elements also have their text.
  await tab.text(".settings", /weather-station 2 tools/);
  await openSettings(tab);
}

async function ask(tab: Tab, question: string): Promise<void> {
  await tab.fill("Message", question);
  await tab.click("Send");
}

Deno.test({
  ...PAGE_TEST,
  name: "page: a tool of an MCP server runs when it is allowed, and its result is answered",
  fn: () =>
    withPage(async (tab, weather) => {
      const { page } = tab;
      await tab.fill("Message", "Kept");
      // The page reloads with a policy that allows it to connect to the server.
      await addServer(tab, weather.url, "secret-token");
      await page.waitForFunction(() => location.search.includes("connect="));
      await untilConnected(tab);
      assert.equal(
        await page.$eval(".composer textarea", (field) => (field as HTMLTextAreaElement).value),
        "Kept",
      );
      assert.deepEqual([...weather.authorizations], ["Bearer secret-token"]);
      const stored = await page.evaluate(() => JSON.stringify({ ...localStorage }));
      assert.ok(!stored.includes("secret-token"));
      await setField(tab, "temperature", "0");

      await ask(tab, QUESTION);
      await tab.text(".calls", /Calls get_weather of weather-station[^]*"city": "Paris"/);
      await checkAccessibility(tab);
      assert.deepEqual(weather.asked, [], "nothing runs before it is allowed");
      await tab.click("Allow");
      await tab.text(".message:last-child .markdown", new RegExp(WEATHER_ANSWER));
      assert.match(await tab.text(".message.tool", /sunny/), /"temperature":21/);
      assert.deepEqual(weather.asked, ["Paris"]);

      // After a refusal, the model is informed.
      await tab.click("New conversation");
      await setField(tab, "temperature", "0");
      await ask(tab, QUESTION);
      await page.waitForSelector(".calls");
      await tab.click("Refuse");
      await tab.text(".message.tool", /The user refused this call/);
      assert.deepEqual(weather.asked, ["Paris"]);

      // After permanent permission, the page does not ask again.
      await page.waitForSelector(".message:last-child footer");
      await tab.click("New conversation");
      await setField(tab, "temperature", "0");
      await ask(tab, QUESTION);
      await page.waitForSelector(".calls");
      await tab.click("Always allow");
      await tab.text(".message.tool", /sunny/);
      await page.waitForSelector(".message:last-child.assistant footer");
      await tab.click("New conversation");
      await setField(tab, "temperature", "0");
      await ask(tab, QUESTION);
      await tab.text(".message.tool", /sunny/);
      assert.deepEqual(weather.asked, ["Paris", "Paris", "Paris"]);

      // After the server is removed, its tools are not offered any more.
      await page.waitForSelector(".message:last-child.assistant footer");
      await openSettings(tab);
      await tab.click("Remove weather-station");
      const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
      await ask(tab, "Hello");
      assert.equal(JSON.parse((await sent).postData()!).tools, undefined);
      await page.waitForSelector(".message:last-child.assistant footer");
    }),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: the page says why an MCP server cannot be used",
  fn: () =>
    withPage(async (tab) => {
      await addServer(tab, "not an address");
      await tab.text(".settings .failure", /"not an address" is not an address such as https/);
      // A web server without MCP: the page's own.
      const own = new URL("/nothing", tab.page.url()).href;
      await addServer(tab, own);
      await tab.text(".settings .failure", /./);
      await tab.text(".settings", /failed/);
    }),
});

Deno.test({
  ...PAGE_TEST,
  name: "page: the user signs in to an MCP server that wants OAuth, and stays signed in",
  fn: async () => {
    await using guard = new AuthorizationServer();
    await withPage(async (tab, weather) => {
      const { page } = tab;
      const signIn = async (link: string) => {
        // The page reloads in between, with policies that allow it to connect to both servers.
        await tab.text(".settings", /signed out/);
        await openSettings(tab);
        await tab.click("Sign in");
        await page.locator(`::-p-text(${link})`).click();
      };
      await tab.fill("Message", "Kept");
      const hash = await page.evaluate(() => location.hash);
      await addServer(tab, weather.url);
      await signIn("Deny");
      await tab.text(".settings .failure", /You were not signed in: access_denied/);
      await openSettings(tab);
      await tab.click("Try again");
      await signIn("Allow");
      await untilConnected(tab);
      assert.deepEqual(guard.log, ["register", "authorize", "authorize", "authorization_code"]);
      const address = new URL(page.url());
      assert.deepEqual(address.searchParams.getAll("connect"), [
        new URL(weather.url).origin,
        guard.url,
      ]);
      assert.deepEqual([address.searchParams.get("code"), address.hash], [null, hash]);
      assert.equal(
        await page.$eval(".composer textarea", (field) => (field as HTMLTextAreaElement).value),
        "Kept",
      );
      const stored = await page.evaluate(() => JSON.stringify({ ...localStorage }));
      assert.doesNotMatch(stored, new RegExp([...guard.tokens].join("|")));

      // After a reload the user is still signed in; an expired token is refreshed.
      await page.reload();
      await untilConnected(tab);
      guard.tokens.clear();
      await page.reload();
      await untilConnected(tab);
      assert.equal(guard.log.at(-1), "refresh_token");
      assert.equal(guard.log.length, 5);

      // Without a refresh token, the call reports the failure.
      guard.refreshes = false;
      guard.tokens.clear();
      await setField(tab, "temperature", "0");
      await ask(tab, QUESTION);
      await page.waitForSelector(".calls");
      await tab.click("Allow");
      await tab.text(".message.tool", /The sign-in has expired/);
    }, guard);
  },
});

Deno.test({
  ...PAGE_TEST,
  name: "page: the page says that an MCP server refused the token",
  fn: async () => {
    await using guard = new AuthorizationServer();
    await withPage(async (tab, weather) => {
      await addServer(tab, weather.url, "a-wrong-token");
      await tab.text(".settings .failure", /refused the token \(401\)/);
    }, guard);
  },
});
