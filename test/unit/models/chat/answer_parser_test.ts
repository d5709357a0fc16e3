import assert from "node:assert/strict";
import { HARMONY, HERMES } from "../../../../src/models/text/calls/formats/json.ts";
import type { AnswerFormat } from "../../../../src/models/text/chat/answer_format.ts";
import { AnswerParser } from "../../../../src/models/text/chat/answer_parser.ts";
import { Random } from "../../engine/random.ts";

const MARKERS = { open: "<think>", close: "</think>" };

function parse(form: AnswerFormat, pieces: Iterable<string>) {
  const parser = new AnswerParser(form);
  const deltas = [...pieces].flatMap((piece) => parser.push(piece));
  deltas.push(...parser.end());
  return {
    text: deltas.map(({ text }) => text).join(""),
    reasoning: deltas.map(({ reasoning }) => reasoning).join(""),
    calls: deltas.flatMap(({ toolCalls }) => toolCalls.flatMap(({ name }) => name ?? [])),
  };
}

const open = { reasoning: { markers: MARKERS, state: "is_open" } } as const;
const may = { reasoning: { markers: MARKERS, state: "may_open" } } as const;
const withCalls = {
  ...may,
  calls: { format: HERMES, functions: [{ name: "f" }], isIgnored: false },
} as const;

const harmony = (isBegun = false) => ({
  calls: { format: HARMONY, functions: [{ name: "f" }], isIgnored: false, isBegun },
});
const THOUGHT = "<|channel|>analysis<|message|> Hm.\n\nYes. <|end|><|start|>assistant";

const CASES: readonly [AnswerFormat, string, ReturnType<typeof parse>][] = [
  [may, "<think>\nHm.\n\nYes. \n</think>\n\nHello.\n", {
    reasoning: "Hm.\n\nYes.",
    text: "Hello.\n",
    calls: [],
  }],
  [may, "\n<think></think>Hello.", { reasoning: "", text: "Hello.", calls: [] }],
  [may, " Hello <think> there", { reasoning: "", text: " Hello <think> there", calls: [] }],
  [may, "<thin air", { reasoning: "", text: "<thin air", calls: [] }],
  [may, "<think>It was cut </thi", { reasoning: "It was cut </thi", text: "", calls: [] }],
  [may, "", { reasoning: "", text: "", calls: [] }],
  [open, "Hm.</think>\nHello.", { reasoning: "Hm.", text: "Hello.", calls: [] }],
  [open, "\n<think>\nHm.</think>\nHello.", { reasoning: "Hm.", text: "Hello.", calls: [] }],
  [open, "Hello.", { reasoning: "Hello.", text: "", calls: [] }],
  [
    withCalls,
    '<think>Call it.</think>\n\nI call.\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n',
    { reasoning: "Call it.", text: "I call.", calls: ["f"] },
  ],
  [
    withCalls,
    '<think>A <tool_call>{"name": "f"}</tool_call> is no call here.</think> No.',
    {
      reasoning: 'A <tool_call>{"name": "f"}</tool_call> is no call here.',
      text: "No.",
      calls: [],
    },
  ],
  [harmony(), `${THOUGHT}<|channel|>final<|message|>Hello.\n`, {
    reasoning: "Hm.\n\nYes.",
    text: "Hello.\n",
    calls: [],
  }],
  [
    harmony(),
    `${THOUGHT}<|channel|>commentary<|message|>I call. <|end|><|start|>assistant` +
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
    { reasoning: "Hm.\n\nYes.", text: "I call.", calls: ["f"] },
  ],
  [harmony(), `${THOUGHT}<|channel|>fin`, { reasoning: "Hm.\n\nYes.", text: "", calls: [] }],
  [harmony(), "<|channel|>analysis<|message|>It was cut", {
    reasoning: "It was cut",
    text: "",
    calls: [],
  }],
  [harmony(), "Hello <there>.", { reasoning: "", text: "Hello <there>.", calls: [] }],
  [harmony(true), " there.<|return|>", { reasoning: "", text: " there.", calls: [] }],
  [withCalls, "Hello. \n", { reasoning: "", text: "Hello. \n", calls: [] }],
];

Deno.test("AnswerParser separates reasoning, text and calls, for any division of the answer", () => {
  const random = new Random(3);
  for (const [form, answer, expected] of CASES) {
    assert.deepEqual(parse(form, [answer]), expected, answer);
    assert.deepEqual(parse(form, answer), expected, answer);
    for (let round = 0; round < 100; round++) {
      const at = random.between(0, answer.length);
      assert.deepEqual(parse(form, [answer.slice(0, at), answer.slice(at)]), expected, answer);
    }
  }
});

Deno.test("AnswerParser omits unwanted calls", () => {
  const calls = { ...withCalls.calls, isIgnored: true };
  const answer = 'Hi. <tool_call>{"name": "f", "arguments": {}}</tool_call>';
  assert.deepEqual(parse({ calls }, answer), { reasoning: "", text: "Hi.", calls: [] });
});

Deno.test("AnswerParser emits text immediately if it cannot be the beginning of markup", () => {
  const parser = new AnswerParser(may);
  const push = (piece: string) => parser.push(piece).map(({ text }) => text);
  assert.deepEqual(push("Hello"), ["Hello"]);
  assert.deepEqual(push(" there"), [" there"]);
});

Deno.test("AnswerParser keeps the order of text and calls in one chunk", () => {
  const call = (city: string) => `<tool_call>{"name": "f", "arguments": {"city": "${city}"}}`;
  const parser = new AnswerParser(withCalls);
  parser.push(call("Paris").slice(0, -3));
  const deltas = parser.push(`"}}</tool_call> And: ${call("Rome")}</tool_call> Done.`);
  const shown = deltas.map(({ text, toolCalls }) => [
    text,
    toolCalls.map(({ index, arguments: json }) => `${index} ${json}`),
  ]);
  assert.deepEqual(shown, [
    ["", ['0 "}']],
    [" And:", ['1 {"city": "Rome"}']],
    [" Done.", []],
  ]);
});
