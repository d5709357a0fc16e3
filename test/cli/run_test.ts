import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { decodeImage } from "../../src/media/image.ts";
import { discFile } from "../fixtures/images/matting.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import goldens from "../fixtures/models/goldens/speech.json" with { type: "json" };
import visionGoldens from "../fixtures/models/vision/goldens.json" with { type: "json" };
import { drawImage, KEPT_SIZES, makeSound } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { findSpeechFolder, speechTest } from "../fixtures/audio/speech.ts";
import { CLIP, CLIP_TEXT } from "../fixtures/servers/speech_server.ts";
import { goldenSound, makeTinySpeech } from "../fixtures/models/tiny_speech.ts";

const CPU = ["--device", "cpu"];
const CHAT = ["run", "hearth-demo-chat", ...CPU, "--temperature", "0"];

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-run-" });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("run of a text model gives the same answer for a text and a file, and at a terminal", async () => {
  await withFolder(async (folder) => {
    const question = "What is the capital of France?";
    const expected = "The capital of France is Paris.\n";
    const { code, stdout, stderr } = await runHearth([...CHAT, "-i", question]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: expected, stderr: "" });
    const path = join(folder, "question.txt");
    await Deno.writeTextFile(path, `${question}\n`);
    const output = join(folder, "answer.txt");
    const file = await runHearth([...CHAT, "-i", path, "-o", output]);
    assert.deepEqual({ code: file.code, stdout: file.stdout }, { code: 0, stdout: "" });
    assert.equal(await Deno.readTextFile(output), expected);
    if (!hasTerminals) return;
    const terminal = await runInTerminal([...CHAT, "-i", question]);
    assert.equal(terminal.code, 0);
    assert.match(terminal.screen, /Loading hearth-demo-chat|hearth-demo-chat: /);
    assert.ok(terminal.screen.endsWith(`\x1b[K\r${expected}`), terminal.screen);
  });
});

Deno.test("run on the CPU leaves nothing in the home, cache and temporary folders, such as ONNX Runtime's telemetry", async () => {
  await withFolder(async (folder) => {
    const denoInfo = new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).outputSync();
    const { denoDir } = JSON.parse(new TextDecoder().decode(denoInfo.stdout));
    const folders = { HOME: folder, XDG_CACHE_HOME: folder, TMPDIR: folder };
    const env = { ...folders, DENO_DIR: denoDir, ORT_DISABLE_TELEMETRY: "" };
    const { code, stderr } = await runHearth([...CHAT, "-i", "Hello"], { env });
    assert.equal(code, 0, stderr);
    assert.deepEqual(Array.from(Deno.readDirSync(folder), ({ name }) => name), []);
  });
});

Deno.test("run --max-tokens limits the length of the answer", async () => {
  const { stdout } = await runHearth([...CHAT, "--max-tokens", "2", "-i", "Tell me a story."]);
  assert.ok(stdout.length > 1 && stdout.length < 30, stdout);
});

Deno.test("run --verbose writes timings and tokens/s to standard error, and the answer alone to standard output", async () => {
  const question = ["-i", "What is the capital of France?"];
  const { code, stdout, stderr } = await runHearth([...CHAT, ...question, "--verbose"]);
  assert.deepEqual([code, stdout], [0, "The capital of France is Paris.\n"]);
  assert.match(
    stderr,
    /^loaded hearth-demo-chat \(\w+\) on cpu, .+, in \d+\.\d\d s\nprompt of \d+ tokens, \d+ tokens in \d+\.\d\d s, first after \d+\.\d\d s, \d+\.\d tokens\/s\n$/,
  );
  const embed = await runHearth(["run", "hearth-demo-embed", ...CPU, "-i", "a cow", "--verbose"]);
  assert.match(embed.stderr, /\nanswered in \d+\.\d\d s\n$/);
  await withFolder(async (folder) => {
    const sound = join(folder, "hello.wav");
    const speech = ["run", "hearth-demo-tts", ...CPU, "-i", "Hello there.", "-o", sound];
    const spoken = await runHearth([...speech, "--verbose"]);
    const times = /\nspoke \d+\.\d\d s in (\S+) s, first audio after (\S+) s, .*times as fast/
      .exec(spoken.stderr);
    assert.ok(times, spoken.stderr);
    assert.ok(Number(times[2]) <= Number(times[1]), times[0]);
    const heard = await runHearth(["run", "hearth-demo-asr", ...CPU, "-i", sound, "--verbose"]);
    // An answer that arrives in one chunk has no tokens/s.
    assert.match(
      heard.stderr,
      /, \d+ tokens in \S+ s, first after \S+ s, \S+ times as fast as the \d+\.\d\d s of audio\n$/,
    );
  });
});

