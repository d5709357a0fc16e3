/**
 * The tool calls of an answer. Tools of MCP servers run when the user allows it; for other tools, the user enters the
 * results.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useObserved } from "../observed.ts";
import type { Tools } from "./tools.ts";
import type { ToolCall, Turn } from "./turns.ts";

/** Calls in turns from earlier visits need a click, whatever was allowed then. */
const OPENED_MS = Date.now();

export type Result = Pick<Turn, "text" | "toolCallId">;

/** @param props.onResults receives the results; absent if the conversation has gone on. */
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
