/** Models that speak with the voices of recordings, tested without a server. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { StartupError } from "../../src/base/errors.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadModel } from "../../src/models/load/load.ts";
import {
  openSpeakerEncoder,
  type SpeakerEncoder,
  type VectorVoice,
} from "../../src/models/tts/voices.ts";
import type { Synthesizer } from "../../src/models/tts/synthesizer.ts";
import type { Voice } from "../../src/models/task.ts";
import { openSynthesizer } from "../fixtures/engine/open_folder.ts";
import { GraphBuilder } from "../fixtures/graphs/graph_builder.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";
import { writeHalf } from "../fixtures/graphs/half_model.ts";
import { recordSomebody } from "../fixtures/audio/recordings.ts";
import { speakerEncoderFiles } from "../fixtures/models/tiny_speaker_encoder.ts";
import { makeSpeakerEncoder, makeTinyTts, type TtsFamily } from "../fixtures/models/tiny_tts.ts";
import type { TtsFiles } from "../fixtures/models/tts_files.ts";

const WIDTH = 8;
const never = () => new AbortController().signal;
const onProgress = () => {};

async function withChatterbox(
  use: (synthesizer: Synthesizer) => Promise<void>,
  { changes = {}, backend = new CpuBackend() }: {
    readonly changes?: TtsFiles;
    readonly backend?: Backend;
  } = {},
): Promise<void> {
  await using tiny = await makeTinyTts("chatterbox", { changes });
  const folder = await openFolder(tiny.folder);
  const { synthesizer } = await openSynthesizer(folder, { backend, onProgress });
  try {
    await use(synthesizer);
  } finally {
    await synthesizer.dispose();
  }
}

async function withEncoder(
  use: (encoder: SpeakerEncoder) => Promise<void>,
  files = speakerEncoderFiles(),
): Promise<void> {
  await using speakers = await makeSpeakerEncoder(files);
  const encoder = await openSpeakerEncoder(speakers.folder, {
    backend: new CpuBackend(),
    width: WIDTH,
    language: "en",
    onProgress,
  });
  try {
    await use(encoder);
  } finally {
    await encoder.dispose();
  }
}

Deno.test("SpeakerEncoder.clone() returns a vector of length 1 for any loudness of the recording", async () => {
  await withEncoder(async (encoder) => {
    const tone = (loudness: number) =>
      Float32Array.from(
        { length: 16_000 },
        (_, i) => loudness * Math.sin(i / 9) * Math.cos(i / 700),
      );
    const getStyle = async (loudness: number) =>
      ((await encoder.clone(tone(loudness))).voice as VectorVoice).style;
    const [loud, soft] = [await getStyle(0.8), await getStyle(0.1)];
    assert.equal(loud.length, WIDTH);
    assert.ok(Math.abs(Math.hypot(...loud) - 1) < 1e-5);
    assert.ok(loud.every((value, i) => Math.abs(value - soft[i]!) < 1e-3));
  });
});

Deno.test("SpeakerEncoder.clone() refuses recordings that cause an overflow", async () => {
  const files = {
    ...speakerEncoderFiles(),
    "preprocessor_config.json": { do_normalize: false },
  };
  await withEncoder(async (encoder) => {
    const samples = new Float32Array(16_000).fill(3e38);
    await assert.rejects(() => encoder.clone(samples), /voice cannot be determined/);
  }, files);
});

const WRONG_ENCODERS: Readonly<Record<string, readonly [TtsFiles, RegExp]>> = {
  "no configuration": [{ "config.json": undefined }, /has no config.json/],
  "no graph": [{ "onnx/model.onnx": undefined }, /has no onnx\/model\*\.onnx/],
  "vectors of another width": [speakerEncoderFiles(12), /returns 12 numbers.*takes 8/],
  "other inputs": [
    { "onnx/model.onnx": buildPassing("sound") },
    /has unknown inputs: sound/,
  ],
  "other outputs": [
    { "onnx/model.onnx": buildPassing("input_values") },
    /does not hold a speaker-embedding model: its graph has the outputs y; wanted: embeddings/,
  ],
};
for (const [what, [changes, message]] of Object.entries(WRONG_ENCODERS)) {
  Deno.test(`openSpeakerEncoder() refuses a folder with ${what}`, async () => {
    const files = { ...speakerEncoderFiles(), ...changes };
    await assert.rejects(() => withEncoder(() => Promise.resolve(), files), (error) => {
      assert.ok(error instanceof StartupError);
      assert.equal(error.setting, "speakerEncoderFolder");
      assert.match(error.message, message);
      return true;
    });
  });
}

/** A graph that returns its input. */
function buildPassing(input: string): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  graph.add("Identity", [input], { outputs: ["y"] });
  return graph.build({
    inputs: [[input, "float32", [1, "length"]]],
    outputs: [["y", "float32", [1, "length"]]],
  });
}

