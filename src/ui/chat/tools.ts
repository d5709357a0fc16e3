/**
 * The tools of MCP servers: the servers, and the runs that the user allowed.
 *
 * @module
 */
import { McpServers } from "./mcp_servers.ts";
import { Observed } from "../observed.ts";
import type { ToolCall, Turn } from "./turns.ts";

export interface Tools {
  readonly servers: McpServers;
  readonly runs: ToolRuns;
}

/** The tools of the page. */
export function createTools(): Tools {
  const servers = new McpServers();
  return { servers, runs: new ToolRuns(servers) };
}

/** The state of a call. */
interface ToolRun {
  readonly isRunning: boolean;
  readonly text: string;
}

/** What the model is told about a call that the user refused. */
const REFUSED = "The user refused this call.";
/** Storage key of the names of tools that are always allowed in this tab. */
const ALLOWED_KEY = "hearth.mcp.allowed";

class ToolRuns {
  readonly #servers: McpServers;
  /** Runs by answer and call. */
  readonly observed = new Observed<ReadonlyMap<string, ToolRun>>(new Map());
  readonly #controllers = new Map<string, AbortController>();

  constructor(servers: McpServers) {
    this.#servers = servers;
  }

  /** The run of a call, if it was allowed or refused. */
  find(turn: Turn, call: ToolCall): ToolRun | undefined {
    return this.observed.value.get(toKey(turn, call));
  }

  /** Whether the user has always allowed a tool. */
  isAlwaysAllowed(name: string): boolean {
    const found = this.#servers.find(name);
    return found !== undefined && readAllowed().includes(`${found.url} ${found.tool}`);
  }

  alwaysAllow(name: string): void {
    const found = this.#servers.find(name);
    if (found === undefined) return;
    const allowed = [...readAllowed(), `${found.url} ${found.tool}`];
    sessionStorage.setItem(ALLOWED_KEY, JSON.stringify(allowed));
  }

  /** Runs a call. A failure is told to the model as the call's result. */
  async run(turn: Turn, call: ToolCall): Promise<void> {
    const key = toKey(turn, call);
    if (this.observed.value.has(key)) return;
    const controller = new AbortController();
    this.#controllers.set(key, controller);
    this.#set(key, { isRunning: true, text: "" });
    let text: string;
    try {
      text = await this.#servers.call(call.name, call.arguments, controller.signal);
    } catch (error) {
      text = controller.signal.aborted
        ? "The user stopped this call."
        : `Error: ${(error as Error).message}`;
    }
    this.#controllers.delete(key);
    this.#set(key, { isRunning: false, text });
  }

  stop(turn: Turn, call: ToolCall): void {
    this.#controllers.get(toKey(turn, call))?.abort();
  }

  refuse(turn: Turn, call: ToolCall): void {
    this.#set(toKey(turn, call), { isRunning: false, text: REFUSED });
  }

  /** Forgets the runs of an answer after their results became part of the conversation. */
  forget(turn: Turn): void {
    const runs = new Map(this.observed.value);
    for (const call of turn.toolCalls ?? []) runs.delete(toKey(turn, call));
    this.observed.value = runs;
  }

  #set(key: string, run: ToolRun): void {
    this.observed.value = new Map(this.observed.value).set(key, run);
  }
}

function toKey(turn: Turn, call: ToolCall): string {
  return `${turn.id} ${call.id}`;
}

function readAllowed(): string[] {
  return JSON.parse(sessionStorage.getItem(ALLOWED_KEY) ?? "[]");
}
