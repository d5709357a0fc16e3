/**
 * Who listens on a port that is taken.
 *
 * @module
 */
import { PROGRAM } from "../base/version.ts";
import { findRunning } from "./running.ts";

/** `ss -l`'s state of a socket that listens, in /proc/net/tcp. */
const LISTENS = "0A";

const WILDCARDS: readonly string[] = ["0.0.0.0", "::"];

/**
 * The message for a port that is taken: who has it, as far as this user can find out, and what to do. A Hearth is known
 * by its process-id file, on Linux another program by its process.
 */
export async function explainTakenPort(host: string, port: number): Promise<string> {
  const taken = `Port ${port} of ${host} is taken.`;
  const servers = await findRunning().catch(() => []);
  const hearth = servers.find((server) => server.port === port && overlap(server.host, host));
  if (hearth !== undefined) {
    return `${taken} The Hearth that serves ${hearth.model} has it (process ${hearth.pid}). Stop it ` +
      `(${PROGRAM} stop ${port}), or choose another port with -p.`;
  }
  const owner = Deno.build.os === "linux" ? await findListener(port) : undefined;
  const who = owner === undefined
    ? "Another program has it."
    : `${owner.name} has it (process ${owner.pid}).`;
  return `${taken} ${who} Stop it, or choose another port with -p.`;
}

/** Whether who listens at one address leaves no room at the other. */
function overlap(a: string, b: string): boolean {
  return a === b || WILDCARDS.includes(a) || WILDCARDS.includes(b);
}

/** The process that listens on a port; `undefined` if there is none that this user may look at. */
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

/** The sockets that listen on a port, as links to descriptors name them: `socket:[1234]`. */
async function listSockets(port: number): Promise<ReadonlySet<string>> {
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((name) => Deno.readTextFile(`/proc/net/${name}`).catch(() => "")),
  );
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = tables.join("\n").split("\n").map((line) => line.trim().split(/\s+/));
  const listening = rows.filter(([, local, , state]) => local?.endsWith(end) && state === LISTENS);
  return new Set(listening.map((row) => `socket:[${row[9]}]`));
}

/** What a folder holds; nothing where it may not be read. */
async function listNames(folder: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  } catch {
    return [];
  }
}
