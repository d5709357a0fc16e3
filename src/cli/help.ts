/**
 * Writes `--help` and the flag tables of docs/flags.md, from the tables that parse the command line.
 *
 * @module
 */
import { PROGRAM } from "../base/version.ts";
import { type Command, environmentName, type Flag, flagName, type FlagTable } from "./command.ts";
import { COMMON_FLAGS } from "./shared_flags.ts";

const LINE_WIDTH = 80;
const INDENT = " ".repeat(6);
const NOTES = [
  "Each flag can also be set by the environment variable in its brackets; the command line has " +
  "precedence. A switch is turned off by --no- and its name; in the environment it takes 1 or 0.",
  "Exit codes: 0 success, 1 failure, 2 invalid command line.",
];
const REPEATS = { never: [], again: ["repeatable"], commas: ["repeatable, or with commas"] };

/** Writes the whole `--help` of a command; that of the default command also lists the others. */
export function formatHelp(command: Command, commands: readonly Command[]): string {
  const isDefault = command === commands[0];
  const name = isDefault ? "" : ` ${command.name}`;
  const usage = [`${PROGRAM}${name}`, ...command.operands, "[flags]"].join(" ");
  const width = Math.max(...commands.map((other) => other.name.length));
  const list = commands.flatMap((other) =>
    wrap(other.summary.split(" "), `  ${other.name.padEnd(width)}  `)
  );
  return [
    command.summary,
    "",
    `Usage: ${usage}`,
    ...(isDefault ? ["", "Commands:", ...list] : []),
    "",
    "Flags:",
    ...Object.entries({ ...command.flags, ...COMMON_FLAGS }).flatMap(formatFlag),
    "",
    ...NOTES.flatMap((note) => wrap(note.split(" "), "")),
  ].join("\n");
}

/** Writes the table of a command's flags for docs/flags.md. */
export function formatFlagTable(table: FlagTable): string {
  const rows = Object.entries(table).map(([key, flag]) => {
    const name = `\`${formatNames(key, flag).replaceAll("|", "\\|")}\``;
    return `| ${name} | \`${environmentName(key)}\` | ${formatDefault(flag)} | ${flag.help} |`;
  });
  return ["| flag | environment | default | |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

function formatFlag([key, flag]: [string, Flag<unknown>]): string[] {
  const isCommon = key in COMMON_FLAGS;
  const shown = formatDefault(flag);
  const notes = [
    ...(shown === "" ? [] : [`default ${shown}`]),
    ...REPEATS[flag.repeats],
    ...(isCommon ? [] : [environmentName(key)]),
  ];
  // A single array element, so that wrapping does not split it.
  const note = notes.length === 0 ? [] : [`[${notes.join("; ")}]`];
  return [`  ${formatNames(key, flag)}`, ...wrap([...flag.help.split(" "), ...note], INDENT)];
}

function formatNames(key: string, flag: Flag<unknown>): string {
  // A switch that is on by default is shown with its negative form.
  const name = `--${flag.fallback === true ? "[no-]" : ""}${flagName(key)}`;
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  return `${short}${name}${flag.placeholder === undefined ? "" : ` ${flag.placeholder}`}`;
}

function formatDefault({ fallback }: Flag<unknown>): string {
  if (fallback === true) return "on";
  return typeof fallback === "string" || typeof fallback === "number" ? String(fallback) : "";
}

/** Wraps words into lines. The first line follows `start`, and the others are indented as far. */
function wrap(words: readonly string[], start: string): string[] {
  const indent = " ".repeat(start.length);
  const lines: string[] = [];
  let line = start;
  let hasWords = false;
  for (const word of words) {
    const joined = hasWords ? `${line} ${word}` : `${line}${word}`;
    if (joined.length > LINE_WIDTH && hasWords) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line = joined;
    }
    hasWords = true;
  }
  return [...lines, line];
}
