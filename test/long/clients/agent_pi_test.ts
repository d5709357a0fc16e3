/**
 * A command-line agent as its users run it, in its own process: pi (`@mariozechner/pi-coding-agent`), which supports
 * three families of the API. It is not a dependency, because it contains 200 MB of other providers' clients; it is
 * tested if Deno's cache contains it:
 *
 *     deno cache --no-lock --no-config npm:@mariozechner/pi-coding-agent@0.73.1
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";
import {
  answerWeather,
  askWeather,
  TOOLS,
  WEATHER_ANSWER,
} from "../../fixtures/servers/weather.ts";

const AGENT = "npm:@mariozechner/pi-coding-agent@0.73.1";
const RUN = ["run", "-A", "--no-lock", "--no-config", "--cached-only", "--quiet", AGENT];
/** Pi's names of the API families, and the path that each adds to the server's address. */
const FAMILIES = {
  "openai-completions": "/v1",
  "openai-responses": "/v1",
  "anthropic-messages": "",
} as const;

/** Deno's package cache, which does not depend on the agent's home directory. */
const CACHE = JSON.parse(await getOutput(["info", "--json"], {})).denoDir as string;
const IS_THERE = await getOutput([...RUN, "--version"], { DENO_DIR: CACHE }).then(
  () => true,
  () => false,
);

async function getOutput(args: string[], env: Record<string, string>, cwd?: string) {
  const command = new Deno.Command(Deno.execPath(), {
    args,
    env,
    ...(cwd !== undefined && { cwd }),
    stdin: "null",
    signal: AbortSignal.timeout(60_000),
  });
  const { success, stdout, stderr } = await command.output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (!success) throw new Error(`deno ${args.join(" ")}: ${out}${err}`);
  return out!;
}

/** An agent's home: the server as a provider in each family, and a tool instead of the agent's own tools. */
async function makeHome(base: string): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.makeTempDir({ prefix: "hearth-agent-" });
  await Deno.mkdir(join(path, ".pi/agent"), { recursive: true });
  const model = { id: MODEL, contextWindow: 2048, maxTokens: 128 };
  const providers = Object.fromEntries(
    Object.entries(FAMILIES).map(([api, suffix]) => [
      api,
      { api, baseUrl: base + suffix, apiKey: "none", models: [model] },
    ]),
  );
  await Deno.writeTextFile(join(path, ".pi/agent/models.json"), JSON.stringify({ providers }));
  const { name, description, parameters } = TOOLS[0]!.function;
  const tool = JSON.stringify({ name, label: name, description, parameters });
  const content = JSON.stringify([{ type: "text", text: answerWeather({ city: "" }) }]);
  await Deno.writeTextFile(
    join(path, "weather.js"),
    `export default (pi) => pi.registerTool({
      ...${tool},
      execute: async () => ({ content: ${content}, details: {} }),
    });`,
  );
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

for (const api of Object.keys(FAMILIES)) {
  Deno.test({
    name: `pi, a command-line agent, answers with text and calls a tool (${api})`,
    ignore: !IS_THERE,
    fn: async () => {
      await using server = await TestServer.start();
      await using home = await makeHome(server.base);
      const ask = (prompt: string, ...options: string[]) =>
        getOutput(
          [
            ...RUN,
            // Pi's default prompt and tools are longer than the demo model's context.
            ...["-p", "--offline", "--no-session", "--no-skills", "--no-context-files"],
            ...["--provider", api, "--model", MODEL, "--system-prompt", "You are helpful."],
            ...options,
            prompt,
          ],
          { DENO_DIR: CACHE, HOME: home.path, PI_CODING_AGENT_DIR: join(home.path, ".pi/agent") },
          home.path,
        );
      const text = await ask("What is the capital of France?", "--no-tools");
      assert.match(text, /Paris/);
      const tool = ["--no-builtin-tools", "--extension", join(home.path, "weather.js")];
      assert.equal((await ask(askWeather.content, ...tool)).trim(), WEATHER_ANSWER);
      const events = (await ask(askWeather.content, "--mode", "json", ...tool)).trim().split("\n")
        .map((line) => JSON.parse(line));
      const ends = events.filter(({ type }) => type === "tool_execution_end");
      assert.deepEqual(ends.map(({ toolName, isError }) => [toolName, isError]), [
        ["get_weather", false],
      ]);
    },
  });
}
