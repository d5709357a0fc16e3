import assert from "node:assert/strict";
import { ShortFirst } from "../../../../src/models/threads/semaphore.ts";

/** A clock that advances by the given time whenever it is read. */
function makeClock(pieceMs: number): () => number {
  let now = 0;
  return () => now += pieceMs;
}

const HOUR_MS = 3_600_000;
const { signal } = new AbortController();

Deno.test("ShortFirst lets a long recording run if there is no short one", async () => {
  const turn = new ShortFirst(makeClock(HOUR_MS)).makeYieldForLong(signal);
  for (let piece = 0; piece < 3; piece++) await turn();
});

Deno.test("ShortFirst makes long recordings wait until the last short one has ended", async () => {
  const shortFirst = new ShortFirst(makeClock(HOUR_MS));
  const events: string[] = [];
  const ends = [shortFirst.begin(), shortFirst.begin()];
  const longs = ["first", "second"].map(async (name) => {
    await shortFirst.makeYieldForLong(signal)();
    events.push(name);
  });
  for (const end of ends) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    events.push("end");
    end();
  }
  await Promise.all(longs);
  assert.deepEqual(events, ["end", "end", "first", "second"]);
});

Deno.test("ShortFirst lets a long recording continue after some time, even if a short one never ends", async () => {
  const shortFirst = new ShortFirst(makeClock(1));
  shortFirst.begin();
  const turn = shortFirst.makeYieldForLong(signal);
  for (let piece = 0; piece < 3; piece++) await turn();
});

Deno.test("ShortFirst ends the wait of a recording that is cancelled, with the reason", async () => {
  const shortFirst = new ShortFirst(makeClock(HOUR_MS));
  shortFirst.begin();
  const abort = new AbortController();
  const waiting = shortFirst.makeYieldForLong(abort.signal)();
  abort.abort(new Error("hung up"));
  await assert.rejects(waiting, /hung up/);
  await assert.rejects(shortFirst.makeYieldForLong(abort.signal)(), /hung up/);
});

Deno.test("ShortFirst leaves no listeners on a recording's signal after any number of waits", async () => {
  const shortFirst = new ShortFirst(makeClock(1));
  shortFirst.begin();
  const { signal } = new AbortController();
  let numListeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    numListeners++;
    addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    numListeners--;
    removeEventListener.apply(signal, args);
  };
  const turn = shortFirst.makeYieldForLong(signal);
  for (let piece = 0; piece < 3; piece++) await turn();
  assert.equal(numListeners, 0);
});
