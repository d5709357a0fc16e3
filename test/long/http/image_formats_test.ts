/** The built-in vision and OCR models, on drawings in every file format, over HTTP. */
import assert from "node:assert/strict";
import { distance } from "fastest-levenshtein";
import { Drawing, polygon, rectangle } from "../../fixtures/images/drawing.ts";
import { IMAGE_FILES } from "../../fixtures/images/image_files.ts";
import { TestServer } from "../../fixtures/servers/server.ts";

const COLORS = {
  red: [220, 30, 30],
  green: [30, 160, 60],
  blue: [40, 70, 210],
  yellow: [255, 235, 0],
} as const;
const SHAPES = ["circle", "square", "triangle"] as const;
const SCENES = SHAPES.flatMap((shape) =>
  (Object.keys(COLORS) as (keyof typeof COLORS)[]).map((color) => ({ shape, color }))
);
/** The value for "one shape: describe" in the model card. */
const DESCRIBED = 0.94;
/** The character error rate of clean lines in the model card. */
const CLEAN_ERRORS = 0.026;
const WIDE = 4000;

const FORMS: Readonly<
  Record<string, { readonly encode: typeof IMAGE_FILES[string]; scale: number }>
> = {
  ...Object.fromEntries(
    Object.entries(IMAGE_FILES).map(([name, encode]) => [name, { encode, scale: 1 }]),
  ),
  [`png, ${WIDE} pixels wide`]: { encode: IMAGE_FILES["png"]!, scale: 0 },
  [`jpeg, ${WIDE} pixels wide`]: { encode: IMAGE_FILES["jpeg"]!, scale: 0 },
};

async function ask(
  { server, model, file, question }: {
    server: TestServer;
    model: string;
    file: Uint8Array<ArrayBuffer>;
    question: string;
  },
): Promise<string> {
  const url = `data:image/png;base64,${file.toBase64()}`;
  const content = [
    { type: "image_url", image_url: { url } },
    ...(question === "" ? [] : [{ type: "text", text: question }]),
  ];
  const response = await fetch(`${server.base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content }], temperature: 0 }),
  });
  const { choices, error } = await response.json();
  assert.equal(response.status, 200, error?.message);
  return choices[0].message.content;
}

function drawShape(
  { shape, color }: typeof SCENES[number],
  { width, height }: { width: number; height: number },
): Drawing {
  const drawing = new Drawing({ width, height });
  const [x, y, radius] = [width / 2, height / 2, 0.28 * Math.min(width, height)];
  const outline = shape === "square"
    ? rectangle([x - radius, y - radius], [2 * radius, 2 * radius])
    : polygon([x, y], { radius, corners: shape === "circle" ? 64 : 3 });
  return drawing.fill(outline, COLORS[color]);
}

Deno.test("the built-in vision model names shapes and reads a word in every image format", async (t) => {
  const model = "hearth-demo-vision";
  await using server = await TestServer.start({ model });
  for (const [form, [name, { encode, scale }]] of Object.entries(FORMS).entries()) {
    await t.step(name, async () => {
      const size = scale === 0 ? { width: WIDE, height: WIDE } : { width: 256, height: 256 };
      // A large image takes seconds to draw and encode, so only one is. Other formats get four of the twelve scenes.
      const scenes = scale === 0
        ? SCENES.slice(0, 1)
        : SCENES.filter((_, at) => at % 3 === form % 3);
      const answers: string[] = [];
      for (const scene of scenes) {
        const file = encode(drawShape(scene, size).pixels);
        answers.push(await ask({ server, model, file, question: "What is this?" }));
      }
      const numRight = scenes.filter(({ shape, color }, at) =>
        answers[at] === `A ${color} ${shape} on a white background.`
      ).length;
      assert.ok(numRight >= Math.max(1, Math.floor(DESCRIBED * scenes.length)), answers.join("\n"));
      // A sideways word cannot be read, so Exif matters.
      const drawn = new Drawing(size).text("OPEN", {
        x: 0.12 * size.width,
        baseline: 0.6 * size.height,
        size: 0.28 * size.width,
        isBold: true,
      });
      const file = encode(drawn.pixels);
      assert.match(await ask({ server, model, file, question: "What does it say?" }), /OPEN/);
    });
  }
});

Deno.test("the built-in OCR model reads a page in every file format", async (t) => {
  const model = "hearth-demo-ocr";
  await using server = await TestServer.start({ model });
  const rows = ["Tea for two", "Total: 7.50", "Thank you!"];
  for (const [name, { encode, scale }] of Object.entries(FORMS)) {
    await t.step(name, async () => {
      const times = scale === 0 ? WIDE / 420 : 1;
      const page = new Drawing({ width: Math.round(420 * times), height: Math.round(150 * times) });
      rows.forEach((row, at) =>
        page.text(row, { x: 20 * times, baseline: (45 + 44 * at) * times, size: 28 * times })
      );
      const file = encode(page.pixels);
      const text = (await ask({ server, model, file, question: "" })).trimEnd();
      const wanted = rows.join("\n");
      assert.ok(distance(text, wanted) <= Math.ceil(CLEAN_ERRORS * wanted.length), text);
    });
  }
});
