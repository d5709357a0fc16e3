/** The built-in models of texts by name, as a person starts them. */
import assert from "node:assert/strict";
import { HearthProcess } from "../fixtures/hearth_process.ts";

async function post(url: string, body: unknown): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

Deno.test("-m hearth-demo-embed embeds", async () => {
  await using hearth = new HearthProcess(["-m", "hearth-demo-embed", "-p", "0", "--device", "cpu"]);
  const base = await hearth.ready();
  assert.match(hearth.stdout, /kind +embedding\n.*dtype +fp32\n/);
  const { data } = await (await post(`${base}/v1/embeddings`, { input: "an egg" })).json();
  assert.equal(data[0].embedding.length, 128);
});

Deno.test("-m hearth-demo-rerank reranks", async () => {
  await using hearth = new HearthProcess([
    "-m",
    "hearth-demo-rerank",
    "-p",
    "0",
    "--device",
    "cpu",
  ]);
  const base = await hearth.ready();
  assert.match(hearth.stdout, /kind +rerank\n/);
  const documents = ["Put the egg into boiling water.", "The capital of Portugal is Lisbon."];
  const query = "what is the capital of Portugal";
  const { results } = await (await post(`${base}/v1/rerank`, { query, documents })).json();
  assert.equal(results[0].index, 1);
});
