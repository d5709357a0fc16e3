/** The built-in vision and OCR models over HTTP, on drawings with known content. */
import assert from "node:assert/strict";
import { encodePng } from "../../src/media/image/png.ts";
import { Drawing, polygon, rectangle } from "../fixtures/images/drawing.ts";
import { TestServer } from "../fixtures/servers/server.ts";

const QUESTION = "What is this?";
const COLORS = { red: [220, 30, 30], green: [30, 160, 60], blue: [40, 70, 210] } as const;

function drawShape(shape: string, color: keyof typeof COLORS, size = 256): Uint8Array<ArrayBuffer> {
  const drawing = new Drawing({ width: size, height: size });
  const [middle, radius] = [size / 2, 0.28 * size];
  const outline = shape === "square"
    ? rectangle([middle - radius, middle - radius], [2 * radius, 2 * radius])
    : polygon([middle, middle], { radius, corners: shape === "circle" ? 64 : 3 });
  return encodePng(drawing.fill(outline, COLORS[color]).pixels);
}

function makeMessage(file: Uint8Array<ArrayBuffer>, question: string): Record<string, unknown> {
  const url = `data:image/png;base64,${file.toBase64()}`;
  return {
    role: "user",
    content: [{ type: "image_url", image_url: { url } }, { type: "text", text: question }],
  };
}

async function ask(server: TestServer, model: string, messages: unknown[]): Promise<string> {
  const response = await fetch(`${server.base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages, temperature: 0 }),
  });
  const { choices, error } = await response.json();
  assert.equal(response.status, 200, error?.message);
  return choices[0].message.content;
}

Deno.test("shapes are named with their colour, a second question encodes no image again, and eight at once give the same answers as one", async () => {
  const model = "hearth-demo-vision";
  await using server = await TestServer.start({ model });
  const shapes = ["circle", "square", "triangle"].flatMap((shape) =>
    (Object.keys(COLORS) as (keyof typeof COLORS)[]).map((color) => ({ shape, color }))
  );
  const look = ({ shape, color }: (typeof shapes)[number]) =>
    ask(server, model, [makeMessage(drawShape(shape, color), QUESTION)]);
  const answers: string[] = [];
  for (const each of shapes) answers.push(await look(each));
  const numRight =
    shapes.filter(({ shape, color }, i) =>
      answers[i] === `A ${color} ${shape} on a white background.`
    ).length;
  // According to the model card, 94 of 100 descriptions are right.
  assert.ok(numRight >= 8, answers.join("\n"));

  const runs = await server.figure("hearth_vision_encoder_runs_total");
  const again = await ask(server, model, [
    makeMessage(drawShape("circle", "red"), QUESTION),
    { role: "assistant", content: answers[0] },
    { role: "user", content: "What color is it?" },
  ]);
  assert.match(again, /red/i);
  assert.equal(await server.figure("hearth_vision_encoder_runs_total"), runs);
  assert.deepEqual(await Promise.all(shapes.slice(0, 8).map(look)), answers.slice(0, 8));

  const wide = drawShape("circle", "blue", 4000);
  assert.equal(await ask(server, model, [makeMessage(wide, QUESTION)]), answers[2]);
});

Deno.test("a drawn page is read row by row, alone and eight at once", async () => {
  const model = "hearth-demo-ocr";
  await using server = await TestServer.start({ model });
  const rows = ["Tea for two", "Total: 7.50", "Thank you!"];
  const page = new Drawing({ width: 420, height: 150 });
  rows.forEach((row, i) => page.text(row, { x: 20, baseline: 45 + 44 * i, size: 28 }));
  const read = () => ask(server, model, [makeMessage(encodePng(page.pixels), "")]);
  const texts = [await read(), ...await Promise.all(Array.from({ length: 8 }, read))];
  for (const text of texts) assert.equal(text.trimEnd(), rows.join("\n"));
});
