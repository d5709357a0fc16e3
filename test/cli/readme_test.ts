/** Runs the README's first examples as written, except for the port. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const README = await Deno.readTextFile(`${ROOT}README.md`);
const START = /^deno run -A main\.ts(?: -m (\S+))?$/;

/** What the README's commands must print or write. The pattern matches the command for which the check is. */
const WANTED: readonly (readonly [RegExp, (output: Uint8Array) => boolean])[] = [
  [/capital of France/, saying(/Paris/)],
  [/circle\.png/, saying(/A red circle on a white background\./)],
  [/receipt\.png/, saying(/Tea for two\nTotal: 7\.50\nThank you!/)],
  [/remove_background/, (output) => new TextDecoder().decode(output.subarray(1, 4)) === "PNG"],
  [/embeddings/, saying(/"embedding":\[-?0\.\d/)],
  [/rerank/, saying(/"index":0,"relevance_score":0\./)],
  [/timer\.mp3/, saying(/Set a timer for ten minutes\./)],
  // An MP3 begins with a tag, or with its first frame.
  [/audio\/speech/, (output) => output.length > 3000 && (output[0] === 0xff || output[0] === 0x49)],
];

function saying(form: RegExp): (output: Uint8Array) => boolean {
  return (output) => form.test(new TextDecoder().decode(output));
}

interface Example {
  /** The model to serve: `undefined` for the default, absent if the command needs no server. */
  readonly model?: string | undefined;
  readonly needsServer: boolean;
  readonly command: string;
}

/** The commands in the shell blocks below "First answers", each with the server that an earlier line starts. */
function readExamples(): Example[] {
  const section = README.slice(
    README.indexOf("## First answers"),
    README.indexOf("## How it works"),
  );
  const examples: Example[] = [];
  for (const [, block] of section.matchAll(/```sh\n([\s\S]*?)```/g)) {
    let server: { readonly model: string | undefined } | undefined;
    // A command ends where the next begins.
    for (const command of block!.split(/\n(?=(?:deno|curl) )/)) {
      const start = START.exec(command.trim());
      if (start) server = { model: start[1] };
      else if (command.startsWith("curl")) {
        assert.ok(server, `no server before ${command}`);
        examples.push({ ...server, needsServer: true, command });
      } else examples.push({ needsServer: false, command });
    }
  }
  return examples;
}

/** Runs a command in the repository's root, without its `-o FILE`, and returns its output. */
async function runShell(command: string): Promise<Uint8Array> {
  const { stdout } = await new Deno.Command("bash", {
    args: ["-c", command.trim().replace(/ -o \S+$/, "").replace(/^curl/, "curl -s")],
    cwd: ROOT,
    env: { HEARTH_DEVICE: "cpu" },
  }).output();
  return stdout;
}

const examples = readExamples();

Deno.test('every kind of model has an example in the README section "First answers"', () => {
  for (const [form] of WANTED) {
    assert.equal(examples.filter(({ command }) => form.test(command)).length, 1, `${form}`);
  }
  assert.equal(examples.length, WANTED.length);
});

for (const { model, needsServer, command } of examples) {
  const [first] = command.split("\n");
  Deno.test(`README: ${model ?? ""} ${first!.slice(0, 70)}`, async () => {
    const check = WANTED.find(([form]) => form.test(command))![1];
    if (!needsServer) return assert.ok(check(await runShell(command)));
    const named = model === undefined ? [] : ["-m", model];
    await using hearth = new HearthProcess([...named, "--device", "cpu", "-p", "0"]);
    const base = await hearth.ready();
    const output = await runShell(command.replaceAll("http://127.0.0.1:10100", base));
    assert.ok(check(output), new TextDecoder().decode(output.subarray(0, 400)));
  });
}
