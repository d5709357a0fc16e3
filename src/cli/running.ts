/**
 * Finds the servers that this user runs on this machine, by their process-id files.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { StartupError } from "../base/errors.ts";
import { homedir } from "node:os";
import process from "node:process";
import { type Environment, type ListenSettings, PROGRAM } from "../base/config.ts";
import { log } from "../base/log.ts";

const HEALTH_TIMEOUT_MS = 2_000;
/** Addresses at which this machine reaches a server that listens on all addresses. */
const LOOPBACKS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** State of a server that does not answer. */
export const NO_ANSWER = "does not answer";

/** A server whose process exists. */
export interface RunningServer extends PidRecord {
  /** The server's URL on this machine. */
  readonly url: string;
}

/** Finds all running servers, and removes the files of processes that no longer exist. */
export async function findRunning(): Promise<RunningServer[]> {
  const folder = findRunFolder();
  const servers: RunningServer[] = [];
  for (const name of await listFiles(folder)) {
    if (!/^\d+(@[\w.]+)?\.pid$/.test(name)) continue;
    const path = join(folder, name);
    const record = await readRecord(path);
    // Files are renamed into place when they are complete, so an incomplete file belongs to no server.
    if (record === undefined || !isAlive(record.pid)) await Deno.remove(path).catch(() => {});
    else {
      const host = LOOPBACKS[record.host] ?? record.host;
      servers.push({ ...record, url: formatUrl(host, record.port) });
    }
  }
  return servers.sort((a, b) => a.port - b.port);
}

/** Asks a server for its state: `ready`, or why it is not. */
export async function askState({ url }: RunningServer): Promise<string> {
  try {
    const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    const { status, error } = await (await fetch(`${url}/health`, { signal })).json();
    return status === "ok" ? "ready" : String(error ?? status);
  } catch {
    return NO_ANSWER;
  }
}

async function listFiles(folder: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  } catch (error) {
    if (isAbsence(error)) return [];
    throw new StartupError(`${folder} cannot be read: ${(error as Error).message}`);
  }
}

async function readRecord(path: string): Promise<PidRecord | undefined> {
  try {
    const [pid = "", served = ""] = (await Deno.readTextFile(path)).split("\n");
    return { ...JSON.parse(served), pid: Number(pid) };
  } catch {
    return undefined;
  }
}

// The process-id file of a running server: `<port>.pid` in the user's run folder. Its first line is the process id and
// nothing else, so that `kill $(head -n 1 …)` works; its second line describes the server, as JSON.

/** The content of a process-id file. */
interface PidRecord {
  readonly pid: number;
  readonly model: string;
  readonly host: string;
  readonly port: number;
  /** Start time in ISO 8601. */
  readonly startedAt: string;
  /** Time that requests in progress get to finish; absent if the server is of an older version. */
  readonly drainSeconds?: number | undefined;
}

/**
 * Path of the process-id file of a port: below `$XDG_RUNTIME_DIR` or else the home folder; on Windows below
 * `%LOCALAPPDATA%`.
 */
export function getPidFilePath(
  port: number,
  environment: Environment = Deno.env.toObject(),
  os: typeof Deno.build.os = Deno.build.os,
): string {
  return join(findRunFolder(environment, os), `${port}.pid`);
}

/**
 * Path for a server's own file. Another server may use the same port at another address, and then owns the file that is
 * named by the port only.
 */
export function findPidFilePath(
  { host, port, pid }: PidRecord,
  environment: Environment = Deno.env.toObject(),
): string {
  const path = getPidFilePath(port, environment);
  try {
    const [owner = "", served = ""] = Deno.readTextFileSync(path).split("\n");
    const isOthers = Number(owner) !== pid && JSON.parse(served).host !== host &&
      isAlive(Number(owner));
    if (isOthers) return join(dirname(path), `${port}@${host.replaceAll(":", "_")}.pid`);
  } catch {
    // The file does not exist, or is incomplete.
  }
  return path;
}

/** Whether a process exists. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // A process of another user exists too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The folder of all process-id files. */
function findRunFolder(
  environment: Environment = Deno.env.toObject(),
  os: string = Deno.build.os,
): string {
  const { XDG_RUNTIME_DIR, LOCALAPPDATA, HOME, USERPROFILE } = environment;
  if (os === "windows" && LOCALAPPDATA) return join(LOCALAPPDATA, "hearth", "run");
  if (XDG_RUNTIME_DIR) return join(XDG_RUNTIME_DIR, "hearth");
  return join(HOME || USERPROFILE || homedir(), ".hearth", "run");
}

