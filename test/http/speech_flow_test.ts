import assert from "node:assert/strict";
import type { TestApp } from "../fixtures/servers/server.ts";
import { openTtsApp, speechBody } from "../fixtures/servers/tts_server.ts";

const PATH = "/v1/audio/speech";

async function readFigure(app: TestApp, name: string): Promise<number> {
  const text = await (await app.request("/metrics")).text();
  return Number(new RegExp(`^hearth_${name} (\\d+)`, "m").exec(text)?.[1] ?? 0);
}

function tokensSpoken(of: TestApp): Promise<number> {
  return readFigure(of, "prompt_tokens_total");
}

Deno.test("a text of 100 kB waits for a slow reader, and what was read takes no memory", async () => {
  await using busy = await openTtsApp();
  const sentence =
    "The quick brown fox, which was not lazy at all, jumps over one more of those dogs. ";
  const input = sentence.repeat(Math.ceil(100_000 / sentence.length));
  const perSentence = 2 * (sentence.length - 4) + 1;
  const response = await busy.post(PATH, speechBody({ input, response_format: "wav" }));
  const reader = response.body!.getReader();
  await reader.read();
  let before = -1;
  for (let now = await tokensSpoken(busy); now !== before;) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 100));
    now = await tokensSpoken(busy);
  }
  assert.ok(before < 6 * perSentence, `${before / perSentence} sentences ahead`);
  // Memory of earlier work may still be freed; from here on, a leak would show.
  let numBytes = 0;
  let [startBytes, mostBytes] = [0, 0];
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    numBytes += read.value.length;
    if (startBytes === 0 && numBytes > 2 ** 23) startBytes = Deno.memoryUsage().rss;
    mostBytes = Math.max(mostBytes, Deno.memoryUsage().rss);
  }
  assert.ok(numBytes > 10_000_000, `${numBytes}`);
  assert.ok(
    mostBytes - startBytes < 120 * 2 ** 20,
    `${(mostBytes - startBytes) / 2 ** 20} MiB more`,
  );
});

Deno.test("a client that disconnects ends the speech between two sentences", async () => {
  await using left = await openTtsApp();
  const input = "One more sentence is spoken here. ".repeat(2_000);
  for (const format of ["wav", "mp3", "opus", "flac"]) {
    const response = await left.post(PATH, speechBody({ input, response_format: format }));
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
  }
  while (left.session.numInFlight > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  while (await readFigure(left, "sequences_running") > 0);
  const spoken = await tokensSpoken(left);
  assert.ok(spoken < 100 * 40, `${spoken}`);
  const again = await left.post(PATH, speechBody());
  assert.equal(again.status, 200);
  await again.bytes();
});

Deno.test("a short text does not wait until a long one has been spoken", async () => {
  await using shared = await openTtsApp();
  const long = shared.post(PATH, speechBody({ input: "One more sentence is here. ".repeat(150) }));
  const reader = (await long).body!.getReader();
  let numPieces = 0;
  const reading = (async () => {
    while (!(await reader.read()).done) numPieces++;
  })();
  const short = await shared.post(PATH, speechBody({ input: "A short one." }));
  await short.bytes();
  assert.ok(numPieces < 75, `${numPieces} of the long text's 150 chunks came first`);
  await reading;
  assert.ok(numPieces > 140);
});

Deno.test("clients that do not read delay no others", async () => {
  await using held = await openTtsApp();
  const readers = await Promise.all(Array.from({ length: 20 }, async () => {
    const body = speechBody({ input: "One more sentence is here. ".repeat(50) });
    return (await held.post(PATH, body)).body!.getReader();
  }));
  const short = await held.post(PATH, speechBody({ input: "A short one." }));
  assert.equal(short.status, 200);
  await short.bytes();
  // Waits until all held requests run.
  while (await readFigure(held, "sequences_running") < readers.length);
  await Promise.all(readers.map((reader) => reader.cancel()));
  while (held.session.numInFlight > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  while (await readFigure(held, "sequences_running") > 0);
});
