/**
 * Command-line agents as their users run them, each in its own process and home directory, with their default prompts
 * and tools. The model has random weights: `tool_choice` makes its first answer a call of one of the agent's tools, and
 * its next one is any text. The agents are not dependencies, because they contain gigabytes; they are tested if they
 * are installed in one folder whose name is given:
 *
 *     npm install --prefix /tmp/agents @openai/codex@0.171.0 opencode-ai@1.18.33   # or any other of cli_agents.ts
 *     HEARTH_TEST_AGENTS=/tmp/agents deno test -A test/long/clients/cli_agents_test.ts
 *
 * @module
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Forwarder } from "../../fixtures/servers/forwarder.ts";
import { TestServer } from "../../fixtures/servers/server.ts";
import { readStrictly } from "../../fixtures/servers/sse.ts";
import { makeTinyDecoder } from "../../fixtures/models/tiny_decoder.ts";
import { CLI_AGENTS, type CliAgent, type Where } from "./cli_agents.ts";

const INSTALLED = Deno.env.get("HEARTH_TEST_AGENTS");
const DEMO = fileURLToPath(new URL("../../../models/hearth-demo-chat", import.meta.url));
const MODEL = "twin";
const NOTE = "The kettle is blue and holds nine cups.";

/** A model of random weights with the demo's tokens, and a context that is large enough for any agent. */
function makeTwin() {
  const { vocab_size: vocabSize } = JSON.parse(Deno.readTextFileSync(join(DEMO, "config.json")));
  // Every eighth token ends an answer, so that answers are short. Tokens of single bytes and for chat do not.
  const ends = Array.from({ length: vocabSize / 8 - 64 }, (_, i) => 256 + i * 8);
  return makeTinyDecoder({
    ...{ tokenizer: DEMO, vocabSize, givesHidden: false, contextLength: 131_072 },
    files: { "generation_config.json": { do_sample: true, eos_token_id: [2041, ...ends] } },
  });
}

type Json = Record<string, unknown>;

/** Makes the first answer a call of the agent's tool with these arguments. */
function forceCall({ tool, toolArguments }: CliAgent, file: string) {
  const wanted = {
    type: "object",
    properties: Object.fromEntries(
      Object.entries(toolArguments(file)).map(([name, value]) => [name, { const: value }]),
    ),
    required: Object.keys(toolArguments(file)),
    additionalProperties: false,
  };
  return (request: Json, path: string): Json => {
    // Greedy answers of random weights repeat endlessly.
    const body = "temperature" in request ? { ...request, temperature: 1 } : request;
    const tools = (body["tools"] ?? []) as { function?: Json; name?: string }[];
    const isOffered = tools.some((each) => (each.function?.["name"] ?? each.name) === tool);
    if (!isOffered || JSON.stringify(body).includes(NOTE)) return body;
    const isChat = path.endsWith("/chat/completions");
    const schema = path.endsWith("/messages") ? "input_schema" : "parameters";
    const bind = (each: Json) => each["name"] === tool ? { ...each, [schema]: wanted } : each;
    return {
      ...body,
      tools: tools.map((each) => isChat ? { ...each, function: bind(each.function!) } : bind(each)),
      tool_choice: isChat
        ? { type: "function", function: { name: tool } }
        : { type: path.endsWith("/messages") ? "tool" : "function", name: tool },
    };
  };
}

/** Runs the agent in `home`. @returns what it printed. */
async function ask(agent: CliAgent, where: Where, home: string, prompt: string): Promise<string> {
  for (const [path, content] of Object.entries(agent.files?.(where) ?? {})) {
    await Deno.mkdir(dirname(join(home, path)), { recursive: true });
    await Deno.writeTextFile(join(home, path), JSON.stringify(content));
  }
  let printed = "";
  for (const args of agent.arguments(where, prompt)) {
    const { code, stdout, stderr } = await new Deno.Command(
      join(INSTALLED!, "node_modules/.bin", agent.program),
      {
        ...{ args: [...args], cwd: home, clearEnv: true, stdin: "null" },
        env: { PATH: Deno.env.get("PATH")!, HOME: home, ...agent.environment?.(where) },
        signal: AbortSignal.timeout(240_000),
      },
    ).output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.equal(code, 0, `${agent.program} ${args.join(" ")}: ${out}${err}`);
    printed = out!;
  }
  return printed;
}

/** The text of an answer in events of any family. */
function spokenText(events: string): string {
  const deltas = readStrictly(events).map((event) =>
    event.choices?.[0]?.delta.content ?? event.delta?.text ??
      (event.type === "response.output_text.delta" ? event.delta : "")
  );
  return deltas.join("");
}

/** Keeps only letters: agents colour, wrap and format their output. */
function getLetters(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/\x1b\[[\d;]*m/g, "").replaceAll(/[^a-z]/gi, "");
}

for (const agent of CLI_AGENTS) {
  const program = join(INSTALLED ?? "", "node_modules/.bin", agent.program);
  Deno.test({
    name: `${agent.package}: calls its tool and answers (HEARTH_TEST_AGENTS)`,
    ignore: INSTALLED === undefined || !existsSync(program),
    fn: async () => {
      await using twin = await makeTwin();
      await using server = await TestServer.start({ folder: twin.folder, model: MODEL });
      const home = await Deno.makeTempDir({ prefix: "hearth-agent-" });
      const note = join(home, "note.txt");
      await Deno.writeTextFile(note, NOTE);
      await using forwarder = new Forwarder(server.base, forceCall(agent, note));
      try {
        const where = { base: forwarder.base, model: MODEL };
        const printed = await ask(agent, where, home, "Which colour is the kettle of note.txt?");
        const posts = forwarder.exchanges.filter(({ method }) => method === "POST");
        assert.deepEqual(posts.map(({ status }) => status), posts.map(() => 200));
        const withResult = posts.filter(({ body }) => JSON.stringify(body).includes(NOTE));
        assert.ok(withResult.length > 0, "the tool's result was sent");
        const answer = spokenText(await withResult.at(-1)!.answer);
        assert.ok(getLetters(printed).includes(getLetters(answer)), `${printed} has ${answer}`);
      } finally {
        await Deno.remove(home, { recursive: true });
      }
    },
  });
}
