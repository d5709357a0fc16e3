/**
 * The terminal of a chat: a line editor, messages of several lines, the commands that a user may enter, and ^C.
 *
 * @module
 */
import process from "node:process";
import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";
import { writeMessage, writeText } from "../print.ts";
import { homedir } from "node:os";
import { findNearNames } from "../../base/near_names.ts";

const PROMPT = ">>> ";
const MORE_PROMPT = "... ";
const QUOTES = '"""';
/** Lines that arrive faster than anyone types belong to one paste. */
const PASTE_MS = 20;
/** Characters with which a model could move the cursor or change the terminal. */
// deno-lint-ignore no-control-regex
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const [DIM, PLAIN] = Deno.noColor ? ["", ""] : ["\x1b[2m", "\x1b[0m"];

/** A line that was entered, and when. */
interface Line {
  readonly text: string;
  readonly atMs: number;
}

/** Receives what the line editor draws, and drops it while an answer is being written. */
class EditorOutput extends Writable {
  isMuted = false;

  get columns(): number {
    return process.stdout.columns;
  }

  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    if (!this.isMuted) writeMessage(Deno.stdout, new TextDecoder().decode(chunk));
    done();
  }
}

/** The terminal of a conversation. It owns standard input until it is closed. */
export class ChatTerminal implements Disposable {
  readonly #output = new EditorOutput();
  readonly #editor: Interface;
  readonly #lines: Line[] = [];
  #wake: (() => void) | undefined;
  #isClosed = false;
  #isCancelled = false;
  /** Whether the current message already has lines. */
  #isInside = false;
  /** Whether ^C was the last key at an empty prompt. */
  #isLeaving = false;
  #answer: AbortController | undefined;

  constructor() {
    this.#editor = createInterface({
      input: process.stdin,
      output: this.#output,
      terminal: true,
      historySize: 1000,
      removeHistoryDuplicates: true,
    });
    this.#editor.on("line", (text) => {
      this.#isLeaving = false;
      this.#lines.push({ text, atMs: performance.now() });
      this.#wake?.();
    });
    this.#editor.on("SIGINT", () => this.#interrupt());
    this.#editor.on("close", () => {
      this.#isClosed = true;
      this.#answer?.abort();
      this.#wake?.();
    });
  }

  /**
   * Reads a message: a single line, lines continued by a `\` at their end, or the lines between two `"""`. Lines that
   * are pasted together form one message.
   *
   * @returns `undefined` when the user leaves.
   */
  async readMessage(): Promise<string | undefined> {
    while (!this.#isClosed) {
      this.#isInside = false;
      this.#isCancelled = false;
      let text = await this.#readLines(PROMPT);
      while (text !== undefined && !isWhole(text)) {
        this.#isInside = true;
        const more = await this.#readLines(MORE_PROMPT);
        text = more === undefined ? undefined : `${text}\n${more}`;
      }
      if (text !== undefined) return unwrap(text);
    }
    return undefined;
  }

  /** Writes part of an answer, without characters that a terminal would take for commands. */
  write(text: string): void {
    writeText(Deno.stdout, text.replaceAll(CONTROLS, ""));
  }

  /** Writes text that is not part of the answer: reasoning and remarks. */
  writeAside(text: string): void {
    writeText(Deno.stdout, `${DIM}${text.replaceAll(CONTROLS, "")}${PLAIN}`);
  }

  /**
   * Runs a function that writes an answer; ^C aborts its signal. Anything typed in the meantime is kept for the next
   * prompt.
   *
   * @returns whether it was aborted.
   */
  async whileAnswering(run: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const answer = new AbortController();
    this.#answer = answer;
    this.#output.isMuted = true;
    try {
      await run(answer.signal);
    } catch (error) {
      if (!answer.signal.aborted) throw error;
    } finally {
      this.#answer = undefined;
      this.#output.isMuted = false;
    }
    return answer.signal.aborted;
  }

  /** Restores the terminal. */
  close(): void {
    if (!this.#isClosed) this.#editor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Reads the next line, and lines pasted together with it; `undefined` when the user cancels it or leaves. */
  async #readLines(prompt: string): Promise<string | undefined> {
    this.#editor.setPrompt(prompt);
    const typedAhead = this.#lines[0];
    this.#editor.prompt(true);
    if (typedAhead !== undefined) writeText(Deno.stdout, `${typedAhead.text}\n`);
    const texts: string[] = [];
    let lastMs: number | undefined;
    while (true) {
      const next = this.#lines[0];
      if (next !== undefined && (lastMs === undefined || next.atMs - lastMs < PASTE_MS)) {
        this.#lines.shift();
        texts.push(next.text);
        lastMs = next.atMs;
        // Lets further lines of a paste arrive.
        await new Promise((resolve) => setTimeout(resolve, 0));
        continue;
      }
      const hasUnfinished = texts.length > 0 && this.#editor.line !== "" && next === undefined;
      if (texts.length > 0 && !hasUnfinished) return texts.join("\n");
      if (this.#isClosed || this.#isCancelled) return undefined;
      if (hasUnfinished) lastMs = undefined;
      await new Promise<void>((resolve) => this.#wake = resolve);
      this.#wake = undefined;
    }
  }

  #interrupt(): void {
    if (this.#answer !== undefined) return this.#answer.abort();
    const isEmpty = this.#editor.line === "" && !this.#isInside;
    if (isEmpty && this.#isLeaving) {
      writeMessage(Deno.stdout, "\n");
      return this.close();
    }
    this.#isLeaving = isEmpty;
    writeMessage(Deno.stdout, isEmpty ? "\nPress ^C again, ^D or /bye to leave.\n" : "\n");
    this.#output.isMuted = true;
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#editor.write(null, { ctrl: true, name: "u" });
    this.#output.isMuted = false;
    this.#isCancelled = true;
    this.#wake?.();
  }
}

/** Whether a message is complete. */
function isWhole(text: string): boolean {
  const trimmed = text.trim();
  if (!trimmed.startsWith(QUOTES)) return !text.endsWith("\\");
  return trimmed.length >= 2 * QUOTES.length && trimmed.endsWith(QUOTES);
}

/** Removes the `"""` of a message, or the backslashes at the ends of its lines. */
function unwrap(text: string): string {
  const trimmed = text.trim();
  if (trimmed.startsWith(QUOTES)) return trimmed.slice(QUOTES.length, -QUOTES.length).trim();
  return text.replaceAll("\\\n", "\n").trim();
}

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
  '  A line that ends in \\ continues on the next one. """ begins and ends a text of several lines.',
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
