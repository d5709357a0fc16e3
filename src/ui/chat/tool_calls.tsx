/**
 * The tool calls of an answer. Tools of MCP servers run when the user allows it; for other tools, the user enters the
 * results.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Observed, useObserved } from "./chat_state.ts";
import type { ToolCall, Turn } from "./conversation.ts";
import { McpServers } from "./mcp_servers.tsx";

/** Time when the page was opened. A call in an older turn needs a click, even if its tool is always allowed. */
const OPENED_MS = Date.now();

export type Result = Pick<Turn, "text" | "toolCallId">;

/**
 * Shows the tool calls of an answer.
 *
 * @param props.onResults receives the results; absent while the answer is being written, and if other turns follow it.
 */
export function ToolCalls({ turn, tools: { servers, runs }, onResults }: {
  turn: Turn;
  tools: Tools;
  onResults: ((results: readonly Result[]) => void) | undefined;
}): JSX.Element {
  const calls = turn.toolCalls ?? [];
  const [written, setWritten] = useState<Readonly<Record<string, string>>>({});
  useObserved(servers.observed);
  useObserved(runs.observed);
  const isOpen = onResults !== undefined;
  const remote = calls.filter(({ name }) => servers.find(name) !== undefined);
  const own = calls.filter((call) => !remote.includes(call) && !runs.find(turn, call));
  const isDone = remote.every((call) => runs.find(turn, call)?.isRunning === false);

  useEffect(() => {
    if (!isOpen || turn.createdMs < OPENED_MS) return;
    for (const call of remote) if (runs.isAlwaysAllowed(call.name)) runs.run(turn, call);
  }, [isOpen]);
  const send = () => {
    const results = calls.map((call) => ({
      text: runs.find(turn, call)?.text ?? written[call.id] ?? "",
      toolCallId: call.id,
    }));
    runs.forget(turn);
    onResults!(results);
  };
  useEffect(() => {
    if (isOpen && isDone && remote.length > 0 && own.length === 0) send();
  }, [isOpen, isDone]);

  return (
    <div class="calls">
      {calls.map((call) => (
        <section key={call.id}>
          <p class="label">
            Calls {call.name}
            {servers.find(call.name) && ` of ${servers.find(call.name)!.server}`}
          </p>
          <pre tabIndex={0}>{indent(call.arguments)}</pre>
          {isOpen && remote.includes(call) && (
            <Approval turn={turn} call={call} tools={{ servers, runs }} />
          )}
          {isOpen && own.includes(call) && (
            <label>
              Result of {call.name}
              <input
                value={written[call.id] ?? ""}
                onInput={({ currentTarget: { value } }) =>
                  setWritten({ ...written, [call.id]: value })}
              />
            </label>
          )}
        </section>
      ))}
      {isOpen && own.length > 0 && (
        <button type="button" disabled={!isDone} onClick={send}>Continue with these results</button>
      )}
    </div>
  );
}

function Approval({ turn, call, tools: { runs } }: {
  turn: Turn;
  call: ToolCall;
  tools: Tools;
}): JSX.Element {
  const run = runs.find(turn, call);
  if (run?.isRunning) {
    return (
      <div class="row">
        <span class="soft dots" role="status">Running</span>
        <button type="button" onClick={() => runs.stop(turn, call)}>Stop {call.name}</button>
      </div>
    );
  }
  if (run !== undefined) return <pre tabIndex={0}>{run.text}</pre>;
  return (
    <div class="row" role="group" aria-label={`May ${call.name} run?`}>
      <button type="button" class="main" onClick={() => runs.run(turn, call)}>Allow</button>
      <button
        type="button"
        title="Until this tab is closed"
        onClick={() => {
          runs.alwaysAllow(call.name);
          runs.run(turn, call);
        }}
      >
        Always allow
      </button>
      <button type="button" onClick={() => runs.refuse(turn, call)}>Refuse</button>
    </div>
  );
}

function indent(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

export interface Tools {
  readonly servers: McpServers;
  readonly runs: ToolRuns;
}

/** Creates the MCP servers and tool runs of the page. */
export function createTools(): Tools {
  const servers = new McpServers();
  return { servers, runs: new ToolRuns(servers) };
}

interface ToolRun {
  readonly isRunning: boolean;
  readonly text: string;
}

/** The result that the model gets for a call that the user has refused. */
const REFUSED = "The user refused this call.";
/** Storage key of the names of tools that are always allowed in this tab. */
const ALLOWED_KEY = "hearth.mcp.allowed";

class ToolRuns {
  readonly #servers: McpServers;
  /** Runs by the ids of their answer and call. */
  readonly observed = new Observed<ReadonlyMap<string, ToolRun>>(new Map());
  readonly #controllers = new Map<string, AbortController>();

  constructor(servers: McpServers) {
    this.#servers = servers;
  }

  /** The run of a call, if it was allowed or refused. */
  find(turn: Turn, call: ToolCall): ToolRun | undefined {
    return this.observed.value.get(toKey(turn, call));
  }

  /** Whether the user chose to always allow a tool. */
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
