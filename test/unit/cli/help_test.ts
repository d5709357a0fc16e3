import assert from "node:assert/strict";
import { COMMANDS, formatHelp } from "../../../src/cli/command_line.ts";
import { toEnvironmentName, toFlagName } from "../../../src/cli/command.ts";
import { COMMON_FLAGS } from "../../../src/cli/shared_flags.ts";
import { parseCall } from "../../../src/cli/parse.ts";
import {
  fillFigures,
  fillFlagTables,
  FLAGS_PAGE,
  PERFORMANCE_PAGE,
  README,
} from "../../../scripts/docs.ts";

/** A table's text without the padding of its cells. */
function squeeze(markdown: string): string {
  return markdown.replaceAll(/ *\| */g, "|").replaceAll(/-{3,}/g, "---");
}

Deno.test("formatHelp() shows exactly the flags that the parser accepts", () => {
  for (const command of COMMANDS) {
    const help = formatHelp(command, COMMANDS);
    const shown = [...help.matchAll(/^ {2}(?:-\w, )?--(?:\[no-\])?([\w-]+)/gm)].map((match) =>
      match[1]
    );
    const parsed = Object.keys({ ...command.flags, ...COMMON_FLAGS }).map(toFlagName);
    assert.deepEqual(shown, parsed, command.name);
    for (const key of Object.keys(command.flags)) {
      assert.ok(help.includes(toEnvironmentName(key)), key);
    }
  }
});

Deno.test("formatHelp() shows each default of the parser", () => {
  for (const command of COMMANDS) {
    const help = formatHelp(command, COMMANDS);
    const call = parseCall(command, command.operands, {});
    assert.ok(typeof call === "object");
    for (const [key, value] of Object.entries(call.flags)) {
      if (value === undefined || value === false || Array.isArray(value)) continue;
      const shown = value === true ? "on" : value;
      assert.ok(help.includes(`[default ${shown}; ${toEnvironmentName(key)}]`), key);
    }
  }
});

Deno.test("formatHelp() fits the width of a terminal", () => {
  for (const command of COMMANDS) {
    for (const line of formatHelp(command, COMMANDS).split("\n")) {
      assert.ok(line.length <= 80, line);
    }
  }
});

Deno.test("docs/flags.md has the parser's flags of every command (deno task docs)", async () => {
  const page = await Deno.readTextFile(FLAGS_PAGE);
  assert.equal(squeeze(page), squeeze(fillFlagTables(page)));
});

Deno.test("the README's figures equal those of docs/performance.md (deno task docs)", async () => {
  const [readme, performance] = await Promise.all(
    [README, PERFORMANCE_PAGE].map((page) => Deno.readTextFile(page)),
  ) as [string, string];
  assert.equal(squeeze(readme), squeeze(fillFigures(readme, performance)));
  const other = performance.replace(/(\| a photo, ms +\|) [\d.]+/, "$1 1");
  assert.notEqual(squeeze(readme), squeeze(fillFigures(readme, other)));
  assert.throws(() => fillFigures(readme, "no tables"), /has no row "1 stream of/);
});
