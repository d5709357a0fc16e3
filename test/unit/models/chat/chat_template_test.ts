import assert from "node:assert/strict";
import { JsonText } from "../../../../src/jinja/template.ts";
import { ChatTemplate } from "../../../../src/models/text/chat/chat_template.ts";
import {
  makeRenderOptions,
  toTemplateMessages,
} from "../../../../src/models/text/chat/template_message.ts";
import {
  findReasoningMarkers,
  findReasoningState,
} from "../../../../src/models/text/chat/answer_format.ts";
import type { ChatMessage } from "../../../../src/models/task.ts";

function makeTemplate(source: string, name = "default"): ChatTemplate {
  return new ChatTemplate(new Map([[name, source]]), { bos_token: "<s>" });
}

const ROLES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
const ONE_SYSTEM =
  "{% if messages[0].role == 'system' %}[system]{{ messages[0].content }}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}" +
  "{% for m in rest %}{% if m.role == 'system' %}{{ raise_exception('one system message') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";

const CONVERSATION = [
  { role: "system", content: "A." },
  { role: "system", content: "B." },
  { role: "user", content: "Hi" },
] as const;

const FUNCTIONS = [{ name: "f", parameters: { type: "object", properties: {} } }];

Deno.test("ChatTemplate.render() merges leading system messages if the template refuses more than one", () => {
  assert.equal(makeTemplate(ROLES).render(CONVERSATION), "[system]A.[system]B.[user]Hi");
  assert.equal(makeTemplate(ONE_SYSTEM).render(CONVERSATION), "[system]A.\n\nB.[user]Hi");
  // A template that silently drops a message counts as one that refuses it.
  const first =
    "{{ messages[0].content }}{% for m in messages %}{% if m.role == 'user' %}[user]{{ m.content }}{% endif %}{% endfor %}";
  assert.equal(makeTemplate(first).render(CONVERSATION), "A.\n\nB.[user]Hi");
});

Deno.test("ChatTemplate.render() merges later system messages into the first if the template refuses them", () => {
  const [first, second, user] = CONVERSATION;
  for (const late of [[first, user, second], [user, first, second]]) {
    const shown = late.map(({ role, content }) => `[${role}]${content}`).join("");
    assert.equal(makeTemplate(ROLES).render(late), shown);
    assert.equal(makeTemplate(ONE_SYSTEM).render(late), "[system]A.\n\nB.[user]Hi");
  }
  assert.equal(
    makeTemplate(ONE_SYSTEM).render([first, second, user, first]),
    "[system]A.\n\nB.\n\nA.[user]Hi",
  );
});

Deno.test("ChatTemplate.render() merges consecutive turns of one role if the template refuses them", () => {
  const alternating =
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{{ m.content | map(attribute='type') | join('+') }}{% endif %}{% endfor %}";
  const say = (role: "user" | "assistant", content: string) => ({ role, content });
  const twice = [say("user", "A"), say("user", "B"), say("assistant", "C"), say("assistant", "D")];
  assert.equal(makeTemplate(ROLES).render(twice), "[user]A[user]B[assistant]C[assistant]D");
  assert.equal(makeTemplate(alternating).render(twice), "[user]A\n\nB[assistant]C\n\nD");
  const image = { role: "user" as const, content: [{ type: "image" }] };
  assert.equal(makeTemplate(alternating).render([twice[0]!, image]), "[user]text+image");
  assert.equal(
    makeTemplate(alternating).render(twice, { continuesFinalMessage: true }),
    "[user]A\n\nB[assistant]C\n\nD",
  );
  const called = {
    ...say("assistant", ""),
    tool_calls: [{
      id: "c",
      type: "function" as const,
      function: { name: "f", arguments: new JsonText("{}") },
    }],
  };
  assert.throws(() => makeTemplate(alternating).render([twice[0]!, called, called]), {
    kind: "invalid_value",
    message: /roles must alternate/,
  });
});

