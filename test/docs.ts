/**
 * `deno task docs`: writes the flag tables of the README anew from the tables that parse the command line.
 *
 * @module
 */
import { COMMANDS } from "../src/cli/commands.ts";
import { formatFlagTable } from "../src/cli/help.ts";

/** The README of this repository. */
export const README = new URL("../README.md", import.meta.url);

/**
 * Puts a table of the flags of each command that has some where the README has a place for it.
 *
 * @throws {Error} when a command has no place.
 */
export function fillFlagTables(readme: string): string {
  return COMMANDS.filter(({ flags }) => Object.keys(flags).length > 0).reduce(
    (text, { name, flags }) => {
      const start = `<!-- flags of ${name} -->`;
      const end = "<!-- end of flags -->";
      const from = text.indexOf(start);
      const to = text.indexOf(end, from);
      if (from < 0 || to < 0) throw new Error(`README.md has no ${start} … ${end}.`);
      const table = `${start}\n\n${formatFlagTable(flags)}\n\n`;
      return text.slice(0, from) + table + text.slice(to);
    },
    readme,
  );
}

if (import.meta.main) {
  await Deno.writeTextFile(README, fillFlagTables(await Deno.readTextFile(README)));
}