Deno.test({
  name:
    "run --verbose begins its timings on a new line if standard output and error are the same pipe",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
    const run = [Deno.execPath(), "run", "-A", "--no-check", main, ...CHAT, "--verbose"];
    const words = [...run, "-i", "What is the capital of France?"];
    const shell = new Deno.Command("sh", { args: ["-c", '"$@" 2>&1', "sh", ...words] });
    const { stdout } = await shell.output();
    const seen = new TextDecoder().decode(stdout);
    assert.match(seen, /\nThe capital of France is Paris\.\nprompt of \d+ tokens/);
  },
});

Deno.test("run of an embedding model writes a vector per text", async () => {
  const texts = ["-i", "A cow, and a calf.", "-i", "Lisbon"];
  const { code, stdout } = await runHearth(["run", "hearth-demo-embed", ...CPU, ...texts]);
  assert.equal(code, 0);
  const vectors = stdout.trim().split("\n").map((line) => JSON.parse(line) as number[]);
  assert.equal(vectors.length, 2);
  for (const vector of vectors) {
    assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-4);
  }
});

Deno.test("run of a reranker writes documents with their scores, the best first", async () => {
  const words = ["run", "hearth-demo-rerank", ...CPU, "-i", "the capital of Spain"];
  const documents = ["-i", "Cows say moo.", "-i", "Madrid is the capital of Spain."];
  const { code, stdout } = await runHearth([...words, ...documents]);
  assert.equal(code, 0);
  assert.match(stdout, /^0\.\d{6}\tMadrid is .*\n0\.\d{6}\tCows say moo\.\n$/);
  const alone = await runHearth(words);
  assert.equal(alone.code, 1);
  assert.match(alone.stderr, /takes a query and then documents/);
});

Deno.test("run of a speech model refuses inputs that are not recordings", async () => {
  const words = ["run", "hearth-demo-asr", ...CPU, "-i"];
  const text = await runHearth([...words, "hello"]);
  assert.equal(text.code, 1);
  assert.match(text.stderr, /takes audio files, and there is no file "hello"\.\n$/);
  const noSound = await runHearth([...words, "deno.json"]);
  assert.equal(noSound.code, 1);
  assert.match(noSound.stderr, /^hearth: .*is not supported audio/);
});

Deno.test("run of a background-removal model writes a PNG file, and refuses files that are not images", async () => {
  await withFolder(async (folder) => {
    const words = ["run", "hearth-demo-matting", ...CPU];
    const image = join(folder, "disc.png");
    await Deno.writeFile(image, discFile(40, 30));
    const output = join(folder, "cut out.png");
    const { code, stdout, stderr } = await runHearth([...words, "-i", image, "-o", output]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: "", stderr: "" });
    const { width, height, channels } = await decodeImage(await Deno.readFile(output));
    assert.deepEqual([width, height, channels], [40, 30, 4]);
    const jpeg = await runHearth([...words, "-i", image, "-o", join(folder, "a.jpg")]);
    assert.equal(jpeg.code, 1);
    assert.match(
      jpeg.stderr,
      /a\.jpg cannot be written: want a name that ends in \.png, saw \.jpg/,
    );
    const text = await runHearth([...words, "-i", "a cat"]);
    assert.equal(text.code, 1);
    assert.match(text.stderr, /takes image files: -i photo\.jpg\. There is no file "a cat"/);
    const noImage = await runHearth([...words, "-i", "deno.json"]);
    assert.equal(noImage.code, 1);
    assert.match(noImage.stderr, /^hearth: deno\.json: The file is not a supported image/);
    if (!hasTerminals) return;
    const terminal = await runInTerminal([...words, "-i", image]);
    assert.equal(terminal.code, 1);
    assert.match(terminal.screen, /name a file for it with -o/);
  });
});

