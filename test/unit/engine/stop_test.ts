import assert from "node:assert/strict";
import { StopMatcher } from "../../../src/engine/detokenizer.ts";
import { Random } from "./random.ts";

/** Pushes fragments until a stop string is found. @returns all emitted text, and the stop string. */
function run(stops: readonly string[], fragments: readonly string[]) {
  const matcher = new StopMatcher(stops);
  let text = "";
  for (const fragment of fragments) {
    const result = matcher.push(fragment);
    text += result.text;
    if (result.stop !== undefined) return { text, stop: result.stop };
  }
  return { text: text + matcher.flush(), stop: undefined };
}

/** Computes the result of `run` by trying every end position. */
function runSlowly(stops: readonly string[], text: string) {
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => stop !== "" && text.slice(0, end).endsWith(stop))
      .sort((a, b) => b.length - a.length)[0];
    if (ending !== undefined) return { text: text.slice(0, end - ending.length), stop: ending };
  }
  return { text, stop: undefined };
}

function split(text: string, random: Random): string[] {
  const fragments = [];
  for (let start = 0; start < text.length;) {
    const length = random.between(0, 4);
    fragments.push(text.slice(start, start + length));
    start += length;
  }
  return fragments;
}

Deno.test("StopMatcher.push() emits the text before a stop string, and nothing of the string", () => {
  assert.deepEqual(run(["END"], ["one E", "N", "Dtwo"]), { text: "one ", stop: "END" });
  assert.deepEqual(run(["END"], ["END"]), { text: "", stop: "END" });
});

Deno.test("StopMatcher.push() withholds only the longest ending that may begin a stop string", () => {
  const matcher = new StopMatcher(["abcabd", "cx"]);
  assert.deepEqual(matcher.push("zabcab"), { text: "z", stop: undefined });
  assert.deepEqual(matcher.push("c"), { text: "abc", stop: undefined });
  assert.deepEqual(matcher.push("!"), { text: "abc!", stop: undefined });
  assert.deepEqual(matcher.push("c"), { text: "", stop: undefined });
  assert.deepEqual(matcher.push("d"), { text: "cd", stop: undefined });
});

Deno.test("StopMatcher.flush() returns the withheld text when generation ends", () => {
  const matcher = new StopMatcher(["\n\n###"]);
  assert.equal(matcher.push("yes\n\n##").text, "yes");
  assert.equal(matcher.flush(), "\n\n##");
  assert.equal(matcher.flush(), "");
});

Deno.test("StopMatcher finds the stop string that ends first, and the longer of two that end together", () => {
  assert.deepEqual(run(["abcd", "bc"], ["xabcd"]), { text: "xa", stop: "bc" });
  assert.deepEqual(run(["bc", "abc"], ["xabcd"]), { text: "x", stop: "abc" });
  assert.deepEqual(run(["c", "abcd", "bc"], ["xabcd"]), { text: "xa", stop: "bc" });
});

Deno.test("StopMatcher emits everything without a stop string, or with an empty one", () => {
  assert.deepEqual(run([], ["a", "b"]), { text: "ab", stop: undefined });
  assert.deepEqual(run(["", "q"], ["a", "b"]), { text: "ab", stop: undefined });
});

Deno.test("StopMatcher finds a stop string of any length, split anywhere", () => {
  const stop = `${"ab".repeat(5000)}!`;
  const text = `ab${stop} rest`;
  const fragments = text.match(/.{1,7}/gs)!;
  assert.deepEqual(run([stop], fragments), { text: "ab", stop });
});

Deno.test("StopMatcher does not withhold an emoji for another with the same beginning", () => {
  const matcher = new StopMatcher(["😁"]);
  assert.deepEqual(matcher.push("😀"), { text: "😀", stop: undefined });
  assert.deepEqual(matcher.push("😁"), { text: "", stop: "😁" });
});

Deno.test("StopMatcher equals a plain search in random text, however it is divided", () => {
  const random = new Random(3);
  const randomText = (maxLength: number) =>
    Array.from({ length: random.between(0, maxLength) }, () => random.pick(["a", "b", "c", "é"]))
      .join("");
  for (let i = 0; i < 20_000; i++) {
    const stops = Array.from({ length: random.between(1, 4) }, () => randomText(6));
    const text = randomText(30);
    assert.deepEqual(run(stops, split(text, random)), runSlowly(stops, text));
  }
});
