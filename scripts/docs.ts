/**
 * `deno task docs`: rewrites the flag tables of docs/flags.md from the tables that parse the command line, and the
 * README's figures from docs/performance.md.
 *
 * @module
 */
import { COMMANDS, formatFlagTable } from "../src/cli/command_line.ts";

/** The page of flags. */
export const FLAGS_PAGE = new URL("../docs/flags.md", import.meta.url);

/** The page of figures, whose tables the benchmarks write. */
export const PERFORMANCE_PAGE = new URL("../docs/performance.md", import.meta.url);
export const README = new URL("../README.md", import.meta.url);

const MARKER = /<!-- flags of ([\w, ]+) -->[^]*?(?=<!-- end of flags -->)/g;

/**
 * Writes a table of flags after each marker such as `<!-- flags of list, ps -->`. A marker names commands that have the
 * same flags.
 *
 * @throws {Error} when a command with flags has no marker, or commands of one marker have different flags.
 */
export function fillFlagTables(page: string): string {
  const placed = new Set<string>();
  const filled = page.replaceAll(MARKER, (_, list: string) => {
    const names = list.split(", ");
    const tables = new Set(names.map(readTable));
    if (tables.size > 1) throw new Error(`docs/flags.md: ${list} do not have the same flags.`);
    for (const name of names) placed.add(name);
    return `<!-- flags of ${list} -->\n\n${[...tables].join()}\n\n`;
  });
  for (const { name, flags } of COMMANDS) {
    if (Object.keys(flags).length === 0 || placed.has(name)) continue;
    throw new Error(`docs/flags.md has no <!-- flags of ${name} --> … <!-- end of flags -->.`);
  }
  return filled;
}

function readTable(name: string): string {
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    throw new Error(`docs/flags.md has a marker for the flags of ${name}.`);
  }
  return formatFlagTable(command.flags);
}

/**
 * The rows of the README's table: the beginnings of their labels, by the benchmark whose table in docs/performance.md
 * contains them.
 */
const HEADLINES: Readonly<Record<string, readonly string[]>> = {
  chat: [
    "1 stream of",
    "8 streams of",
    "prompt of 463 tokens, ms",
    "the same again, ms",
  ],
  asr: ["30 s of sound, ms", "8 clients with 30 s each, ms"],
  embed: ["one text at a time, ms", "64 texts of 5 to 100 words in one call, texts/s"],
  matting: ["a photo, ms"],
  "speech-kokoro": ["a sentence, ms"],
};

/**
 * Writes the README's table of figures.
 *
 * @param performance the text of docs/performance.md.
 * @throws {Error} when docs/performance.md lacks a row, or the README lacks the markers.
 */
export function fillFigures(readme: string, performance: string): string {
  const rows = Object.entries(HEADLINES).flatMap(([kind, labels]) => {
    const found = new RegExp(`<!-- real ${kind} -->([^]*?)<!-- end of real ${kind} -->`);
    const table = (found.exec(performance)?.[1] ?? "").split("\n").map(splitCells);
    const [model, ...header] = table.find(([, ours]) => ours === "Hearth") ?? [];
    return labels.map((beginning) => {
      const row = table.find(([first]) => first?.startsWith(beginning));
      if (row === undefined) {
        throw new Error(`docs/performance.md: ${kind} has no row "${beginning}".`);
      }
      const [label] = row;
      const cell = (name: string) => row[1 + header.indexOf(name)] ?? "";
      const [ours, theirs] = [cell("Hearth"), cell("transformers.js")];
      const other = header.includes("llama.cpp") ? cell("llama.cpp") : "";
      return `| ${[`${model}: ${label}`, ours, theirs, other].join(" | ")} |`;
    });
  });
  const head = ["| | Hearth | transformers.js | llama.cpp |", "| --- | ---: | ---: | ---: |"];
  const marked = /(<!-- figures -->)[^]*?(?=<!-- end of figures -->)/;
  if (!marked.test(readme)) throw new Error("README.md has no <!-- figures -->.");
  return readme.replace(marked, (_, mark) => `${mark}\n\n${[...head, ...rows].join("\n")}\n\n`);
}

function splitCells(line: string): string[] {
  return line.split("|").slice(1, -1).map((cell) => cell.trim());
}

if (import.meta.main) {
  const [readme, performance] = await Promise.all(
    [README, PERFORMANCE_PAGE].map((page) => Deno.readTextFile(page)),
  ) as [string, string];
  await Deno.writeTextFile(README, fillFigures(readme, performance));
  await Deno.writeTextFile(FLAGS_PAGE, fillFlagTables(await Deno.readTextFile(FLAGS_PAGE)));
}