Deno.test("a speaker encoder is only allowed for SpeechT5", async () => {
  await using speakers = await makeSpeakerEncoder();
  const load = async (family: TtsFamily, kind?: "embedding") => {
    await using tiny = await makeTinyTts(family);
    const model = { id: "tiny", aliases: [], ownedBy: "test", folder: tiny.folder };
    await loadModel({
      model,
      kind,
      engine: { prefixCache: false },
      speakerEncoderFolder: speakers.folder,
      backend: new CpuBackend(),
      onProgress,
    });
  };
  await assert.rejects(() => load("vits"), /A speaker encoder is for SpeechT5.*of type "vits"/);
  await assert.rejects(
    () => load("vits", "embedding"),
    /A speaker encoder is for speech synthesis/,
  );
});

Deno.test("Chatterbox stops generating when it is aborted", async () => {
  // An end token that never occurs: the sound would reach its maximum length.
  const changes = { "generation_config.json": { eos_token_id: 6_563 } };
  await withChatterbox(async (synthesizer) => {
    const [voice] = synthesizer.voices;
    const tokens = await synthesizer.tokenize("So be it.", voice!);
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error("enough")), 20);
    const options = { voice: voice!, speed: 1, noiseOffset: 0, signal: abort.signal };
    await assert.rejects(() => synthesizer.synthesize(tokens, options), /enough/);
  }, { changes });
});

Deno.test("Chatterbox clones the first 30 s of a longer default voice", async () => {
  const clone = async (seconds: number) => {
    const recording = recordSomebody({ pitchHz: 140, seconds, sampleRateHz: 24_000 });
    const voices: Voice[] = [];
    await withChatterbox((synthesizer) => {
      voices.push(...synthesizer.voices);
      return Promise.resolve();
    }, { changes: { "default_voice.wav": recording } });
    return voices;
  };
  const [short, whole, long] = [await clone(29), await clone(30), await clone(40)];
  assert.deepEqual(long.map(({ id }) => id), ["default"]);
  assert.deepEqual(long, whole);
  assert.notDeepEqual(short, whole);
});

Deno.test("loadChatterbox() names the problem of an invalid folder", async () => {
  const load = (changes: TtsFiles) => withChatterbox(() => Promise.resolve(), { changes });
  await assert.rejects(
    () => load({ "default_voice.wav": new TextEncoder().encode("no sound") }),
    /default_voice\.wav cannot be used as a voice: The file is not supported audio/,
  );
  await assert.rejects(
    () => load({ "onnx/speech_encoder.onnx": undefined }),
    /has no onnx\/speech_encoder\*\.onnx/,
  );
});

gpuTest("a language model of Chatterbox in half precision speaks on WebGPU", async () => {
  await using tiny = await makeTinyTts("chatterbox");
  await writeHalf(tiny.folder, "language_model");
  const folder = await openFolder(tiny.folder);
  const backend = await WebGpuBackend.create(await openTestDevice());
  try {
    const options = { backend, onProgress, dtype: "fp16" } as const;
    const { synthesizer, dtype } = await openSynthesizer(folder, options);
    assert.equal(dtype, "fp16");
    const [voice] = synthesizer.voices;
    const tokens = await synthesizer.tokenize("So be it.", voice!);
    const utterance = { voice: voice!, speed: 1, noiseOffset: 0, signal: never() };
    const samples = await synthesizer.synthesize(tokens, utterance);
    assert.ok(samples.length > 300 && samples.some((sample) => Math.abs(sample) > 0.05));
    await synthesizer.dispose();
  } finally {
    backend.dispose();
  }
});
