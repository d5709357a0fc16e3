/** Stored responses belong to the key with which they were requested. */
import assert from "node:assert/strict";
import { MODEL, TestApp } from "../fixtures/servers/server.ts";

const apiKeys = [{ label: "ann", key: "key-of-ann" }, { label: "ben", key: "key-of-ben" }];

Deno.test("a stored response, its input and its items are only found with the key that created them", async () => {
  await using app = await new TestApp({ settings: { apiKeys } }).ready();
  const headers = (name: string) => ({ authorization: `Bearer key-of-${name}` });
  const create = async (name: string, extra: Record<string, unknown> = {}) => {
    const body = { model: MODEL, input: "My word is plover.", max_output_tokens: 4, ...extra };
    const answer = await app.post("/v1/responses", body, { headers: headers(name) });
    return { status: answer.status, body: await answer.json() };
  };
  const ask = (name: string, path: string, method = "GET") =>
    app.request(path, { method, headers: headers(name) });
  const made = await create("ann");
  const { id, output: [item] } = made.body;
  const path = `/v1/responses/${id}`;
  const [input] = (await (await ask("ann", `${path}/input_items`)).json()).data;

  for (const [name, status] of [["ben", 404], ["ann", 200]] as const) {
    assert.equal((await ask(name, path)).status, status);
    assert.equal((await ask(name, `${path}/input_items`)).status, status);
    assert.equal((await create(name, { previous_response_id: id })).status, status);
    for (const each of [item, input]) {
      const reference = [{ type: "item_reference", id: each.id }];
      const said = await create(name, { input: reference });
      assert.equal(said.status, status);
    }
    assert.equal((await ask(name, path, "DELETE")).status, status);
  }
  const unknown = await (await ask("ben", "/v1/responses/resp_x")).json();
  const foreign = await (await ask("ben", path)).json();
  assert.equal(
    foreign.error.message.replace(id, ""),
    unknown.error.message.replace("resp_x", ""),
    "the answer does not reveal that another key's response exists",
  );
});
