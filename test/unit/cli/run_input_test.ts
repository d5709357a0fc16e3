import assert from "node:assert/strict";
import { join } from "node:path";
import { looksLikePath, readInputs } from "../../../src/cli/run/input.ts";

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-input-" });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("readInputs() names the input that is empty", () =>
  withFolder(async (folder) => {
    const blank = join(folder, "blank.txt");
    await Deno.writeTextFile(blank, " \n\n");
    for (
      const [given, name] of [
        [[""], '-i ""'],
        [["a text", " \t"], '-i " \t"'],
        [[blank], blank],
      ] as const
    ) {
      await assert.rejects(readInputs(given), {
        name: "StartupError",
        message: `The input is empty: ${name}. Give a text or a file with -i.`,
      });
    }
  }));

Deno.test("readInputs() accepts texts that are not paths, files, and pipes", () =>
  withFolder(async (folder) => {
    const file = join(folder, "a b.txt");
    await Deno.writeTextFile(file, "from a file");
    const texts = [
      "What is 3/4 of 100?",
      "Who wrote deno.json?",
      "x".repeat(5000),
      "nul\0nul",
      "src",
    ];
    const inputs = await readInputs([...texts, file]);
    assert.deepEqual(
      inputs.map(({ name, isFile }) => [name, isFile]),
      [...texts.map((text) => [text, false]), [file, true]],
    );
    assert.equal(new TextDecoder().decode(inputs.at(-1)!.bytes), "from a file");
  }));

Deno.test({
  name: "readInputs() reads the pipe that a shell creates for <(command)",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const pipe = join(folder, "pipe");
      assert.ok((await new Deno.Command("mkfifo", { args: [pipe] }).output()).success);
      const reading = readInputs([pipe]);
      await Deno.writeTextFile(pipe, "from a pipe");
      const [input] = await reading;
      assert.deepEqual(
        [input!.isFile, new TextDecoder().decode(input!.bytes)],
        [true, "from a pipe"],
      );
    }),
});

Deno.test("readInputs() refuses a missing file and a folder", () =>
  withFolder(async (folder) => {
    const missing = join(folder, "photo.jpg");
    await assert.rejects(readInputs(["Describe it.", missing]), {
      name: "StartupError",
      message:
        `There is no file ${missing}. If that is a text rather than a path, send it through standard input: -i -.`,
    });
    await assert.rejects(readInputs(["missing.wav"]), {
      message: /^There is no file missing\.wav\./,
    });
    await assert.rejects(readInputs([folder]), { message: /is a folder; name a file in it/ });
  }));

Deno.test("looksLikePath() distinguishes paths from texts", () => {
  for (
    const path of [
      "photo.jpg",
      "PHOTO.JPEG",
      "photos/cat",
      "/tmp/my holiday.png",
      "./notes to read.txt",
      "~/a.wav",
    ]
  ) assert.ok(looksLikePath(path, "linux"), path);
  for (
    const text of [
      "Hello",
      "What is in photos/cat.jpg",
      "Describe photo.jpg",
      "either/or is a question",
      "https://example.org/a.png",
      "Read this:\nphotos/a.png",
      "\\alpha",
      "e.g.",
      "",
    ]
  ) assert.ok(!looksLikePath(text, "linux"), text);
  assert.ok(looksLikePath("C:\\photos\\cat", "windows"));
});
