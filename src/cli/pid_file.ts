/**
 * The process-id file of a running server: `<port>.pid` in the user's run folder. Its first line is the process id
 * and nothing else, so that `kill $(head -n 1 …)` works; its second is what is served, as JSON.
 *
 * @module
 */
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import type { Environment } from "../base/config.ts";
import { log } from "../base/log.ts";

/** The content of a process-id file. */
export interface PidRecord {
  readonly pid: number;
  readonly model: string;
  readonly host: string;
  readonly port: number;
  /** ISO 8601. */
  readonly startedAt: string;
}

/** The path of the file for a port: below `$XDG_RUNTIME_DIR`, else the home folder; on Windows below `%LOCALAPPDATA%`. */
export function pidFilePath(
  port: number,
  environment: Environment = Deno.env.toObject(),
  os: typeof Deno.build.os = Deno.build.os,
): string {
  return join(runFolder(environment, os), `${port}.pid`);
}

/**
 * The path for a server's own file: another server may use the same port at another address, and then owns the file
 * named by the port alone.
 */
function freePidFilePath({ host, port, pid }: PidRecord): string {
  const path = pidFilePath(port);
  try {
    const [owner = "", served = ""] = Deno.readTextFileSync(path).split("\n");
    const isOthers = Number(owner) !== pid && JSON.parse(served).host !== host &&
      isAlive(Number(owner));
    if (isOthers) return join(dirname(path), `${port}@${host.replaceAll(":", "_")}.pid`);
  } catch {
    // It does not exist, or is incomplete.
  }
  return path;
}

/** Whether a process exists. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Another user's process exists too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The folder of all these files. */
export function runFolder(
  environment: Environment = Deno.env.toObject(),
  os: string = Deno.build.os,
): string {
  const { XDG_RUNTIME_DIR, LOCALAPPDATA, HOME, USERPROFILE } = environment;
  if (os === "windows" && LOCALAPPDATA) return join(LOCALAPPDATA, "hearth", "run");
  if (XDG_RUNTIME_DIR) return join(XDG_RUNTIME_DIR, "hearth");
  return join(HOME || USERPROFILE || homedir(), ".hearth", "run");
}

/** The file of this server. It is optional: if it cannot be written, the log says so. */
export class PidFile {
  readonly #path: string;
  readonly #pid: number;

  private constructor(path: string, pid: number) {
    this.#path = path;
    this.#pid = pid;
  }

  /**
   * Writes the file, in place of one that a server on this port left behind when it was killed: whoever holds the
   * port owns the file.
   */
  static write(record: PidRecord, path: string = freePidFilePath(record)): PidFile {
    const { pid, ...served } = record;
    // Renamed into place: a reader sees the old file or the whole new one.
    const draft = `${path}.${pid}`;
    try {
      Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      Deno.writeTextFileSync(draft, `${pid}\n${JSON.stringify(served)}\n`, { mode: 0o600 });
      Deno.renameSync(draft, path);
    } catch (error) {
      const reason = (error as Error).message;
      log.warn("the process-id file cannot be written: ps and stop will not find this server", {
        path,
        reason,
      });
    }
    return new PidFile(path, pid);
  }

  /** Removes the file if it is still this process's; synchronous, so that a process about to exit can call it. */
  remove(): void {
    try {
      const [pid] = Deno.readTextFileSync(this.#path).split("\n", 1);
      if (Number(pid) === this.#pid) Deno.removeSync(this.#path);
    } catch (error) {
      if (isAbsence(error)) return;
      const reason = (error as Error).message;
      log.warn("the process-id file cannot be removed", { path: this.#path, reason });
    }
  }
}

/** Whether an error says that a file does not exist, or that its parent is not a folder. */
export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}
