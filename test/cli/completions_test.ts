import assert from "node:assert/strict";
import { COMMANDS } from "../../src/cli/command_line.ts";
import { toFlagName } from "../../src/cli/command.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";

const SHELLS = ["bash", "zsh", "fish", "powershell"];
const SYNTAX_CHECKS: Readonly<Record<string, readonly string[]>> = {
  bash: ["-n"],
  zsh: ["-n"],
  fish: ["--no-execute"],
};

async function printScript(shell: string): Promise<string> {
  const { code, stdout, stderr } = await runHearth(["completions", shell]);
  assert.equal(code, 0, stderr);
  return stdout;
}

async function hasShell(name: string): Promise<boolean> {
  try {
    return (await new Deno.Command(name, { args: ["--version"], stdout: "null" }).output()).success;
  } catch {
    return false;
  }
}

/** The completions that bash offers for the last word of a command line. */
async function completeInBash(script: string, words: readonly string[]): Promise<string[]> {
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const program = `${script}
COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}
_hearth; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = await new Deno.Command("bash", { args: ["-c", program] }).output();
  assert.equal(new TextDecoder().decode(stderr), "");
  return new TextDecoder().decode(stdout).trim().split("\n");
}

for (const shell of SHELLS) {
  Deno.test(`completions ${shell} contains every command and every flag`, async () => {
    const script = await printScript(shell);
    for (const { name, flags } of COMMANDS) {
      assert.ok(script.includes(name), name);
      for (const key of Object.keys(flags)) assert.ok(script.includes(toFlagName(key)), key);
    }
    assert.ok(script.includes("qwen3-0.6b"));
  });

  // Lets the shell check the syntax, which PowerShell cannot do.
  const check = SYNTAX_CHECKS[shell];
  if (check === undefined) continue;
  Deno.test({
    name: `completions ${shell} is a script that the shell parses without errors`,
    ignore: !await hasShell(shell),
    fn: async () => {
      const path = await Deno.makeTempFile();
      await Deno.writeTextFile(path, await printScript(shell));
      const { success, stderr } = await new Deno.Command(shell, { args: [...check, path] })
        .output();
      assert.ok(success, new TextDecoder().decode(stderr));
      await Deno.remove(path);
    },
  });
}

Deno.test({
  name: "completions bash completes commands, flags, values of flags, and models",
  ignore: !await hasShell("bash"),
  fn: async () => {
    const script = await printScript("bash");
    assert.deepEqual(await completeInBash(script, ["hearth", "pu"]), ["pull"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "--dev"]), ["--device"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "--device", "w"]), ["webgpu"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "-m", "qwen3-1"]), ["qwen3-1.7b"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "pull", "whisper-b"]), [
      "whisper-base",
    ]);
    assert.deepEqual(await completeInBash(script, ["hearth", "rm", "x", "--y"]), ["--yes"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "completions", "f"]), ["fish"]);
    assert.deepEqual(await completeInBash(script, ["hearth", "run", "x", "-o", "LICEN"]), [
      "LICENSE",
    ]);
  },
});

Deno.test({
  name: "completions fish completes commands, flags, values of flags, and models",
  ignore: !await hasShell("fish"),
  fn: async () => {
    const path = await Deno.makeTempFile();
    await Deno.writeTextFile(path, await printScript("fish"));
    const lines = ["hearth pu", "hearth --device w", "hearth pull whisper-b", "hearth rm x --y"];
    const program = [`source ${path}`, ...lines.map((line) => `complete -C "${line}"`)].join("; ");
    const { stdout } = await new Deno.Command("fish", { args: ["-c", program] }).output();
    const offered = new TextDecoder().decode(stdout).trim().split("\n");
    assert.deepEqual(offered.map((line) => line.split("\t")[0]), [
      "pull",
      "webgpu",
      "whisper-base",
      "--yes",
    ]);
    await Deno.remove(path);
  },
});

Deno.test("completions of an unknown shell names the supported shells and exits 2", async () => {
  const { code, stderr } = await runHearth(["completions", "tcsh"]);
  assert.equal(code, 2);
  assert.match(stderr, /wants one of bash, zsh, fish, powershell, got "tcsh"/);
});
