/**
 * Adds and removes MCP servers, and shows their tools.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "../controls.tsx";
import { useObserved } from "../observed.ts";
import type { McpServer, McpServers } from "./mcp_servers.ts";

export function McpPanel({ servers }: { servers: McpServers }): JSX.Element {
  const list = useObserved(servers.observed);
  const [url, setUrl] = useState("");
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState<string>();
  const add = () => {
    try {
      servers.add(url, token);
      setUrl("");
      setToken("");
      setFailure(undefined);
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  return (
    <fieldset>
      <legend>Tools of MCP servers</legend>
      {list.length > 0 && (
        <ul>
          {list.map((server) => <Entry key={server.url} server={server} servers={servers} />)}
        </ul>
      )}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <label>
          Address
          <input
            inputMode="url"
            placeholder="https://example.org/mcp"
            value={url}
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        </label>
        <label>
          Token
          <small>
            Only if the server requires one and has no sign-in. It is kept until this tab is closed.
          </small>
          <input
            type="password"
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={url.trim() === ""}>Add server</button>
      </form>
      <Failure message={failure} />
      <small>Streamable HTTP. Each call is shown and waits until you allow it.</small>
    </fieldset>
  );
}

function Entry({ server, servers }: { server: McpServer; servers: McpServers }): JSX.Element {
  const { url, state, name = url, tools, failure, signInAddress } = server;
  return (
    <li class="stack">
      <details>
        <summary>
          {name}{" "}
          <span class="soft" role="status">
            {state === "connected" ? `${tools.length} tools` : state}
          </span>
        </summary>
        <ul>
          {tools.map((tool) => (
            <li key={tool.name} class="stack">
              <code>{tool.name}</code>
              <small>{tool.description}</small>
            </li>
          ))}
        </ul>
      </details>
      <Failure message={failure} />
      <div class="row">
        {signInAddress && (
          <button type="button" onClick={() => location.assign(signInAddress)}>Sign in</button>
        )}
        {state === "failed" && (
          <button type="button" onClick={() => servers.retry(url)}>Try again</button>
        )}
        <button type="button" aria-label={`Remove ${name}`} onClick={() => servers.remove(url)}>
          Remove
        </button>
      </div>
    </li>
  );
}
