/**
 * "Show the request": the request that the page sends, as code in three languages.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { CopyButton, QuietButton } from "./controls.tsx";
import { hasApiKey, resolveAddress } from "./server.ts";

/** A request as the page sends it: JSON, or form data with a file and fields. */
type ShownRequest =
  & { readonly path: string; readonly output?: string }
  & (
    | { readonly json: unknown }
    | { readonly form: readonly (readonly [string, string])[]; readonly file: string }
  );

/** Longer strings are shortened in the code that is shown, but not in the code that is copied. */
const MAX_SHOWN = 300;

const WRITERS = { curl: writeCurl, Python: writePython, JavaScript: writeJavaScript };
type Language = keyof typeof WRITERS;

/** A collapsible panel with the request as code in three languages. */
export function RequestCode({ request }: { request: ShownRequest }): JSX.Element {
  const [language, setLanguage] = useState<Language>("curl");
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details class="request" onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>Show the request</summary>
      {isOpen && (
        <figure class="code">
          <figcaption>
            <span class="row" role="group" aria-label="Language">
              {(Object.keys(WRITERS) as Language[]).map((name) => (
                <QuietButton
                  key={name}
                  aria-pressed={name === language}
                  onClick={() => setLanguage(name)}
                >
                  {name}
                </QuietButton>
              ))}
            </span>
            <CopyButton class="quiet" text={() => WRITERS[language](request)} />
          </figcaption>
          <pre tabIndex={0}><code>{WRITERS[language](shorten(request))}</code></pre>
        </figure>
      )}
    </details>
  );
}

function shorten(request: ShownRequest): ShownRequest {
  if (!("json" in request)) return request;
  const text = JSON.stringify(
    request.json,
    (_, value) =>
      typeof value === "string" && value.length > MAX_SHOWN
        ? `${value.slice(0, 60)}… (${value.length} characters)`
        : value,
  );
  return { ...request, json: JSON.parse(text) };
}

/** Quotes text for the shell with apostrophes. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function writeCurl(request: ShownRequest): string {
  const parts = [`curl ${resolveAddress(request.path)}`];
  if (hasApiKey()) parts.push(`-H "authorization: Bearer $HEARTH_API_KEY"`);
  if ("json" in request) {
    parts.push(`-H 'content-type: application/json'`);
    parts.push(`-d ${quote(JSON.stringify(request.json, null, 2))}`);
  } else {
    const [field, name] = splitFile(request.file);
    parts.push(`-F ${quote(`${field}=@${name}`)}`);
    for (const [key, value] of request.form) parts.push(`-F ${quote(`${key}=${value}`)}`);
  }
  if (request.output !== undefined) parts.push(`-o ${request.output}`);
  return parts.join(" \\\n  ");
}

/** Splits `file=speech.wav` into the field and the file's name. */
function splitFile(file: string): [string, string] {
  const at = file.indexOf("=");
  return [file.slice(0, at), file.slice(at + 1)];
}

function writePython(request: ShownRequest): string {
  const headers = hasApiKey()
    ? `\n    headers={"Authorization": f"Bearer {os.environ['HEARTH_API_KEY']}"},`
    : "";
  const body = "json" in request
    ? `    json=json.loads(r"""${
      // A raw string cannot contain three quotes, so they are escaped as JSON.
      JSON.stringify(request.json, null, 2).replaceAll('"""', '""\\u0022')}"""),`
    : `    files={${JSON.stringify(splitFile(request.file)[0])}: open(${
      JSON.stringify(splitFile(request.file)[1])
    }, "rb")},\n    data=[${
      request.form.map(([key, value]) => `(${JSON.stringify(key)}, ${JSON.stringify(value)})`)
        .join(", ")
    }],`;
  const result = request.output === undefined
    ? "print(response.text)"
    : `open(${JSON.stringify(request.output)}, "wb").write(response.content)`;
  const imports = ["json" in request && "json", hasApiKey() && "os", "requests"].filter(Boolean);
  return `import ${imports.join(", ")}

response = requests.post(
    ${JSON.stringify(resolveAddress(request.path))},${headers}
${body}
)
response.raise_for_status()
${result}`;
}

function writeJavaScript(request: ShownRequest): string {
  const headers = [
    ..."json" in request ? [`"content-type": "application/json"`] : [],
    ...hasApiKey() ? ["authorization: `Bearer ${process.env.HEARTH_API_KEY}`"] : [],
  ];
  const head = headers.length > 0 ? `\n  headers: { ${headers.join(", ")} },` : "";
  const form = "json" in request ? "" : `import { openAsBlob } from "node:fs";

const form = new FormData();
form.append(${JSON.stringify(splitFile(request.file)[0])}, await openAsBlob(${
    JSON.stringify(splitFile(request.file)[1])
  }), ${JSON.stringify(splitFile(request.file)[1])});
${
    request.form.map(([key, value]) =>
      `form.append(${JSON.stringify(key)}, ${JSON.stringify(value)});`
    ).join("\n")
  }
`;
  const body = "json" in request
    ? `JSON.stringify(${JSON.stringify(request.json, null, 2).replaceAll("\n", "\n  ")})`
    : "form";
  const result = request.output === undefined
    ? "console.log(await response.text());"
    : `await (await import("node:fs/promises")).writeFile(${
      JSON.stringify(request.output)
    }, new Uint8Array(await response.arrayBuffer()));`;
  return `${form}const response = await fetch(${JSON.stringify(resolveAddress(request.path))}, {
  method: "POST",${head}
  body: ${body},
});
${result}`;
}