Deno.test("run of a background-removal model writes a file for each image", async () => {
  await withFolder(async (folder) => {
    const [first, second] = [join(folder, "a", "disc.png"), join(folder, "b", "disc.png")];
    for (const [index, path] of [first, second].entries()) {
      await Deno.mkdir(join(path, ".."));
      await Deno.writeFile(path, discFile(40 + index, 30));
    }
    const words = ["run", "hearth-demo-matting", ...CPU, "-i", first, "-i", second];
    const computeWidth = async (...path: string[]) =>
      (await decodeImage(await Deno.readFile(join(folder, ...path)))).width;
    const into = await runHearth([...words, "-o", join(folder, "cut/")]);
    assert.deepEqual([into.code, into.stdout, into.stderr], [0, "", ""]);
    assert.deepEqual([
      await computeWidth("cut", "disc.png"),
      await computeWidth("cut", "disc-2.png"),
    ], [
      ...[40, 41],
    ]);
    const numbered = await runHearth([...words, "-o", join(folder, "cut.png")]);
    assert.equal(numbered.code, 0, numbered.stderr);
    assert.deepEqual([await computeWidth("cut-1.png"), await computeWidth("cut-2.png")], [40, 41]);
    const replacing = await runHearth([...words, "-o", join(folder, "a")]);
    assert.equal(replacing.code, 1);
    assert.match(
      replacing.stderr,
      /disc\.png would be overwritten by a result: name another folder/,
    );
    assert.deepEqual(await Deno.readFile(first), discFile(40, 30));
    const nowhere = await runHearth(words);
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.stderr, /There are 2 results: name a folder for them with -o/);
  });
});

Deno.test("run of a vision model answers a message of images and texts, and refuses other files", async () => {
  await using model = await makeVisionFolder("idefics3");
  await withFolder(async (folder) => {
    const image = join(folder, "waves.png");
    await Deno.writeFile(image, drawImage(0, KEPT_SIZES.idefics3));
    const { completion } = visionGoldens.idefics3["one image"];
    const { decode } = await loadTokenizer(await openFolder(model.path));
    const args = ["run", model.path, ...CPU, "--temperature", "0", "--max-tokens", "16"];
    const inputs = ["-i", image, "-i", "What can you tell me?"];
    const { code, stdout, stderr } = await runHearth([...args, ...inputs]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    assert.equal(stdout, `${decode(completion)}\n`);

    const noise = join(folder, "noise.bin");
    await Deno.writeFile(noise, Uint8Array.of(0xff, 0xfe, 0, 1, 2, 3));
    const refused = await runHearth([...args, "-i", noise, "-i", "What is this?"]);
    assert.deepEqual([refused.code, refused.stdout], [1, ""]);
    assert.match(refused.stderr, /noise\.bin: The file is not a supported image/);
  });
});

Deno.test("run of a chat model that takes sounds answers a message of a sound and a text", async () => {
  await using model = await makeVisionFolder("gemma4");
  await withFolder(async (folder) => {
    const sound = join(folder, "speech.wav");
    await Deno.writeFile(sound, makeWav(makeSound(0)));
    const { completion } = visionGoldens.gemma4["a sound"];
    const { decode } = await loadTokenizer(await openFolder(model.path));
    const words = ["run", model.path, ...CPU, "--temperature", "0", "--max-tokens", "16"];
    const { code, stdout, stderr } = await runHearth([
      ...[...words, "-i", sound, "-i", "What is said?"],
    ]);
    assert.deepEqual({ code, stdout, stderr }, {
      code: 0,
      stdout: `${decode(completion)}\n`,
      stderr: "",
    });
  });
});

Deno.test("run of a speech model writes a line per recording", async () => {
  await using tiny = await makeTinySpeech("moonshine");
  await withFolder(async (folder) => {
    const golden = goldens.filter(({ model, seconds }) => model === "moonshine" && seconds < 10);
    const inputs = await Promise.all(golden.map(async ({ seconds }) => {
      const path = join(folder, `${seconds}.wav`);
      await Deno.writeFile(path, makeWav(goldenSound(seconds)));
      return ["-i", path];
    }));
    const expected = golden.map(({ text }) => `${text}\n`).join("");
    const output = join(folder, "transcript.txt");
    const words = ["run", tiny.folder, ...CPU, ...inputs.flat()];
    const { code, stdout, stderr } = await runHearth(words);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: expected, stderr: "" });
    assert.equal((await runHearth([...words, "-o", output])).code, 0);
    assert.equal(await Deno.readTextFile(output), expected);
    const noVad = await runHearth([...words, "--vad", folder]);
    assert.deepEqual([noVad.code, noVad.stdout], [1, ""]);
    assert.match(noVad.stderr, /has no config\.json.* \(--vad\)/);
  });
});

speechTest(
  "run of the built-in speech model transcribes, also with --vad",
  async (folder) => {
    const words = ["run", "hearth-demo-asr", ...CPU, "-i", `${folder}/demo/${CLIP.file}`];
    const expected = { code: 0, stdout: `${CLIP_TEXT}\n`, stderr: "" };
    const vad = findModelFolder("silero-vad");
    for (const more of [[], ...(vad === undefined ? [] : [["--vad", vad]])]) {
      const { code, stdout, stderr } = await runHearth([...words, ...more]);
      assert.deepEqual({ code, stdout, stderr }, expected, more.join(" "));
    }
  },
);

