/**
 * Log lines on standard error, as text for people or JSON for machines. Writing one never waits: see `log_queue.ts`.
 *
 * @module
 */
import process from "node:process";
import { LOG_LEVELS, type LogLevel, type LogSettings } from "./config.ts";
import { LogQueue } from "./log_queue.ts";

/** Details of a line, by name. Errors are written with their stack and causes. */
type LogFields = Readonly<Record<string, unknown>>;

let settings: LogSettings = { level: "info", format: "text" };

/** Sets level and format for this thread. Node's warnings become log lines: Node would wait for their reader. */
export function configureLog(next: LogSettings): void {
  settings = next;
  process.removeAllListeners("warning");
  process.on("warning", (error) => write("warn", "a runtime warning", { error }));
}

/** Characters of log lines that wait for a reader of standard error that has stalled. */
const MAX_WAITING_LENGTH = 1024 * 1024;

/** This thread's queue. While a server runs, all output to standard error goes through it. */
export const stderrQueue = new LogQueue(Deno.stderr, {
  maxLength: MAX_WAITING_LENGTH,
  formatDropped: (count) =>
    formatLine("warn", "lines were dropped: standard error was not read", { count }),
});

// On a terminal a progress line may occupy this line.
const clearLine = Deno.stderr.isTerminal() ? "\x1b[K" : "";

function describe(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (!(value instanceof Error)) return value;
  const cause = value.cause === undefined ? "" : `\ncaused by ${describe(value.cause)}`;
  return `${value.stack ?? `${value.name}: ${value.message}`}${cause}`;
}

/** `name=value`; quoted if it contains spaces. A stack keeps its line breaks. */
function formatField(name: string, value: unknown): string {
  const plain = describe(value);
  if (value instanceof Error) return ` ${name}=${plain}`;
  if (typeof plain !== "string") return ` ${name}=${JSON.stringify(plain)}`;
  return ` ${name}=${/^[^\s"=\p{Cc}]+$/u.test(plain) ? plain : JSON.stringify(plain)}`;
}

function formatText(level: LogLevel, message: string, fields: LogFields): string {
  const details = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => formatField(name, value))
    .join("");
  const time = new Date().toISOString();
  return `${clearLine}${time} ${level.toUpperCase().padEnd(5)} ${message}${details}\n`;
}

function formatJson(level: LogLevel, message: string, fields: LogFields): string {
  const plain = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, describe(value)]),
  );
  // First for readability, and again last, so that no field can overwrite them.
  const head = { time: new Date().toISOString(), level, message };
  return `${JSON.stringify({ ...head, ...plain, ...head })}\n`;
}

function formatLine(level: LogLevel, message: string, fields: LogFields): string {
  const format = settings.format === "json" ? formatJson : formatText;
  return format(level, message, fields);
}

function write(level: LogLevel, message: string, fields: LogFields = {}): void {
  if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(settings.level)) return;
  stderrQueue.push(formatLine(level, message, fields));
}

/** Writes one line at the level named; `fields` hold the details. */
export const log = {
  debug: (message: string, fields?: LogFields) => write("debug", message, fields),
  info: (message: string, fields?: LogFields) => write("info", message, fields),
  warn: (message: string, fields?: LogFields) => write("warn", message, fields),
  error: (message: string, fields?: LogFields) => write("error", message, fields),
} as const;
