import assert from "node:assert/strict";
import { type Joint, TdtGreedyDecoder } from "../../../../src/models/asr/tdt_load.ts";

const TEXTS = ["", " a", "b", "c"];
const BLANK = 0;
const { signal } = new AbortController();

/**
 * A network that outputs a script's entries for a frame, one after the other: a letter and the
 * number of frames to skip. A frame's only value is its number; the state is the text so far.
 */
function scripted(script: Readonly<Record<number, readonly string[]>>): Joint<string> {
  const said = new Map<number, number>();
  return {
    width: 1,
    begin: () => "",
    run: ([frame], lastToken, state) => {
      assert.ok(frame! >= 0, "the network gets a frame of a neighbouring chunk");
      const now = state + TEXTS[lastToken]!.trim();
      const turn = said.get(frame!) ?? 0;
      said.set(frame!, turn + 1);
      const [letter = "_", step = "0"] = script[frame!]?.[turn] ?? "";
      const logits = new Float32Array(TEXTS.length + 5);
      logits["_abc".indexOf(letter)] = 5;
      logits[TEXTS.length + Number(step)] = 5;
      if (letter === "c") {
        assert.equal(now, "ab", "the predictor has seen all tokens before this one");
      }
      return Promise.resolve({ logits, state: now });
    },
  };
}

async function read(
  script: Readonly<Record<number, readonly string[]>>,
  pieces: readonly (readonly [number, number])[],
): Promise<[string, number, number][]> {
  const reader = new TdtGreedyDecoder(scripted(script), { blank: BLANK, texts: TEXTS });
  const tokens: [string, number, number][] = [];
  for (const [from, to] of pieces) {
    // Each chunk was encoded with two frames of its neighbours on either side.
    const rows = Float32Array.from(
      { length: to - from + 4 },
      (_, i) => i < 2 || i >= to - from + 2 ? NaN : from - 2 + i,
    );
    const heard = await reader.push(
      { rows, from: 2, to: 2 + to - from, firstFrame: from - 2 },
      signal,
    );
    tokens.push(...heard.map(({ text, startFrame, endFrame }): [string, number, number] => [
      text.trim(),
      startFrame,
      endFrame,
    ]));
  }
  return [...tokens, ...reader.end().map((): [string, number, number] => ["open", 0, 0])];
}

Deno.test("TdtGreedyDecoder skips the number of frames of each token, and keeps its state", async () => {
  const script = { 0: ["_2"], 2: ["a3"], 5: ["b1"], 6: ["_4"], 10: ["c2"] };
  const tokens: [string, number, number][] = [["a", 2, 5], ["b", 5, 6], ["c", 10, 12]];
  assert.deepEqual(await read(script, [[0, 12]]), tokens);
});

Deno.test("TdtGreedyDecoder decodes a recording in chunks to the same tokens as at once, even if a token crosses a seam", async () => {
  const script = { 0: ["a4"], 4: ["b2"], 6: ["c1"] };
  const whole = await read(script, [[0, 9]]);
  for (const seam of [1, 2, 3, 4, 5, 6, 7]) {
    assert.deepEqual(await read(script, [[0, seam], [seam, 9]]), whole);
  }
});

Deno.test("TdtGreedyDecoder emits several tokens in one frame, of which only the last has a length", async () => {
  const tokens: [string, number, number][] = [["a", 1, 1], ["b", 1, 2], ["c", 3, 4]];
  assert.deepEqual(await read({ 0: ["_1"], 1: ["a0", "b0", "_2"], 3: ["c1"] }, [[0, 5]]), tokens);
});

Deno.test("TdtGreedyDecoder advances if the network would stay at a frame forever", async () => {
  const tokens = await read({ 0: Array(50).fill("b0"), 1: ["_0"], 2: ["b1"] }, [[0, 3]]);
  assert.equal(tokens.length, 11);
  assert.deepEqual(tokens.slice(9), [["b", 0, 1], ["b", 2, 3]]);
});

Deno.test("TdtGreedyDecoder stops between frames when its signal is aborted", async () => {
  const abort = new AbortController();
  const joint = scripted({});
  const reader = new TdtGreedyDecoder({
    ...joint,
    run: (...frame) => {
      if (frame[0][0] === 3) abort.abort(new Error("enough"));
      return joint.run(...frame);
    },
  }, { blank: BLANK, texts: TEXTS });
  const rows = Float32Array.from({ length: 9 }, (_, i) => i);
  await assert.rejects(
    reader.push({ rows, from: 0, to: 9, firstFrame: 0 }, abort.signal),
    /enough/,
  );
});
