import assert from "node:assert/strict";
import { PageAnswers } from "../../../../src/models/documents/page_answers.ts";
import type { ChatEvent, ChatFinishReason } from "../../../../src/models/task.ts";

interface Page {
  readonly text: string;
  readonly reason?: ChatFinishReason;
  readonly stopSequence?: string;
}

function readEvents({ text, reason = "stop", stopSequence }: Page): ChatEvent[] {
  const numTokens = text.length;
  const logprobs = [...text].map((token, offset) => ({
    ...{ token, offset, bytes: [], logprob: -1, top: [] },
  }));
  return [
    { type: "start", promptTokens: 5 },
    { type: "delta", index: 0, text, numTokens, logprobs },
    { type: "finish", index: 0, reason, numTokens, stopSequence },
    { type: "done", usage: { promptTokens: 5, completionTokens: numTokens, cachedTokens: 1 } },
  ];
}

/** The events of an answer about these pages, and the number of pages read. */
function join(pages: readonly Page[]): { readonly events: ChatEvent[]; readonly numRead: number } {
  const events: ChatEvent[] = [];
  const answers = new PageAnswers(pages.length, (event) => events.push(event));
  let numRead = 0;
  for (const page of pages) {
    if (numRead++ > 0) answers.beginPage();
    const goesOn = readEvents(page).map((event) => answers.push(event)).at(-1);
    if (!goesOn) break;
  }
  return { events, numRead };
}

Deno.test("PageAnswers joins the answers about pages", () => {
  const { events } = join([{ text: "ab" }, { text: "" }, { text: "c" }]);
  assert.deepEqual(events.map(({ type }) => type), [
    ...["start", "delta", "delta", "delta", "delta", "delta", "finish", "done"],
  ]);
  const deltas = events.flatMap((event) => event.type === "delta" ? [event] : []);
  const text = deltas.map((delta) => delta.text).join("");
  assert.equal(text, "ab\n\f\n\fc");
  assert.deepEqual(deltas.map(({ numTokens }) => numTokens), [2, 2, 2, 2, 3]);
  for (const { token, offset } of deltas.flatMap(({ logprobs = [] }) => logprobs)) {
    assert.equal(text.slice(offset, offset + token.length), token);
  }
  assert.deepEqual(events.slice(-2), [
    { type: "finish", index: 0, reason: "stop", numTokens: 3, stopSequence: undefined },
    {
      type: "done",
      usage: { promptTokens: 15, completionTokens: 3, cachedTokens: 3, reasoningTokens: undefined },
      times: undefined,
    },
  ]);
});

Deno.test("PageAnswers ends at a stop string, and continues after a page that was too long", () => {
  const stopped = join([{ text: "a" }, { text: "b", stopSequence: "x" }, { text: "c" }]);
  assert.equal(stopped.numRead, 2);
  const last = stopped.events.at(-2)!;
  assert.ok(last.type === "finish" && last.stopSequence === "x" && last.numTokens === 2);
  const long = join([{ text: "a", reason: "length" }, { text: "b" }]);
  assert.equal(long.numRead, 2);
  const finish = long.events.at(-2)!;
  assert.ok(finish.type === "finish" && finish.reason === "length");
});

Deno.test("PageAnswers ends with a page's error", () => {
  const events: ChatEvent[] = [];
  const answers = new PageAnswers(2, (event) => events.push(event));
  const error = { kind: "inference_failed", message: "no" } as const;
  assert.equal(answers.push({ type: "error", error }), false);
  assert.deepEqual(events, [{ type: "error", error }]);
});