Deno.test("ChatTemplate.render() continues the final message like transformers", () => {
  const source = `${ROLES}</s>{% if add_generation_prompt %}[assistant]{% endif %}`;
  const begun = (content: string) => [CONVERSATION[2], { role: "assistant" as const, content }];
  const go = (content: string, template = source) =>
    makeTemplate(template).render(begun(content), { continuesFinalMessage: true });
  assert.equal(go("Hello"), "[user]Hi[assistant]Hello");
  assert.equal(go("Hello "), "[user]Hi[assistant]Hello ");
  assert.equal(
    go("Hello ", source.replace("m.content", "m.content | trim")),
    "[user]Hi[assistant]Hello",
  );
  assert.equal(go(""), "[user]Hi[assistant]");
  // What follows a message may contain its text.
  for (const content of ["s", "</s>", "/"]) {
    assert.equal(go(content), `[user]Hi[assistant]${content}`);
  }
  const parts = [{ type: "text", text: "s" }, { type: "image" }];
  const shown = source.replace("m.content", "m.content | map(attribute='text') | join");
  assert.equal(
    makeTemplate(shown).render([{ role: "assistant", content: parts }], {
      continuesFinalMessage: true,
    }),
    "[assistant]s",
  );
  const dropped = source.replace("m.content", "m.content[:2]");
  for (const wrong of [() => go("Hello", dropped), () => go("Hello", "{{ messages[-1].role }}")]) {
    assert.throws(wrong, { kind: "invalid_value", param: "continuesFinalMessage" });
  }
});

Deno.test("ChatTemplate.takesTools detects whether the template renders tools", () => {
  assert.equal(makeTemplate(ROLES).takesTools, false);
  assert.equal(makeTemplate(`{{ tools | tojson }}${ROLES}`).takesTools, true);
  assert.equal(
    makeTemplate(`{% if xml_tools %}{{ xml_tools | tojson }}{% endif %}`).takesTools,
    true,
  );
  const phi =
    "{% for message in messages %}{% if 'tools' in message %}<|tool|>{{ message['tools'] }}<|/tool|>{% endif %}{{ message.content }}{% endfor %}";
  assert.equal(makeTemplate(phi).takesTools, true);
  const rendered = makeTemplate(phi).render([CONVERSATION[2]], { functions: FUNCTIONS });
  assert.equal(
    rendered,
    `<|tool|>[{"name":"f","parameters":{"type":"object","properties":{}}}]<|/tool|>Hi`,
  );
  const named = new ChatTemplate(
    new Map([["default", ROLES], ["tool_use", "{{ tools | tojson }}"]]),
  );
  assert.equal(named.takesTools, true);
  assert.equal(named.render([CONVERSATION[2]]), "[user]Hi");
});

Deno.test("makeRenderOptions() refuses tools if the template does not render them", () => {
  const template = makeTemplate(ROLES);
  const tools = { functions: FUNCTIONS, choice: "auto", isParallel: true } as const;
  const base = { type: "chat", requestId: "x", options: { stop: [], n: 1 } } as const;
  const user: ChatMessage = { role: "user", content: "Hi" };
  for (
    const task of [
      { ...base, messages: [user], tools },
      { ...base, messages: [user, { role: "tool", content: "x" } as const] },
    ]
  ) {
    assert.throws(() => makeRenderOptions(task, template), { kind: "unsupported_by_model" });
    assert.throws(() => makeRenderOptions(task, undefined), { kind: "unsupported_by_model" });
  }
  const none = { ...base, messages: [user], tools: { ...tools, choice: "none" } as const };
  assert.deepEqual(makeRenderOptions(none, template).functions, []);
});

Deno.test("ChatTemplate.render() sets enable_thinking and reasoning_effort from the requested effort", () => {
  const source = "{{ enable_thinking }},{{ reasoning_effort }}";
  const of = (reasoningEffort: string | undefined, variables = {}) =>
    makeTemplate(source).render([CONVERSATION[2]], { reasoningEffort, variables });
  assert.equal(of("none"), "False,");
  assert.equal(of("high"), "True,high");
  assert.equal(of("high", { enable_thinking: false }), "False,high");
});

