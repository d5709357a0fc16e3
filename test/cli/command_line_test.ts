import assert from "node:assert/strict";
import manifest from "../../deno.json" with { type: "json" };
import { COMMANDS } from "../../src/cli/command_line.ts";
import { toEnvironmentName, toFlagName } from "../../src/cli/command.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";

Deno.test("--help after a command shows each of its flags with its environment variable, and exits 0", async () => {
  for (const { name, flags } of COMMANDS) {
    const { code, stdout, stderr } = await runHearth([name, "--help"]);
    assert.equal(code, 0);
    assert.equal(stderr, "");
    for (const key of Object.keys(flags)) {
      assert.ok(stdout.includes(toFlagName(key)), `${name} ${key}`);
      assert.ok(stdout.includes(toEnvironmentName(key)), `${name} ${key}`);
    }
  }
});

Deno.test("hearth -h prints the help of serve, with the list of commands", async () => {
  const { code, stdout } = await runHearth(["-h"]);
  assert.equal(code, 0);
  assert.equal(stdout, (await runHearth(["serve", "--help"])).stdout);
  for (const { name, summary } of COMMANDS) {
    assert.match(stdout, new RegExp(`^ {2}${name} +${summary.slice(0, 10)}`, "m"));
  }
});

Deno.test("hearth run --help says what each kind of model takes", async () => {
  const help = (await runHearth(["run", "--help"])).stdout.replace(/\s+/g, " ");
  for (
    const part of [
      "text model answers all inputs together",
      "embedding model turns each into a vector",
      "reranker takes a query and documents",
      "speech model takes recordings",
      "speech synthesis model takes texts",
      "vision model takes images and texts",
      "OCR model reads each image",
      "background-removal model cuts out the subject of each image",
    ]
  ) assert.ok(help.includes(part), part);
});

Deno.test("hearth --version prints the version of deno.json and exits 0", async () => {
  const { code, stdout, stderr } = await runHearth(["--version"]);
  assert.deepEqual({ code, stdout, stderr }, {
    code: 0,
    stdout: `hearth ${manifest.version}\n`,
    stderr: "",
  });
});

Deno.test("hearth with an unknown flag names the nearest one and exits 2", async () => {
  const { code, stdout, stderr } = await runHearth(["--prot", "10101"]);
  assert.deepEqual({ code, stdout, stderr }, {
    code: 2,
    stdout: "",
    stderr: "hearth: There is no flag --prot. Did you mean --port?\n",
  });
});

Deno.test("hearth with a bad value in the environment names the variable and exits 2", async () => {
  const { code, stderr } = await runHearth([], { env: { HEARTH_PORT: "many" } });
  assert.equal(code, 2);
  assert.equal(
    stderr,
    'hearth: HEARTH_PORT wants a whole number from 0 to 65535, got "many".\n',
  );
});

Deno.test("hearth -m with an unknown model says what was looked for and where, and exits 1", async () => {
  const cache = await Deno.makeTempDir();
  try {
    const { code, stdout, stderr } = await runHearth(["-m", "qwen3-0.6"], {
      env: { HF_HUB_CACHE: cache },
    });
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(stderr, /^hearth: There is no model "qwen3-0\.6" on this machine\. Looked for:\n/);
    assert.match(stderr, /Similar names: qwen3-0\.6b/);
    assert.doesNotMatch(stderr, / {4}at /);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
});

Deno.test("hearth inspect takes a model by name and a graph by path, and prints JSON when asked", async () => {
  const named = await runHearth(["inspect", "hearth-demo-chat"]);
  assert.equal(named.code, 0, named.stderr);
  assert.match(named.stdout, /onnx\/model\.onnx: cut into/);
  const graph = "models/hearth-demo-chat/onnx/model_q4.onnx";
  const { code, stdout } = await runHearth(["inspect", graph, "--json"]);
  assert.equal(code, 0);
  assert.equal(JSON.parse(stdout).length, 1);
  const missing = await runHearth(["inspect", "nowhere/model.onnx"]);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /^hearth: There is no file .*nowhere\/model\.onnx\.\n$/);
});

Deno.test("hearth reports an error of the system in one line, and exits 1", async () => {
  const file = await Deno.makeTempFile({ prefix: "hearth-no-folder-" });
  try {
    const { code, stderr } = await runHearth(["rm", "ada/model"], { env: { HF_HOME: file } });
    assert.equal(code, 1);
    assert.match(stderr, /^hearth: [^\n]*\(os error \d+\)[^\n]*\n$/);
    assert.ok(stderr.includes(file), stderr);
  } finally {
    await Deno.remove(file);
  }
});