Deno.test("run without an input, with an output that cannot be written, or with a broken model says so and exits 1", async () => {
  await withFolder(async (folder) => {
    const output = await runHearth([...CHAT, "-i", "x", "-o", join(folder, "no", "where")]);
    assert.equal(output.code, 1);
    assert.match(output.stderr, /^hearth: .*where cannot be written: .*\n$/);
    if (hasTerminals) {
      const nothing = await runInTerminal(["run", "hearth-demo-embed", ...CPU]);
      assert.equal(nothing.code, 1);
      assert.match(
        nothing.screen,
        /give a text or a file with -i\. Models of kind embedding cannot chat/,
      );
    }
    await Deno.writeTextFile(join(folder, "config.json"), "{}");
    const broken = await runHearth(["run", folder, "-i", "x"]);
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /ERROR the model could not be loaded .*The kind of .* is unknown/);
    assert.doesNotMatch(broken.stderr, / {4}at /);
  });
});

Deno.test("run refuses a flag that does not apply to the kind of model", async () => {
  for (
    const [model, ...flag] of [
      ["hearth-demo-chat", "--voice", "af_nova"],
      ["hearth-demo-embed", "--temperature", "1"],
      ["hearth-demo-tts", "--max-tokens", "9"],
      ["hearth-demo-rerank", "--speed", "2"],
    ] as const
  ) {
    const { code, stdout, stderr } = await runHearth(["run", model, ...CPU, "-i", "x", ...flag]);
    assert.deepEqual([code, stdout], [1, ""], model);
    assert.match(
      stderr,
      new RegExp(`^hearth: ${flag[0]} is for models of kind .*, and this one is of kind`),
    );
  }
});

Deno.test("run that fails creates no file", async () => {
  await withFolder(async (folder) => {
    const output = join(folder, "\u00e4 new.wav");
    for (
      const words of [
        ["hearth-demo-tts", "--voice", "nobody", "-i", "x"],
        ["hearth-demo-asr", "-i", `${findSpeechFolder()}/demo/${CLIP.file}`, "-i", "deno.json"],
        ["hearth-demo-rerank", "-i", "alone"],
      ]
    ) {
      assert.equal((await runHearth(["run", ...words, ...CPU, "-o", output])).code, 1);
      assert.deepEqual([...Deno.readDirSync(folder)], [], words[0]);
    }
    const { code, stderr } = await runHearth([...CHAT, "-i", "x", "-o", folder]);
    assert.equal(code, 1);
    assert.match(stderr, /cannot be written: it is a folder; name a file in it/);
  });
});

Deno.test("run takes - for standard input and output", async () => {
  const asked = await runHearth([...CHAT, "-i", "-", "-o", "-"], {
    input: "What is the capital of France?\n",
  });
  assert.deepEqual([asked.code, asked.stdout], [0, "The capital of France is Paris.\n"]);
  const empty = await runHearth([...CHAT, "-i", "-"]);
  assert.equal(empty.code, 1);
  assert.match(empty.stderr, /^hearth: The input is empty: standard input\. Give a text/);
  const twice = await runHearth([...CHAT, "-i", "-", "-i", "-"]);
  assert.equal(twice.code, 1);
  assert.match(twice.stderr, /Standard input can only be read once/);
});

Deno.test("run replaces the output file if it succeeds, and leaves it unchanged if it fails", async () => {
  await withFolder(async (folder) => {
    const output = join(folder, "kept.wav");
    const kept = "What was there before, and longer than the answer to the question below.\n";
    await Deno.writeTextFile(output, kept);
    const speech = ["run", "hearth-demo-tts", ...CPU, "--voice", "nobody", "-i", "x"];
    assert.equal((await runHearth([...speech, "-o", output])).code, 1);
    const broken = join(folder, "model");
    await Deno.mkdir(broken);
    await Deno.writeTextFile(join(broken, "config.json"), "{}");
    assert.equal((await runHearth(["run", broken, ...CPU, "-i", "x", "-o", output])).code, 1);
    assert.equal(await Deno.readTextFile(output), kept);
    const question = ["-i", "What is the capital of France?"];
    assert.equal((await runHearth([...CHAT, ...question, "-o", output])).code, 0);
    assert.equal(await Deno.readTextFile(output), "The capital of France is Paris.\n");
    // A device such as /dev/null cannot be truncated, but can be written.
    assert.equal((await runHearth([...CHAT, ...question, "-o", "/dev/null"])).code, 0);
  });
});
