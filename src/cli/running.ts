/**
 * The servers that run on this machine for this user, by their process-id files.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../base/errors.ts";
import { formatUrl } from "./format_url.ts";
import { isAbsence, isAlive, type PidRecord, runFolder } from "./pid_file.ts";

const HEALTH_TIMEOUT_MS = 2_000;
const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** The state of a server that does not answer. */
export const NO_ANSWER = "does not answer";

/** A server that has a process. */
export interface RunningServer extends PidRecord {
  /** Its URL from this machine. */
  readonly url: string;
}

/** All running servers. Files of processes that no longer exist are removed. */
export async function findRunning(): Promise<RunningServer[]> {
  const folder = runFolder();
  const servers: RunningServer[] = [];
  for (const name of await listFiles(folder)) {
    if (!/^\d+(@[\w.]+)?\.pid$/.test(name)) continue;
    const path = join(folder, name);
    const record = await readRecord(path);
    // Files are renamed into place, so an incomplete one belongs to no server.
    if (record === undefined || !isAlive(record.pid)) await Deno.remove(path).catch(() => {});
    else {
      const host = WILDCARDS[record.host] ?? record.host;
      servers.push({ ...record, url: formatUrl(host, record.port) });
    }
  }
  return servers.sort((a, b) => a.port - b.port);
}

/** The state that a server reports: `ready`, or why it is not. */
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
