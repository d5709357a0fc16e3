/**
 * The process-id file of a running server: `<port>.pid` in the user's run folder. Its first line is the process id
 * and nothing else, so that `kill $(head -n 1 …)` works; its second is what is served, as JSON.
 *
 * @module
 */
import { dirname, join } from "node:path";

/** What a process-id file says. */
export interface PidRecord {
  readonly pid: number;
  readonly model: string;
  readonly host: string;
  readonly port: number;
  readonly startedSeconds: number;
}

/** The path of the file for a port: below `$XDG_RUNTIME_DIR`, else the home folder; on Windows below `%LOCALAPPDATA%`. */
export function pidFilePath(
  port: number,
  environment: Readonly<Record<string, string>> = Deno.env.toObject(),
  os: typeof Deno.build.os = Deno.build.os,
): string {
  return join(runFolder(environment, os), `${port}.pid`);
}

function runFolder(environment: Readonly<Record<string, string>>, os: string): string {
  const { XDG_RUNTIME_DIR, LOCALAPPDATA, HOME, USERPROFILE } = environment;
  if (os === "windows" && LOCALAPPDATA) return join(LOCALAPPDATA, "hearth", "run");
  if (XDG_RUNTIME_DIR) return join(XDG_RUNTIME_DIR, "hearth");
  return join(HOME || USERPROFILE || ".", ".hearth", "run");
}

/**
 * Writes the file, in place of one that a server on this port left behind when it was killed: whoever holds the port
 * owns the file.
 *
 * @throws {Error} of the file system, when the folder cannot be written.
 */
export function writePidFile(path: string, record: PidRecord): void {
  const { pid, ...served } = record;
  Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Renamed into place: a reader sees the old file or the whole new one.
  const draft = `${path}.${pid}`;
  Deno.writeTextFileSync(draft, `${pid}\n${JSON.stringify(served)}\n`, { mode: 0o600 });
  Deno.renameSync(draft, path);
}

/** Removes the file if it is still this process's; synchronous, so that a process about to exit can call it. */
export function removePidFile(path: string, pid: number): void {
  try {
    if (Number(Deno.readTextFileSync(path).split("\n", 1)[0]) === pid) Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