Deno.test("toTemplateMessages() passes arguments as objects, and tool messages with the name of their call", () => {
  const messages: ChatMessage[] = [
    {
      role: "assistant",
      content: "",
      reasoning: "Hm.",
      toolCalls: [
        { id: "1", name: "f", arguments: '{"a": [1]}' },
        { id: "2", name: "g", arguments: '{"a": ' },
        { id: "3", name: "h", arguments: "" },
      ],
    },
    { role: "tool", content: "x", toolCallId: "2" },
  ];
  const [assistant, tool] = toTemplateMessages(messages, ({ content }) => content as string);
  const rendered = makeTemplate(
    "{% for c in messages[0].tool_calls %}{{ c.function.name }}={{ c.function.arguments }};{% endfor %}",
  ).render([assistant!]);
  assert.equal(rendered, `f={'a': [1]};g={"a": ;h={};`);
  assert.equal(assistant!.reasoning_content, "Hm.");
  assert.deepEqual(tool, { role: "tool", content: "x", name: "g", tool_call_id: "2" });
});

Deno.test("findReasoningState() detects whether the prompt ends inside a thought", () => {
  const markers = findReasoningMarkers("... '</think>' in content ...")!;
  assert.deepEqual(markers, { open: "<think>", close: "</think>" });
  const state = (prompt: string, continues = false) =>
    findReasoningState(prompt, { markers, continues });
  assert.equal(state("<|assistant|>\n"), "may_open");
  assert.equal(state("<|assistant|>\n<think>\n"), "is_open");
  assert.equal(state("<|assistant|>\n<think>\n\n</think>\n\n"), "is_closed");
  assert.equal(state("<|assistant|><think>I wonder", true), "is_open");
  assert.equal(state("<|assistant|>The", true), "is_closed");
  assert.equal(findReasoningMarkers("{{ messages }}"), undefined);
});

Deno.test("ChatTemplate.render() stops an endless template with an error of the request", () => {
  const endless =
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}";
  const doubling =
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x * 2 %}{% endfor %}";
  for (const source of [endless, doubling, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"]) {
    assert.throws(() => makeTemplate(source).render([CONVERSATION[2]]), {
      kind: "invalid_value",
      message: /^The model's chat template refused these messages: it /,
    });
  }
});

Deno.test("ChatTemplate.render() keeps numbers and keys as written, like Python's JSON", () => {
  const source = "{% for t in tools %}{{ t.function.parameters | tojson }}{% endfor %}" +
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}" +
    "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}{{ scale }}";
  const json =
    '{"x": 1.0, "y": 1e-7, "10": null, "2": 12345678901234567890, "z": 1e2, "all": true}';
  const call: ChatMessage = {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "1", name: "f", arguments: json }],
  };
  const rendered = makeTemplate(source).render(
    toTemplateMessages([call], ({ content }) => content as string),
    {
      functions: [{ name: "f", parameters: JSON.parse(json), parametersJson: json }],
      variables: { scale: 2 },
      variablesJson: '{"scale": 2.0}',
    },
  );
  // The result of json.dumps(json.loads(…)).
  const python =
    '{"x": 1.0, "y": 1e-07, "10": null, "2": 12345678901234567890, "z": 100.0, "all": true}';
  assert.equal(
    rendered,
    `${python}${python}x=1.0;y=1e-07;10=None;2=12345678901234567890;z=100.0;all=True;2.0`,
  );
});

Deno.test("ChatTemplate.render() reads string escapes like Python's Jinja", () => {
  const source = String.raw`{# "\q" #}{{ "a\
b" }}|{{ 'c\d\U0001f600\u00e9\x41\101\0\a\"\'\\n' }}|{{ "%}" }}|{{ "}}\d" }}\
{%- set x = {"k": "v\w"} %}{{ x.k }}`;
  // The output of Jinja 3.1.
  assert.equal(
    makeTemplate(source).render([CONVERSATION[2]]),
    "ab|c\\d\u{1f600}\u00e9AA\x00\x07\"'\\n|%}|}}\\d\\v\\w",
  );
});
