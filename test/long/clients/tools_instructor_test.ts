/** Instructor, which requires zod 3, against a real server on a real port. */
import assert from "node:assert/strict";
import createInstructor from "@instructor-ai/instructor";
import OpenAI from "openai";
import { z } from "zod3";
import { MODEL, TestServer } from "../../fixtures/servers/server.ts";

const Person = z.object({ name: z.string().max(20), age: z.number().int().min(0).max(130) });

for (const mode of ["TOOLS", "JSON_SCHEMA"] as const) {
  Deno.test(`@instructor-ai/instructor: an answer matches the schema, by ${mode}`, async () => {
    await using server = await TestServer.start();
    const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
    // deno-lint-ignore no-explicit-any -- Instructor's types are for an older client; what it uses is the same.
    const instructor = createInstructor({ client: client as any, mode });
    const question = "Extract the name and the age as JSON: Bob is 42 years old.";
    const person = await instructor.chat.completions.create({
      model: MODEL,
      messages: [{ role: "user", content: question }],
      temperature: 0,
      response_model: { schema: Person, name: "Person" },
    });
    assert.ok(Person.safeParse(person).success, JSON.stringify(person));
  });
}
