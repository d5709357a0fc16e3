import assert from "node:assert/strict";
import { setImmediate } from "node:timers";
import type { Voice } from "../../../../src/models/task.ts";
import type { Synthesizer } from "../../../../src/models/tts/synthesizer.ts";
import { writeScript } from "../../../../src/models/tts/script.ts";

const NUM_SENTENCES = 50;
const VOICE: Voice = { id: "default", language: "en" };

/** A synthesizer that knows no letter. */
const MUTE: Synthesizer = {
  sampleRateHz: 16_000,
  voices: [VOICE],
  maxTokens: 100,
  hasSpeed: true,
  tokenize: () => Promise.resolve([]),
  synthesize: () => Promise.reject(new Error("There is nothing to say.")),
  dispose: () => Promise.resolve(),
};

Deno.test("writeScript() yields to other work while it looks for speakable text", async () => {
  const { signal } = new AbortController();
  let [numTurns, isOver] = [0, false];
  const count = () => {
    numTurns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const text = "Nothing here. ".repeat(NUM_SENTENCES);
  for await (const _line of writeScript(text, { synthesizer: MUTE, voice: VOICE, signal })) {
    assert.fail("a line of nothing");
  }
  isOver = true;
  assert.ok(numTurns >= NUM_SENTENCES / 2, `${numTurns} turns`);
});

Deno.test("writeScript() stops when its signal is aborted", async () => {
  const abort = new AbortController();
  let numAsked = 0;
  const synthesizer: Synthesizer = {
    ...MUTE,
    tokenize: () => {
      if (++numAsked === 3) abort.abort();
      return Promise.resolve([]);
    },
  };
  const text = "Nothing here. ".repeat(NUM_SENTENCES);
  const { signal } = abort;
  await assert.rejects(
    writeScript(text, { synthesizer, voice: VOICE, signal }).next(),
    { name: "AbortError" },
  );
  assert.equal(numAsked, 3);
});

Deno.test("writeScript() speaks no URL scheme, in any language", async () => {
  const { signal } = new AbortController();
  for (const [language, said] of [["en", "See foo dot xyz."], ["xx", "See foo.xyz."]] as const) {
    const voice: Voice = { id: "default", language };
    const heard: string[] = [];
    const synthesizer: Synthesizer = {
      ...MUTE,
      tokenize: (text) => {
        heard.push(text);
        return Promise.resolve([]);
      },
    };
    const text = "See https://www.foo.xyz.";
    for await (const _line of writeScript(text, { synthesizer, voice, signal }));
    assert.deepEqual(heard, [said]);
  }
});

Deno.test("writeScript() divides text with more tokens than the model allows, and pauses only after the whole sentence", async () => {
  const { signal } = new AbortController();
  const text = "One two three four five six seven eight nine ten. Yes, no.";
  for (const maxTokens of [8, 20, 1000]) {
    const synthesizer: Synthesizer = {
      ...MUTE,
      maxTokens,
      tokenize: (text) => Promise.resolve(Array.from(text.trim(), (char) => char.charCodeAt(0))),
    };
    const lines = [];
    for await (const line of writeScript(text, { synthesizer, voice: VOICE, signal })) {
      lines.push({ ...line, text: String.fromCharCode(...line.tokens) });
    }
    assert.ok(lines.every(({ tokens }) => tokens.length > 0 && tokens.length <= maxTokens));
    assert.equal(lines.map(({ text }) => text).join(" "), text);
    const end = lines.findIndex(({ text }) => text.endsWith("ten."));
    assert.equal(end === 0, maxTokens === 1000);
    assert.ok(lines.slice(0, end).every(({ pauseSeconds }) => pauseSeconds === 0));
    assert.ok(lines[end]!.pauseSeconds > 0);
  }
  // A word that has too many tokens is skipped.
  const synthesizer = { ...MUTE, maxTokens: 2, tokenize: () => Promise.resolve([1, 2, 3]) };
  for await (const _line of writeScript("Unending.", { synthesizer, voice: VOICE, signal })) {
    assert.fail("a line of too many tokens");
  }
});
