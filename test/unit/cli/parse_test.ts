import assert from "node:assert/strict";
import {
  choice,
  type Command,
  defineCommand,
  integer,
  list,
  text,
  toggle,
  UsageError,
} from "../../../src/cli/command.ts";
import { RUN_FLAGS, SERVE_FLAGS } from "../../../src/cli/flags.ts";
import { COMMANDS } from "../../../src/cli/command_line.ts";
import { chooseCommand, parseCall } from "../../../src/cli/parse.ts";

const BAKE = defineCommand({
  name: "bake",
  alias: "oven",
  summary: "Bake.",
  operands: ["<cake>"],
  flags: {
    recipe: text({ short: "r", placeholder: "<file>", help: "" }),
    oven: choice({ values: ["gas", "electric"], fallback: "gas", help: "" }),
    maxMinutes: integer({
      short: "x",
      placeholder: "<n>",
      min: 1,
      max: 90,
      fallback: 45,
      help: "",
    }),
    glaze: list({ placeholder: "<colour>", help: "", parseItem: (item) => item.toUpperCase() }),
    dryRun: toggle({ short: "d", help: "" }),
    keepWarm: toggle({ help: "", fallback: true }),
  },
  run: () => Promise.resolve(0),
});

const SERVE = defineCommand({
  name: "serve",
  summary: "Serve.",
  operands: [],
  flags: SERVE_FLAGS,
  run: () => Promise.resolve(0),
});

const RUN = defineCommand({
  name: "run",
  summary: "Run.",
  operands: ["<model>", "[prompt]"],
  flags: RUN_FLAGS,
  run: () => Promise.resolve(0),
});

function parse(words: string[], environment: Record<string, string> = {}): unknown {
  return parseCall(BAKE, words, environment);
}

function usage(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error));
    return error.message;
  }
  return assert.fail("It was accepted.");
}

const DEFAULTS = {
  recipe: undefined,
  oven: "gas",
  maxMinutes: 45,
  glaze: [],
  dryRun: false,
  keepWarm: true,
};

Deno.test("parseCall() fills in every default", () => {
  assert.deepEqual(parse(["lemon"]), { flags: DEFAULTS, operands: ["lemon"] });
});

Deno.test("parseCall() reads long, short, attached and joined forms, before and after operands", () => {
  const flags = { ...DEFAULTS, recipe: "a.txt", oven: "electric", maxMinutes: 30, dryRun: true };
  const forms = [
    ["--recipe", "a.txt", "--oven", "electric", "--max-minutes", "30", "--dry-run", "lemon"],
    ["lemon", "-r", "a.txt", "--oven=electric", "-x30", "-d"],
    ["-dra.txt", "--oven=electric", "--max-minutes=30", "--", "lemon"],
  ];
  for (const words of forms) assert.deepEqual(parse(words), { flags, operands: ["lemon"] });
});

Deno.test("parseCall() reads the environment, and lets the command line override it", () => {
  const environment = {
    HEARTH_RECIPE: "b.txt",
    HEARTH_MAX_MINUTES: "10",
    HEARTH_GLAZE: "red, blue",
    HEARTH_DRY_RUN: "true",
    HEARTH_KEEP_WARM: "0",
    UNRELATED: "x",
  };
  assert.deepEqual(parse(["lemon"], environment), {
    flags: {
      recipe: "b.txt",
      oven: "gas",
      maxMinutes: 10,
      glaze: ["RED", "BLUE"],
      dryRun: true,
      keepWarm: false,
    },
    operands: ["lemon"],
  });
  assert.deepEqual(
    parse(["lemon", "-x", "20", "--glaze", "green", "--no-dry-run", "--keep-warm"], environment),
    {
      flags: {
        recipe: "b.txt",
        oven: "gas",
        maxMinutes: 20,
        glaze: ["GREEN"],
        dryRun: false,
        keepWarm: true,
      },
      operands: ["lemon"],
    },
  );
});

Deno.test("parseCall() collects a list flag and uses the last value of others", () => {
  assert.deepEqual(parse(["lemon", "--glaze", "red", "-x", "1", "--glaze=blue,green", "-x", "2"]), {
    flags: { ...DEFAULTS, glaze: ["RED", "BLUE", "GREEN"], maxMinutes: 2 },
    operands: ["lemon"],
  });
});

Deno.test("parseCall() names the nearest flag for an unknown one", () => {
  assert.match(usage(() => parse(["--recpie", "x"])), /no flag --recpie\. Did you mean --recipe\?/);
  assert.match(usage(() => parse(["--max-minute=3"])), /Did you mean --max-minutes\?/);
  assert.match(usage(() => parse(["--volcano"])), /no flag --volcano\. See bake --help\./);
  assert.match(usage(() => parse(["-q"])), /no flag -q\./);
});

Deno.test("parseCall() refuses a value out of range, naming the value, the range and its source", () => {
  assert.equal(
    usage(() => parse(["lemon", "-x", "91"])),
    '-x wants a whole number from 1 to 90, got "91".',
  );
  for (const value of ["0", "1.5", "0x10", "1e1", "", "ten"]) {
    assert.match(usage(() => parse(["lemon", `--max-minutes=${value}`])), /^--max-minutes wants/);
  }
  assert.equal(
    usage(() => parse(["lemon"], { HEARTH_OVEN: "coal" })),
    'HEARTH_OVEN wants one of gas, electric, got "coal".',
  );
  assert.match(usage(() => parse(["lemon"], { HEARTH_DRY_RUN: "maybe" })), /^HEARTH_DRY_RUN wants/);
  assert.match(usage(() => parse(["lemon"], { HEARTH_RECIPE: "" })), /^HEARTH_RECIPE is empty/);
});

