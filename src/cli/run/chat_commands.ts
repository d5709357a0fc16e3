/**
 * The commands that a user may enter in a chat.
 *
 * @module
 */
import { homedir } from "node:os";
import { findNearNames } from "../../base/near_names.ts";

/** A command's name and its argument. */
export interface ChatCommand {
  readonly name: (typeof CHAT_COMMANDS)[number][0];
  readonly rest: string;
}

const CHAT_COMMANDS = [
  ["help", "", "Show this list (also /?)."],
  ["system", "[text]", "Set the system prompt, or show it; /system none removes it."],
  [
    "image",
    "<path>",
    "Give the model an image or a PDF with the next message; an OCR model reads it at once.",
  ],
  [
    "audio",
    "<path>",
    "Give the model a recording with the next message; a speech recognition model transcribes it.",
  ],
  ["save", "<file>", "Write the conversation to a new file: .json as messages, else as Markdown."],
  ["clear", "", "Clear the conversation and start over."],
  ["bye", "", "Leave (also /exit, /quit, ^D, or ^C twice)."],
] as const;

const ALIASES: Readonly<Record<string, string>> = { "?": "help", exit: "bye", quit: "bye" };

/** The text of `/help`. */
export const CHAT_HELP = [
  ...CHAT_COMMANDS.map(([name, operand, help]) => `  ${`/${name} ${operand}`.padEnd(16)}${help}`),
  "",
  '  A line that ends in \\ goes on in the next one; """ begins and ends a text of several lines.',
  "  ^C stops an answer. Arrow up and down recall earlier entries.",
  "",
].join("\n");

/** Parses a command. @returns `undefined` for a message; for an unknown command, a text that says so. */
export function readChatCommand(text: string): ChatCommand | string | undefined {
  const [, word, rest = ""] = /^\/([^\s/]*)(?:\s+([^]*))?$/.exec(text) ?? [];
  if (word === undefined) return undefined;
  const name = ALIASES[word.toLowerCase()] ?? word.toLowerCase();
  const command = CHAT_COMMANDS.find(([each]) => each === name);
  if (command !== undefined) return { name: command[0], rest: rest.trim() };
  const [near] = findNearNames(name, CHAT_COMMANDS.map(([each]) => each), 1);
  const hint = near === undefined ? "" : ` Did you mean /${near}?`;
  return `There is no command /${word}.${hint} /help lists them.`;
}

/**
 * Parses a path as it was typed or dragged onto the terminal: it may be quoted, escape spaces with `\ `, or begin with
 * `~`.
 */
export function readTypedPath(text: string, home: string = homedir()): string {
  const quoted = /^(["'])(.*)\1$/.exec(text)?.[2];
  const isWindows = Deno.build.os === "windows";
  const path = quoted ?? (isWindows ? text : text.replaceAll(/\\(.)/g, "$1"));
  return path.replace(/^~(?=$|[/\\])/, () => home);
}
