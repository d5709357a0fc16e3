/**
 * Answers with real tokenizers: forced text is returned literally, and free text is what the tokens add to the prompt's
 * text. The decoders have random weights.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import type { Model } from "../../../src/models/model.ts";
import type { ChatEvent, ChatTask, GenerationOptions } from "../../../src/models/task.ts";
import { HearthError } from "../../../src/base/errors.ts";
import { openModel } from "../../fixtures/engine/model.ts";
import { makeTinyDecoder } from "../../fixtures/models/tiny_decoder.ts";
import { type RealTokenizer, realTokenizerTest } from "./real_tokenizers.ts";

const FAMILIES = [
  "Llama 3.1",
  "Llama 2",
  "DeepSeek V3",
  "Claude",
  "Qwen3",
  "SmolLM",
  "stories260k",
];

const FORCED = [
  "git add . && cd .. && ls ./src",
  " a != b ? c : d",
  "I 'm sure , they 're . do n't",
  "    return x",
  "中文 𩸽 😀",
  "x²½ <0x41> ▁▁",
];

const TEMPLATE = `{%- if tools %}<tools>{{ tools | tojson }}</tools>
For each call write <tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call>{% endif %}
{%- for message in messages %}
{{ message.role }}: {{ message.content }}{% if not loop.last %}
{% endif %}{%- endfor %}{% if add_generation_prompt %}
assistant:{% endif %}`;

async function withModel(
  { path, ours }: RealTokenizer,
  use: (model: Model) => Promise<void>,
): Promise<void> {
  const config = JSON.parse(await Deno.readTextFile(path.replace(".json", "_config.json")));
  const end = config.eos_token?.content ?? config.eos_token;
  await using tiny = await makeTinyDecoder({
    tokenizer: dirname(path),
    vocabSize: ours.numIds,
    givesHidden: false,
    contextLength: 1024,
    files: { "generation_config.json": { eos_token_id: ours.tokenToId(end) } },
  });
  await Deno.writeTextFile(`${tiny.folder}/chat_template.jinja`, TEMPLATE);
  await using model = await openModel(tiny.folder);
  await use(model);
}

interface Answer {
  readonly text: string;
  readonly echo: string;
  readonly calls: string;
  /** Text of the tokens' bytes in the log-probabilities. */
  readonly logprobText: string;
}

/** The answer to a message, or to the prompt in `task`. */
async function answer(
  model: Model,
  { options, ...task }: Partial<Omit<ChatTask, "options">> & {
    readonly options?: Partial<GenerationOptions>;
  },
): Promise<Answer> {
  const events: ChatEvent[] = [];
  await new Promise<void>((resolve, reject) =>
    model.start({
      type: "chat",
      requestId: "test",
      messages: [{ role: "user", content: "x" }],
      ...task,
      options: { stop: [], n: 1, seed: 3, maxTokens: 300, topLogprobs: 0, ...options },
    }, (event) => {
      events.push(event as ChatEvent);
      if (event.type === "done") resolve();
      if (event.type === "error") reject(HearthError.fromWire(event.error));
      return Promise.resolve();
    })
  );
  const deltas = events.filter((event) => event.type === "delta");
  const bytes = deltas.flatMap(({ logprobs = [] }) => logprobs.flatMap(({ bytes }) => bytes));
  return {
    text: deltas.map(({ text }) => text).join(""),
    echo: events.find((event) => event.type === "start")?.text ?? "",
    calls: deltas.flatMap(({ toolCalls = [] }) => toolCalls.map((call) => call.arguments)).join(""),
    logprobText: new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes)),
  };
}

realTokenizerTest("forced text is returned literally", async (tokenizer) => {
  await withModel(tokenizer, async (model) => {
    for (const [number, forced] of FORCED.entries()) {
      const grammar = { kind: "choice", choices: [forced] } as const;
      const chosen = await answer(model, { grammar });
      assert.equal(chosen.text, forced);
      assert.equal(chosen.logprobText, forced);

      // As JSON, alternating between an answer and a call: both write the same string.
      if (number % 2 === 0) {
        const schema = { enum: [forced] };
        const json = { kind: "json_schema", schema, param: "schema" } as const;
        assert.equal(JSON.parse((await answer(model, { grammar: json })).text), forced);
        continue;
      }
      const parameters = {
        type: "object",
        properties: { command: { const: forced } },
        required: ["command"],
        additionalProperties: false,
      };
      const functions = [{ name: "run", parameters }];
      const { calls } = await answer(model, {
        tools: { functions, choice: { name: "run" }, isParallel: false },
      });
      assert.deepEqual(JSON.parse(calls), { command: forced });
    }
    const grammar = { kind: "choice", choices: ["git add . && cd .. && ls"] } as const;
    const stopped = await answer(model, { grammar, options: { stop: [" . &&"] } });
    assert.equal(stopped.text, "git add");
  });
}, { only: FAMILIES });

realTokenizerTest(
  "free text is what its tokens add to the prompt's text",
  async (tokenizer) => {
    const { ours, rust } = tokenizer;
    const prompt = "Once upon a time, there was a little";
    const [word] = ours.encode(" girl").slice(-1);
    const options = { logitBias: [[word!, 1e4]], temperature: 0, maxTokens: 3 } as const;
    const added = await rust.decodeAfter(await rust.encode(prompt, true), Array(3).fill(word));
    await withModel(tokenizer, async (model) => {
      const completed = await answer(model, { messages: [], raw: { prompt, echo: true }, options });
      assert.equal(completed.text, added);
      assert.equal(completed.logprobText, added);
      assert.equal(completed.echo, prompt);
      const continued = await answer(model, {
        messages: [{ role: "user", content: "x" }, { role: "assistant", content: prompt }],
        prompt: { continuesFinalMessage: true, addsGenerationPrompt: false },
        options,
      });
      assert.equal(continued.text, added);
    });
  },
  { only: FAMILIES },
);