Deno.test("parseCall() refuses a missing value, a flag in its place, and an unexpected value", () => {
  assert.match(usage(() => parse(["lemon", "--recipe"])), /--recipe wants a value: <file>/);
  assert.match(usage(() => parse(["-r", "--dry-run"])), /got "--dry-run".*--recipe=--dry-run/);
  assert.match(usage(() => parse(["lemon", "--no-dry-run=1"])), /--no-dry-run takes no value/);
  assert.match(usage(() => parse(["lemon", "--no-recipe"])), /no flag --no-recipe/);
});

Deno.test("parseCall() requires as many operands as the command names", () => {
  assert.match(usage(() => parse([])), /bake wants <cake>\. See bake --help/);
  assert.match(usage(() => parse([" "])), /bake wants <cake>/);
  assert.match(usage(() => parse(["lemon", "plum"])), /bake takes no "plum"/);
  const extra = usage(() => parseCall(SERVE, ["-p", "1", "qwen3-0.6b"], {}));
  assert.match(extra, /to serve the model "qwen3-0\.6b", write -m qwen3-0\.6b/);
  const call = parseCall(RUN, ["some-model", "Tell me."], {});
  assert.ok(typeof call === "object");
  assert.deepEqual(call.operands, ["some-model", "Tell me."]);
  const asked = usage(() => parseCall(RUN, ["some-model", "Tell", "me"], {}));
  assert.match(asked, /^run takes no "me"; put a prompt of several words in quotes/);
});

Deno.test("parseCall() answers --help and --version despite other errors", () => {
  assert.equal(parse(["--volcano", "--help"]), "help");
  assert.equal(parse(["-h"]), "help");
  assert.equal(parse(["--max-minutes", "1000", "--version"]), "version");
  assert.deepEqual(parse(["--", "--help"]), { flags: DEFAULTS, operands: ["--help"] });
});

Deno.test("chooseCommand() defaults to the first command, and names the nearest to an unknown one", () => {
  const commands: [Command, Command] = [SERVE, BAKE];
  assert.deepEqual(chooseCommand(commands, []), { command: SERVE, words: [] });
  assert.deepEqual(chooseCommand(commands, ["-p", "1"]), { command: SERVE, words: ["-p", "1"] });
  assert.deepEqual(chooseCommand(commands, ["bake", "x"]), { command: BAKE, words: ["x"] });
  assert.deepEqual(chooseCommand(commands, ["oven", "x"]), { command: BAKE, words: ["x"] });
  assert.match(usage(() => chooseCommand(commands, ["bkae"])), /Did you mean "bake"\?/);
});

Deno.test("SERVE_FLAGS equal the specification, with its defaults", () => {
  const parsed = parseCall(SERVE, [], {});
  assert.ok(typeof parsed === "object");
  assert.partialDeepStrictEqual(parsed.flags, {
    address: "127.0.0.1",
    port: 10100,
    allowRemoteShutdown: false,
    drainSeconds: 1,
    apiKey: undefined,
    allowPrivateMedia: false,
  });
  const words = ["-m", "some/model", "-a", "0.0.0.0", "-p", "80", "--allow-remote-shutdown"];
  const named = parseCall(SERVE, words, {});
  assert.ok(typeof named === "object");
  assert.partialDeepStrictEqual(named.flags, {
    model: "some/model",
    address: "0.0.0.0",
    port: 80,
    allowRemoteShutdown: true,
  });
});

Deno.test("SERVE_FLAGS accept origins and host names only in their own format", () => {
  const serve = (...words: string[]) => parseCall(SERVE, words, {});
  const apps = ["app://obsidian.md", "tauri://localhost", "chrome-extension://abcdef"];
  for (const origin of ["*", "https://example.org", "http://localhost:3000", ...apps]) {
    serve("--cors-origin", origin);
  }
  const bad = ["example.org", "https://example.org/", "https://example.org/a", ""];
  for (const origin of [...bad, "app://obsidian.md/", "app:obsidian", "null", "http://a b"]) {
    assert.match(usage(() => serve(`--cors-origin=${origin}`)), /^--cors-origin wants an origin/);
  }
  for (const host of ["hearth.example.org", "box", "192.168.1.2", "[::1]"]) {
    serve("--allowed-host", host);
  }
  for (const host of ["http://box", "box:80", "a/b", "", "a b"]) {
    assert.match(usage(() => serve(`--allowed-host=${host}`)), /^--allowed-host wants a host name/);
  }
});

Deno.test("chooseCommand() treats the word help before a command like --help after it", () => {
  const commands = [SERVE, BAKE] as const;
  assert.deepEqual(chooseCommand(commands, ["help"]), { command: SERVE, words: ["--help"] });
  assert.deepEqual(chooseCommand(commands, ["help", "bake"]), { command: BAKE, words: ["--help"] });
  assert.throws(() => chooseCommand(commands, ["help", "bkae"]), /Did you mean "bake"/);
});

Deno.test("parseCall() ignores HEARTH_PORT if it holds a service's address, as in Kubernetes", () => {
  const environment = { HEARTH_PORT: "tcp://10.96.0.7:80", HEARTH_MAX_QUEUE: "7" };
  const call = parseCall(COMMANDS[0], [], environment);
  assert.ok(typeof call === "object");
  assert.equal(call.flags["port"], 10100);
  assert.equal(call.flags["maxQueue"], 7);
  assert.throws(() => parseCall(COMMANDS[0], ["--port", "tcp://10.96.0.7:80"], {}), /whole number/);
});
