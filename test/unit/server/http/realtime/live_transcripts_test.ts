/** The certain part of a turn's text while the turn continues. */
import assert from "node:assert/strict";
import { AgreedText } from "../../../../../src/server/http/realtime/live_transcripts.ts";

/** The text that each hypothesis makes certain, and last what the final text adds. */
function follow(hypotheses: readonly string[], final: string): string[] {
  const agreed = new AgreedText();
  return [...hypotheses.map((each) => agreed.push(each)), agreed.end(final)];
}

Deno.test("AgreedText accepts the words on which two consecutive hypotheses agree", () => {
  assert.deepEqual(
    follow([
      "Set an",
      "Set an alarm",
      "Set an alarm for sick",
      "Set an alarm for six in the",
    ], "Set an alarm for six in the morning."),
    ["", "Set an", " alarm", " for", " six in the morning."],
  );
  assert.deepEqual(follow([], "All of it."), ["All of it."]);
  assert.deepEqual(follow(["One."], ""), ["", ""]);
});

Deno.test("AgreedText leaves open the punctuation after the last word, and incomplete words", () => {
  assert.deepEqual(follow(["I went.", "I went."], "I went, then I came."), [
    "",
    "I went",
    ", then I came.",
  ]);
  assert.deepEqual(follow(["It is 3.", "It is 3.14"], "It is 3.14159."), [
    "",
    "It is",
    " 3.14159.",
  ]);
  assert.deepEqual(follow(["some", "someone"], "someone else"), ["", "", "someone else"]);
});

Deno.test("AgreedText finds the words of a text without spaces", () => {
  const deltas = follow(
    ["今天天气", "今天天气很好。", "今天天气很好。我们"],
    "今天天气很好，我们去公园。",
  );
  assert.deepEqual(deltas, ["", "今天天气", "很好", "，我们去公园。"]);
});

Deno.test("AgreedText continues after the certain text if later text begins differently", () => {
  const agreed = new AgreedText();
  agreed.push("Ask Michel to feed the");
  assert.equal(agreed.push("Ask Michel to feed the"), "Ask Michel to feed the");
  assert.equal(agreed.push("Ask Michael to feed the horse"), "");
  assert.equal(agreed.push("Ask Michael to feed the horse now"), " horse");
  assert.equal(agreed.end("Ask Michael to feed the horse now."), " now.");
  assert.equal(agreed.text, "Ask Michel to feed the horse now.");
  for (
    const [certain, final, whole] of [
      // One more word, one word fewer, entirely different text, no text.
      ["we go home", "well we go home today", "we go home today"],
      ["well we go home", "we go home today", "well we go home today"],
      ["moo", "Feed the horse.", "moo the horse."],
      ["moo", "", "moo"],
    ] as const
  ) {
    const other = new AgreedText();
    other.push(certain);
    other.push(certain);
    other.end(final);
    assert.equal(other.text, whole);
  }
});

Deno.test("AgreedText never retracts text, and ends with the final text if possible", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor(seed / 2 ** 31 * below);
  };
  const words = ["moo", "cow", "the", "feed", "Horse,", "six.", "3.5", "don't"];
  for (let round = 0; round < 300; round++) {
    const makeText = () => Array.from({ length: random(9) }, () => words[random(8)]).join(" ");
    const agreed = new AgreedText();
    let sent = "";
    for (let n = 0; n < 6; n++) {
      sent += agreed.push(makeText());
      assert.equal(agreed.text, sent);
    }
    const final = random(2) === 0 ? makeText() : `${sent} ${makeText()}`;
    const isSure = final.startsWith(sent);
    sent += agreed.end(final);
    assert.equal(agreed.text, sent);
    if (isSure) assert.equal(sent, final);
  }
});