/** The process-id file of this server. It is optional: if it cannot be written, that is only logged. */
export class PidFile {
  readonly #path: string;
  readonly #pid: number;

  private constructor(path: string, pid: number) {
    this.#path = path;
    this.#pid = pid;
  }

  /** Writes the file. It may replace one that a killed server left behind: whoever holds the port owns the file. */
  static write(record: PidRecord, path: string = findPidFilePath(record)): PidFile {
    const { pid, ...served } = record;
    // The file is renamed into place, so that readers see either the old file or the complete new one.
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

  /** Removes the file if it still belongs to this process. Synchronous, so that a process can call it on exit. */
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
function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

/** Formats `http://host:port`, with brackets around an IPv6 address. */
export function formatUrl(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The state of a listening socket in /proc/net/tcp. */
const LISTENS = "0A";

/** Explains why an address is not available, and what to do. */
export async function explainListenError(
  error: unknown,
  { host, port }: Pick<ListenSettings, "host" | "port">,
): Promise<string> {
  if (error instanceof Deno.errors.AddrInUse) {
    return await explainTakenPort(host, port);
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return port < 1024
      ? `Listening on port ${port} is not permitted to this user. Choose one above 1023 with -p.`
      : `Listening on port ${port} is not permitted. Choose another with -p: on Windows, ` +
        "`netsh interface ipv4 show excludedportrange tcp` lists those that are reserved.";
  }
  const reason = error instanceof Error ? error.message : String(error);
  return `Cannot listen at ${host}, port ${port}: ${reason}. Choose an address of this machine with -a: ` +
    "127.0.0.1 for this machine only, 0.0.0.0 to let other machines in.";
}

/**
 * Explains who has a port, as far as this user can find out, and what to do. A Hearth server is found by its process-id
 * file; another program, on Linux, by the sockets that it has open.
 */
async function explainTakenPort(host: string, port: number): Promise<string> {
  const taken = `Port ${port} of ${host} is taken.`;
  const servers = await findRunning().catch(() => []);
  const hearth = servers.find((server) => server.port === port && overlap(server.host, host));
  if (hearth !== undefined) {
    return `${taken} The Hearth server of ${hearth.model} has it (process ${hearth.pid}). Stop that ` +
      `(${PROGRAM} stop ${port}), or choose another port with -p.`;
  }
  const owner = Deno.build.os === "linux" ? await findListener(port) : undefined;
  const who = owner === undefined
    ? "Another program has it."
    : `${owner.name} has it (process ${owner.pid}).`;
  return `${taken} ${who} Stop it, or choose another port with -p.`;
}

/** Whether a server that listens at one address also takes the port at the other address. */
function overlap(a: string, b: string): boolean {
  return a === b || a in LOOPBACKS || b in LOOPBACKS;
}

/** Finds the process that listens on a port; `undefined` if this user may not inspect it. */
async function findListener(
  port: number,
): Promise<{ readonly pid: string; readonly name: string } | undefined> {
  const sockets = await listSockets(port);
  for (const pid of await listNames("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const folder = `/proc/${pid}`;
    for (const descriptor of await listNames(`${folder}/fd`)) {
      const target = await Deno.readLink(`${folder}/fd/${descriptor}`).catch(() => "");
      if (!sockets.has(target)) continue;
      const name = await Deno.readTextFile(`${folder}/comm`).catch(() => "a program");
      return { pid, name: name.trim() };
    }
  }
  return undefined;
}

/** The sockets that listen on a port, in the notation of descriptor links: `socket:[1234]`. */
async function listSockets(port: number): Promise<ReadonlySet<string>> {
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((name) => Deno.readTextFile(`/proc/net/${name}`).catch(() => "")),
  );
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = tables.join("\n").split("\n").map((line) => line.trim().split(/\s+/));
  const listening = rows.filter(([, local, , state]) => local?.endsWith(end) && state === LISTENS);
  return new Set(listening.map((row) => `socket:[${row[9]}]`));
}

/** Lists a folder; empty if it cannot be read. */
async function listNames(folder: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  } catch {
    return [];
  }
}
