import assert from "node:assert/strict";
import { ResponseBuilder } from "../../src/server/http/responses/responses_events.ts";
import type { ChatEvent, ChosenLogprob } from "../../src/models/task.ts";

type Delta = Extract<ChatEvent, { type: "delta" }>;

/** A token with a log-probability. */
function chosen(token: string, bytes = [...new TextEncoder().encode(token)]): ChosenLogprob {
  return { token, bytes, logprob: -1, offset: 0, top: [] };
}

function delta(text: string, logprobs: ChosenLogprob[], more: Partial<Delta> = {}): Delta {
  return { type: "delta", index: 0, text, logprobs, ...more };
}

/** The text and tokens of each text delta, and the tokens of each text in the final response. */
function follow(deltas: readonly Delta[]) {
  const request = { model: "m", input: "Hi" };
  const builder = new ResponseBuilder({ id: "r", createdSeconds: 0, model: "m", request });
  const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0 };
  const events = [
    { type: "start", promptTokens: 1 } as const,
    ...deltas,
    { type: "done", usage } as const,
  ].flatMap((event) => builder.push(event));
  const readTokens = (logprobs: unknown) => (logprobs as ChosenLogprob[]).map(({ token }) => token);
  const streamed = events.filter(({ type }) => type === "response.output_text.delta")
    .map((event) => [event["delta"], ...readTokens(event["logprobs"])]);
  const whole = builder.response.output.flatMap((item) =>
    item.type === "message" ? item.content.map(({ logprobs }) => readTokens(logprobs)) : []
  );
  return { streamed, whole };
}

Deno.test("ResponseBuilder.push() sends the first events of a stream even if it fails before its first token", () => {
  const request = { model: "m", input: "Hi" };
  const builder = new ResponseBuilder({ id: "r", createdSeconds: 0, model: "m", request });
  const error = { kind: "invalid_value", message: "No." } as const;
  const events = builder.push({ type: "error", error });
  assert.deepEqual(events.map(({ type }) => type), [
    "response.created",
    "response.in_progress",
    "response.failed",
  ]);
  assert.deepEqual(builder.response.error, { code: "invalid_value", message: "No." });
});

Deno.test("ResponseBuilder.push() attributes tokens without text to the first text after them", () => {
  const bytes = [...new TextEncoder().encode("🦔")];
  const [first, second] = [chosen("\\xf0\\x9f", bytes.slice(0, 2)), chosen("x", bytes.slice(2))];
  assert.deepEqual(follow([delta("", [first]), delta("🦔", [second])]), {
    streamed: [["🦔", first.token, second.token]],
    whole: [[first.token, second.token]],
  });
});

Deno.test("ResponseBuilder.push() attributes tokens of thought, calls and markup to no text", () => {
  const call = { toolCalls: [{ index: 0, id: "c", name: "f", arguments: "{}" }] };
  const { streamed, whole } = follow([
    delta("", [chosen("<think>")]),
    delta("", [chosen("Hm.")], { reasoning: "Hm." }),
    delta("", [chosen("</think>")]),
    delta("", [chosen("\n")]),
    delta("Hi", [chosen("Hi")]),
    delta("", [chosen(" ")]),
    delta(" there", [chosen("there")]),
    delta("", [chosen("<tool_call>")]),
    delta("", [chosen("f")], call),
    delta("!", [chosen("!")]),
  ]);
  assert.deepEqual(streamed, [["Hi", "Hi"], [" there", " ", "there"], ["!", "!"]]);
  assert.deepEqual(whole, [["Hi", " ", "there"], ["!"]]);
});
