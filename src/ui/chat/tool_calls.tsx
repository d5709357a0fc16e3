/**
 * The calls of an answer, with input fields for their results.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ToolCall, Turn } from "./turns.ts";

export type Result = Pick<Turn, "text" | "toolCallId">;

/** @param props.onResults where the results go; absent if the conversation has gone on. */
export function ToolCalls({ calls, onResults }: {
  calls: readonly ToolCall[];
  onResults: ((results: readonly Result[]) => void) | undefined;
}): JSX.Element {
  const [results, setResults] = useState<Readonly<Record<string, string>>>({});
  const send = () =>
    onResults!(calls.map(({ id }) => ({ text: results[id] ?? "", toolCallId: id })));
  return (
    <div class="calls">
      {calls.map(({ id, name, arguments: json }) => (
        <section key={id}>
          <p class="label">Calls {name}</p>
          <pre tabIndex={0}>{indent(json)}</pre>
          {onResults && (
            <label>
              Result of {name}
              <input
                value={results[id] ?? ""}
                onInput={(event) => setResults({ ...results, [id]: event.currentTarget.value })}
              />
            </label>
          )}
        </section>
      ))}
      {onResults && <button type="button" onClick={send}>Go on with these results</button>}
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
