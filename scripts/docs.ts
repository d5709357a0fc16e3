/**
 * `deno task docs`: writes the flag tables of docs/flags.md anew from the tables that parse the command line.
 *
 * @module
 */
import { COMMANDS } from "../src/cli/commands.ts";
import { formatFlagTable } from "../src/cli/help.ts";

/** The page of flags. */
export const FLAGS_PAGE = new URL("../docs/flags.md", import.meta.url);

const MARKER = /<!-- flags of ([\w, ]+) -->[^]*?(?=<!-- end of flags -->)/g;

/**
 * Writes a table of flags after each marker `<!-- flags of list, ps -->`, which names commands with equal flags.
 *
 * @throws {Error} when a command with flags has no marker, or commands of one marker have different flags.
 */
export function fillFlagTables(page: string): string {
  const placed = new Set<string>();
  const filled = page.replaceAll(MARKER, (_, list: string) => {
    const names = list.split(", ");
    const tables = new Set(names.map(tableOf));
    if (tables.size > 1) throw new Error(`docs/flags.md: ${list} have not the same flags.`);
    for (const name of names) placed.add(name);
    return `<!-- flags of ${list} -->\n\n${[...tables].join()}\n\n`;
  });
  for (const { name, flags } of COMMANDS) {
    if (Object.keys(flags).length === 0 || placed.has(name)) continue;
    throw new Error(`docs/flags.md has no <!-- flags of ${name} --> … <!-- end of flags -->.`);
  }
  return filled;
}

function tableOf(name: string): string {
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    throw new Error(`docs/flags.md has a marker for the flags of ${name}.`);
  }
  return formatFlagTable(command.flags);
}

if (import.meta.main) {
  await Deno.writeTextFile(FLAGS_PAGE, fillFlagTables(await Deno.readTextFile(FLAGS_PAGE)));
}
