import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  detectCallFormat,
  toTemplateMessages,
} from "../../../../src/models/text/chat/template_message.ts";
import { type AnswerDelta, AnswerParser } from "../../../../src/models/text/chat/answer_parser.ts";
import { ChatTemplate } from "../../../../src/models/text/chat/chat_template.ts";
import {
  findReasoningMarkers,
  findReasoningState,
} from "../../../../src/models/text/chat/answer_format.ts";
import { unlessThere } from "../../../fixtures/engine/goldens.ts";
import type { ChatMessage } from "../../../../src/models/task.ts";

const FUNCTIONS = [{
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" }, days: {} } },
}];

/** A conversation with a call id of OpenAI. */
const HISTORY: readonly ChatMessage[] = [
  { role: "system", content: "Be short." },
  { role: "user", content: "Weather in Paris?" },
  {
    role: "assistant",
    content: "",
    toolCalls: [{
      id: "call_abc-1234567890",
      name: "get_weather",
      arguments: '{"city":"Paris","days":2}',
    }],
  },
  { role: "tool", content: "sunny", toolCallId: "call_abc-1234567890" },
];

function render(source: string, history = HISTORY): string {
  const template = new ChatTemplate(new Map([["default", source]]), { bos_token: "<s>" });
  const messages = toTemplateMessages(history, ({ content }) => content as string);
  return template.render(messages, { functions: FUNCTIONS });
}

/** The parts of Mistral's templates (7B Instruct v0.3) that check ids. */
const MISTRAL = `{% for m in messages %}{% if m.tool_calls is defined %}[TOOL_CALLS] [` +
  `{% for call in m.tool_calls %}{% if call.id|length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}` +
  `{{ call.function|tojson }} {{ call.id }}{% endfor %}]{% elif m.role == "tool" %}` +
  `{% if m.tool_call_id|length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}` +
  `[TOOL_RESULTS]{{ m.content }} {{ m.tool_call_id }}[/TOOL_RESULTS]{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}`;

Deno.test("a template that requires call ids in a format of its own gets them, equal for call and result", () => {
  const rendered = render(MISTRAL);
  const ids = [...rendered.matchAll(/ ([a-zA-Z0-9]{9})[\]\[]/g)].map(([, id]) => id);
  assert.equal(ids.length, 2, rendered);
  assert.equal(ids[0], ids[1]);
  assert.equal(
    render(MISTRAL),
    rendered,
    "the ids are the same each time, so that the prefix cache finds the prompt",
  );
  const own = HISTORY.map((message) => ({
    ...message,
    ...(message.toolCallId && { toolCallId: "aB3456789" }),
    ...(message.toolCalls && { toolCalls: [{ ...message.toolCalls[0]!, id: "aB3456789" }] }),
  }));
  assert.match(render(MISTRAL, own), / aB3456789\].* aB3456789\[/);
});

/** LFM2's template, which renders only the role and content of a message. */
const LFM2 = `{{ bos_token }}{% if tools %}List of tools: <|tool_list_start|>{{ tools|tojson }}` +
  `<|tool_list_end|>{% endif %}{% for message in messages %}<|im_start|>{{ message["role"] }}\n` +
  `{% if message["role"] == "tool" %}<|tool_response_start|>{{ message["content"] }}<|tool_response_end|>` +
  `{% else %}{{ message["content"] }}{% endif %}<|im_end|>\n{% endfor %}`;

Deno.test("a template that does not render calls gets them in the text, in the model's format", () => {
  const call = '<|tool_call_start|>[get_weather(city="Paris", days=2)]<|tool_call_end|>';
  const rendered = render(LFM2);
  assert.ok(rendered.includes(`<|im_start|>assistant\n${call}<|im_end|>`), rendered);
  assert.ok(rendered.includes("<|tool_response_start|>sunny<|tool_response_end|>"));
  const form = { format: detectCallFormat(LFM2), functions: FUNCTIONS, isIgnored: false };
  const [{ toolCalls: [read] }] = new AnswerParser({ calls: form }).push(call) as [AnswerDelta];
  assert.deepEqual(JSON.parse(read!.arguments), { city: "Paris", days: 2 });
});

const QWEN3 = fileURLToPath(
  new URL("../../../../../shared/tokenizers/qwen3/chat_template.jinja", import.meta.url),
);

Deno.test({
  name: "Qwen3's own template renders tools, calls, results and thought" +
    unlessThere(existsSync(QWEN3), "tokenizers/qwen3", "a published template"),
  ignore: !existsSync(QWEN3),
  fn: () => {
    const source = readFileSync(QWEN3, "utf8");
    const rendered = render(source);
    assert.match(rendered, /<tools>\n\{"type": "function", "function": \{"name": "get_weather"/);
    assert.ok(
      rendered.includes(
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>',
      ),
      rendered,
    );
    assert.ok(rendered.includes("<tool_response>\nsunny\n</tool_response>"));
    assert.equal(detectCallFormat(source).name, "hermes");
    const markers = findReasoningMarkers(source)!;
    assert.deepEqual(markers, { open: "<think>", close: "</think>" });
    // This version of the template closes the thought itself.
    assert.equal(findReasoningState(rendered, { markers, continues: false }), "is_closed");
    const [, , assistant, result] = HISTORY;
    const thoughtful = [HISTORY[1]!, { ...assistant!, reasoning: "Let me look." }, result!];
    assert.ok(render(source, thoughtful).includes("<think>\nLet me look.\n</think>"));
  },
});
