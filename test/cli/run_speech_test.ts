import assert from "node:assert/strict";
import { join } from "node:path";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { recordSomebody } from "../fixtures/audio/recordings.ts";
import { makeSpeakerEncoder, makeTinyTts } from "../fixtures/models/tiny_tts.ts";
import { decodeAll } from "../fixtures/servers/tts_server.ts";

const TEXT = "Hello there. How are you?";

Deno.test("run of a speech synthesizer writes a WAV file whose header has its length", async () => {
  await using tiny = await makeTinyTts("vits");
  const output = join(tiny.folder, "hello.wav");
  const { code, stdout, stderr } = await runHearth(
    ["run", tiny.folder, "--device", "cpu", "-i", TEXT, "-o", output],
  );
  assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: "", stderr: "" });
  const file = await Deno.readFile(output);
  assert.equal(new DataView(file.buffer).getUint32(40, true), file.length - 44);
  const samples = await decodeAll(file, 16_000);
  assert.ok(samples.length > 4_000 && samples.some((sample) => Math.abs(sample) > 0.05));
});

Deno.test("run speaks with the given voice and speed, in the format of the file name's extension", async () => {
  await using tiny = await makeTinyTts("supertonic");
  const speak = async (name: string, ...flags: string[]) => {
    const output = join(tiny.folder, name);
    const { code, stderr } = await runHearth(
      ["run", tiny.folder, "--device", "cpu", "-i", TEXT, "-o", output, ...flags],
    );
    return { code, stderr, file: code === 0 ? await Deno.readFile(output) : undefined };
  };
  const { file } = await speak("usual.flac");
  const usual = await decodeAll(file!, 44_100);
  const changed = (await speak("changed.wav", "--voice", "M1", "--speed", "2")).file!;
  const fast = await decodeAll(changed, 44_100);
  assert.ok(Math.abs(usual.length / fast.length - 2) < 0.2);
  assert.notDeepEqual(fast.subarray(0, 1_000), usual.subarray(0, 1_000));
  const unknown = await speak("x.wav", "--voice", "nobody");
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /voice: want a voice of .*F1, M1.*saw "nobody"/);
});

Deno.test("run speaks with the voice of a recording, with SpeechT5 and --speaker-encoder", async () => {
  await using tiny = await makeTinyTts("speecht5");
  await using speakers = await makeSpeakerEncoder();
  const recording = join(tiny.folder, "somebody.wav");
  const file = recordSomebody({ pitchHz: 190, seconds: 2, sampleRateHz: 44_100 });
  await Deno.writeFile(recording, file);
  const output = join(tiny.folder, "x.flac");
  const speak = (...flags: string[]) =>
    runHearth(["run", tiny.folder, "--device", "cpu", "-i", recording, "-o", output, ...flags]);
  const encoder = ["--speaker-encoder", speakers.folder];
  const { code, stderr } = await speak("-i", TEXT, ...encoder);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  const samples = await decodeAll(await Deno.readFile(output), 16_000);
  assert.ok(samples.some((sample) => Math.abs(sample) > 0.05));
  for (
    const [flags, message] of [
      [["-i", TEXT], /somebody\.wav: .*SpeechT5 needs a speaker encoder.*--speaker-encoder/],
      [encoder, /takes texts, and either a --voice or one recording/],
      [
        ["-i", TEXT, "--voice", "clb", ...encoder],
        /takes texts, and either a --voice or one recording/,
      ],
    ] as const
  ) {
    const refused = await speak(...flags);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, message);
  }
});

Deno.test("run says which files of a speech synthesizer are missing", async () => {
  const cases = [
    [
      { "onnx/decoder_postnet_and_vocoder.onnx": undefined },
      "speecht5",
      /has no vocoder\. Wanted: /,
    ],
    [
      { "voices/af_heart.bin": new Uint8Array(6) },
      "kokoro",
      /af_heart\.bin: want rows of 8 .*, saw 6 bytes/,
    ],
    [{ "tokenizer.json": undefined }, "vits", /has no tokenizer\.json, which this model needs/],
    [
      { "voices/F1.bin": undefined, "voices/M1.bin": undefined },
      "supertonic",
      /has no voice in a supported language/,
    ],
  ] as const;
  for (const [changes, family, message] of cases) {
    await using tiny = await makeTinyTts(family, { changes });
    const { code, stderr } = await runHearth(
      ["run", tiny.folder, "--device", "cpu", "-i", TEXT, "-o", join(tiny.folder, "x.wav")],
    );
    assert.equal(code, 1);
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, /\n\s+at /);
  }
});

Deno.test("run refuses a file name whose format it cannot write", async () => {
  await using tiny = await makeTinyTts("vits");
  const output = join(tiny.folder, "hello.ogg");
  const { code, stderr } = await runHearth(
    ["run", tiny.folder, "--device", "cpu", "-i", TEXT, "-o", output],
  );
  assert.equal(code, 1);
  assert.match(stderr, /hello\.ogg cannot be written: want .*\.opus, .*saw \.ogg/);
  await assert.rejects(Deno.stat(output), Deno.errors.NotFound);
});
