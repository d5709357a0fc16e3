/**
 * Log lines on standard error, as text for people or JSON for machines. Writing one never waits: a stalled reader
 * delays only the lines themselves.
 *
 * @module
 */
import process from "node:process";
import { LOG_LEVELS, type LogLevel, type LogSettings } from "./config.ts";
import { within } from "./timing.ts";

const encoder = new TextEncoder();

/** Bytes of one write; a pipe takes 64 KiB on Linux. */
const MAX_WRITE_BYTES = 16 * 1024;
/**
 * Log lines wait as bytes, in chunks of one write each. A separate buffer for each of thousands of short lines would
 * take five times the memory of their text. A concatenated string would take three times as much.
 */
const CHUNK_LENGTH = MAX_WRITE_BYTES;

/** Lines that wait together. */
interface Chunk {
  readonly bytes: Uint8Array;
  /** Length in characters. */
  readonly length: number;
}

interface Target {
  write(bytes: Uint8Array): Promise<number>;
}

/** The capacity of a queue, and its message about dropped lines. */
interface LogQueueOptions {
  /** Maximum number of characters that may wait; further lines are dropped. */
  readonly maxLength: number;
  /** Formats the line that is written in place of dropped lines once there is room again. */
  readonly formatDropped: (numLines: number) => string;
}

/**
 * A bounded queue in front of a stream. The stream's writes must run on another thread, as Deno's asynchronous writes
 * do. Lines are written in order; lines that do not fit are dropped and counted.
 */
export class LogQueue {
  readonly #target: Target;
  readonly #options: LogQueueOptions;
  readonly #chunks: Chunk[] = [];
  /** The newest lines, which are not in `#chunks` yet. */
  #last = "";
  /** Length of all lines that have not been written. */
  #length = 0;
  /** Number of dropped lines that no written line reports yet. */
  #numUnreported = 0;
  /** Number of all dropped lines. */
  #numDropped = 0;
  #writing: Promise<void> | undefined;

  constructor(target: Target, options: LogQueueOptions) {
    this.#target = target;
    this.#options = options;
  }

  get numDropped(): number {
    return this.#numDropped;
  }

  /** Writes `text` as soon as the stream takes it; never waits, never throws. */
  push(text: string): void {
    if (this.#length + text.length > this.#options.maxLength) {
      this.#numDropped++;
      this.#numUnreported++;
      return;
    }
    this.#append(text);
    this.#writing ??= this.#write();
  }

  /** Waits until all lines are written, at most `timeoutMs`. Call it before the process ends. */
  async flush(timeoutMs: number): Promise<void> {
    if (this.#writing !== undefined) await within(this.#writing, timeoutMs);
  }

  #append(text: string): void {
    if (this.#last !== "" && this.#last.length + text.length > CHUNK_LENGTH) this.#endChunk();
    this.#last += text;
    this.#length += text.length;
  }

  #endChunk(): void {
    this.#chunks.push({ bytes: encoder.encode(this.#last), length: this.#last.length });
    this.#last = "";
  }

  async #write(): Promise<void> {
    while (this.#length > 0) {
      if (this.#chunks.length === 0) this.#endChunk();
      const { bytes, length } = this.#chunks.shift()!;
      await this.#writeChunk(bytes);
      this.#length -= length;
      if (this.#numUnreported === 0 || this.#length > this.#options.maxLength / 2) continue;
      const numLines = this.#numUnreported;
      this.#numUnreported = 0;
      this.#append(this.#options.formatDropped(numLines));
    }
    this.#writing = undefined;
  }

  async #writeChunk(bytes: Uint8Array): Promise<void> {
    let rest = bytes;
    try {
      while (rest.length > 0) {
        rest = rest.subarray(await this.#target.write(rest.subarray(0, MAX_WRITE_BYTES)));
      }
    } catch {
      // The reader has gone, or the disk is full. There is no other place to which the error could be written.
    }
  }
}

/** Details of a line, by name. Errors are written with their stack and causes. */
type LogFields = Readonly<Record<string, unknown>>;

let settings: LogSettings = { level: "info", format: "text" };

/** Sets level and format for this thread. Node's warnings become log lines too, because Node's own writes can block. */
export function configureLog(next: LogSettings): void {
  settings = next;
  process.removeAllListeners("warning");
  process.on("warning", (error) => write("warn", "a runtime warning", { error }));
}

/** Maximum number of characters of log lines that wait while standard error is not read. */
const MAX_WAITING_LENGTH = 1024 * 1024;

/** This thread's queue. While a server runs, all output to standard error goes through it. */
export const stderrQueue = new LogQueue(Deno.stderr, {
  maxLength: MAX_WAITING_LENGTH,
  formatDropped: (count) =>
    formatLine("warn", "lines were dropped: standard error was not read", { count }),
});

// On a terminal, a progress line may stand where the log line will be written.
const clearLine = Deno.stderr.isTerminal() ? "\x1b[K" : "";

function describe(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (!(value instanceof Error)) return value;
  const cause = value.cause === undefined ? "" : `\ncaused by ${describe(value.cause)}`;
  return `${value.stack ?? `${value.name}: ${value.message}`}${cause}`;
}

/**
 * Formats `name=value`. The value is quoted if it is empty or contains spaces, quotes, equals signs or control
 * characters; a stack keeps its line breaks.
 */
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
  // The fields of `head` come first for readability, and once more at the end, so that no other field can replace them.
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

/** Each function writes one line at its level; `fields` hold the details. */
export const log = {
  debug: (message: string, fields?: LogFields) => write("debug", message, fields),
  info: (message: string, fields?: LogFields) => write("info", message, fields),
  warn: (message: string, fields?: LogFields) => write("warn", message, fields),
  error: (message: string, fields?: LogFields) => write("error", message, fields),
} as const;
