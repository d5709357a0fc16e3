import assert from "node:assert/strict";
import { join } from "node:path";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { goldenSound, makeTinySpeech } from "../fixtures/models/tiny_speech.ts";
import goldens from "../fixtures/models/goldens/speech.json" with { type: "json" };
import { drawImage, KEPT_SIZES } from "../fixtures/models/vision/vision_cases.ts";
import { imageFile } from "../fixtures/images/images.ts";
import { makeVisionFolder, TINY } from "../fixtures/models/vision/vision_folder.ts";

const CPU = ["--device", "cpu"];
const CHAT = ["run", "hearth-demo-chat", ...CPU, "--temperature", "0"];
/** The prompt with nothing typed after it: only a cursor movement follows. */
const PROMPT = />>> \S*5G$/;
const MORE = /\.\.\. \S*5G$/;

const terminalTest = (name: string, fn: (folder: string) => Promise<void>) =>
  Deno.test({
    name: hasTerminals ? name : `${name} (skipped: the script command of util-linux is missing)`,
    ignore: !hasTerminals,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "hearth-chat-" });
      try {
        await fn(folder);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });

/** Removes the sequences that move a terminal's cursor. */
function plain(screen: string): string {
  // deno-lint-ignore no-control-regex
  return screen.replaceAll(/\x1b\[[\d;]*[A-Za-z]|\r/g, "");
}

terminalTest(
  "run at a terminal is a chat that remembers earlier messages, takes commands, and takes messages of several lines",
  async (folder) => {
    const [markdown, json] = [join(folder, "talk.md"), join(folder, "talk.json")];
    const cat = join(folder, "cat.png");
    await Deno.writeFile(cat, imageFile("png color 0 depth 1"));
    const { code, screen } = await runInTerminal([...CHAT, "-v"], {
      steps: [
        [PROMPT, "What is the capital of France?\r"],
        [PROMPT, "/sytem\r"],
        [PROMPT, "/system You are a pirate.\r"],
        [PROMPT, "Who \\\r"],
        [MORE, "are you?\r"],
        [PROMPT, '"""Tell me\r'],
        [MORE, "\r"],
        [MORE, 'a story."""\r'],
        // Pastes three lines at once, the last without a line end.
        [PROMPT, "One line,\ranother,\ra third"],
        [/a third$/, ".\r"],
        [PROMPT, `/image ${cat}\r`],
        [PROMPT, `/save ${markdown}\r`],
        [PROMPT, `/save ${markdown}\r`],
        [PROMPT, `/save ${json}\r`],
        [PROMPT, "/clear\r"],
        [PROMPT, `/save '${folder}/none.json'\r`],
        [PROMPT, "/bye\r"],
      ],
    });
    assert.equal(code, 0, screen);
    const shown = plain(screen);
    assert.match(
      shown,
      /The capital of France is Paris\.\n\nprompt of \d+ tokens, .* tokens\/s\n>>> /,
    );
    assert.match(shown, /There is no command \/sytem\. Did you mean \/system\?/);
    assert.match(shown, /This model takes no images/);
    assert.match(shown, /prompt of \d+ tokens \(\d+ cached\)/);
    assert.match(shown, /talk\.md cannot be written: it already exists/);
    const { messages } = JSON.parse(await Deno.readTextFile(json));
    assert.deepEqual(messages.map(({ role }: { role: string }) => role), [
      "system",
      ...["user", "assistant", "user", "assistant", "user", "assistant"],
      ...["user", "assistant"],
    ]);
    assert.equal(messages[0].content, "You are a pirate.");
    assert.equal(messages[2].content, "The capital of France is Paris.");
    assert.equal(messages[3].content, "Who \nare you?");
    assert.equal(messages[5].content, "Tell me\n\na story.");
    assert.ok(
      (await Deno.readTextFile(markdown)).includes("## assistant\n\nThe capital of France"),
    );
    const after = JSON.parse(await Deno.readTextFile(join(folder, "none.json")));
    assert.deepEqual(after.messages.map(({ role }: { role: string }) => role), ["system"]);
  },
);

terminalTest(
  "^C at the prompt of a chat clears the line, and pressed twice at an empty prompt ends the chat",
  async () => {
    const { code, screen } = await runInTerminal(CHAT, {
      steps: [
        [PROMPT, "not to be sent"],
        [/sent$/, "\x03"],
        [PROMPT, '"""nor this\r'],
        [MORE, "\x03"],
        [PROMPT, "\x03"],
        [
          /Press \^C again, \^D or \/bye to leave\.[^]*>>> \S*$/,
          "What is the capital of France?\r",
        ],
        [/Paris[^]*>>> \S*$/, "\x03"],
        [/Press \^C again[^]*>>> \S*$/, "\x03"],
      ],
    });
    assert.equal(code, 0, screen);
    // There is one answer. After it, ^C must be pressed twice again.
    assert.equal(plain(screen).split("Paris").length, 2, screen);
  },
);

terminalTest(
  "^C stops an answer without ending the chat, and /image attaches an image to the next message",
  async (folder) => {
    // An answer that fills the context takes many seconds and has several characters per token.
    const contextLength = 65_536;
    await using model = await makeVisionFolder("idefics3", { ...TINY, contextLength });
    const image = join(folder, "two waves.png");
    await Deno.writeFile(image, drawImage(0, KEPT_SIZES.idefics3));
    const json = join(folder, "talk.json");
    const { code, screen } = await runInTerminal(
      ["run", model.path, ...CPU, "--temperature", "0"],
      {
        steps: [
          [PROMPT, `/image ${join(folder, "no.png")}\r`],
          [PROMPT, `/image ${image.replaceAll(" ", "\\ ")}\r`],
          [PROMPT, "What can you tell me?\r"],
          // Interrupts as soon as the answer has begun.
          [/me\?\s+\S/, "\x03"],
          [PROMPT, `/save ${json}\r`],
          [PROMPT, "\x04"],
        ],
      },
    );
    assert.equal(code, 0, screen);
    assert.match(plain(screen), /There is no file .*no\.png\./);
    assert.match(plain(screen), /two waves\.png will be sent with the next message\./);
    const { messages: [question, answer] } = JSON.parse(await Deno.readTextFile(json));
    assert.equal(question.content, "[image: two waves.png]\nWhat can you tell me?");
    assert.notEqual(answer.content, "");
    assert.ok(answer.content.length < contextLength, "^C stopped the answer");
  },
);

terminalTest(
  "run of OCR and speech models at a terminal reads the files of /image and /audio",
  async (folder) => {
    const ocr = await runInTerminal(["run", "hearth-demo-ocr", ...CPU], {
      steps: [
        [PROMPT, "hello\r"],
        [PROMPT, "/image docs/samples/receipt.png\r"],
        [PROMPT, "/bye\r"],
      ],
    });
    assert.equal(ocr.code, 0, ocr.screen);
    assert.match(plain(ocr.screen), /This model reads images: name one with \/image/);
    const read = await runHearth(["run", "hearth-demo-ocr", "docs/samples/receipt.png", ...CPU]);
    assert.ok(plain(ocr.screen).includes(read.stdout.trim()), ocr.screen);

    await using tiny = await makeTinySpeech("moonshine");
    const golden = goldens.find(({ model, seconds }) => model === "moonshine" && seconds < 10)!;
    const sound = join(folder, "speech.wav");
    await Deno.writeFile(sound, makeWav(goldenSound(golden.seconds)));
    const asr = await runInTerminal(["run", tiny.folder, ...CPU], {
      steps: [[PROMPT, `/audio ${sound}\r`], [PROMPT, "\x04"]],
    });
    assert.equal(asr.code, 0, asr.screen);
    assert.ok(plain(asr.screen).includes(`${golden.text}\n`), asr.screen);
  },
);

Deno.test("run takes a prompt after the model, and puts it before the inputs of -i", async () => {
  const question = "What is the capital of France?";
  const expected = "The capital of France is Paris.\n";
  const alone = await runHearth([...CHAT, question]);
  assert.deepEqual([alone.code, alone.stdout, alone.stderr], [0, expected, ""]);
  const scores = await runHearth(
    ["run", "hearth-demo-rerank", "the capital of Spain", ...CPU, "-i", "Cows say moo."],
  );
  assert.match(scores.stdout, /^0\.\d{6}\tCows say moo\.\n$/);
  const piped = await runHearth(CHAT, { input: question });
  assert.deepEqual([piped.code, piped.stdout], [0, expected]);
  const many = await runHearth([...CHAT, ...question.split(" ")]);
  assert.equal(many.code, 2);
  assert.match(many.stderr, /put a prompt of several words in quotes/);
});
