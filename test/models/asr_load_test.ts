/** Loading folders of speech models, and the errors for invalid ones. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { copyFolder } from "../fixtures/files/copy_folder.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";
import { loadAsr } from "../fixtures/engine/open_folder.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { CLIP, CLIP_TEXT, readRecording } from "../fixtures/servers/speech_server.ts";
import { speechTest } from "../fixtures/audio/speech.ts";
import {
  makeTinySpeech,
  type TinySpeechModel,
  withSpeechFolder,
  withTinySpeech,
} from "../fixtures/models/tiny_speech.ts";
import { transcribeFile } from "../fixtures/audio/transcribe.ts";

async function assertRefused(
  model: TinySpeechModel,
  changes: Readonly<Record<string, unknown>>,
  message: RegExp,
): Promise<void> {
  await using tiny = await makeTinySpeech(model, changes);
  const folder = await openFolder(tiny.folder);
  const load = loadAsr(folder, { backend: new CpuBackend(), onProgress: () => {} });
  await assert.rejects(load, { name: "StartupError", message });
}

async function makeConfig(model: TinySpeechModel): Promise<Record<string, unknown>> {
  await using tiny = await makeTinySpeech(model);
  return { ...(await openFolder(tiny.folder)).config };
}

Deno.test("loadAsr() refuses an unsupported type, naming the supported ones", async () => {
  const config = { ...await makeConfig("moonshine"), model_type: "quartz" };
  await assertRefused(
    "moonshine",
    { "config.json": config },
    /model_type "quartz".*serves the types whisper, .*wav2vec2/,
  );
});

Deno.test("loadAsr() refuses folders that lack a part, naming it", async () => {
  const files = ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"];
  for (const file of files) {
    await assertRefused("moonshine", { [file]: undefined }, new RegExp(`has no ${file}`));
  }
  const decoder = "onnx/decoder_model_merged.onnx";
  await assertRefused(
    "moonshine",
    { [decoder]: undefined },
    /it has no onnx\/decoder_model_merged/,
  );
  await assertRefused(
    "wav2vec2",
    { "onnx/model.onnx": undefined },
    /it has no onnx\/model\*\.onnx/,
  );
  await assertRefused("granite_speech", {
    "tokenizer_config.json": { tokenizer_class: "PreTrainedTokenizerFast" },
  }, /has no chat template/);
});

Deno.test("a CTC model of an unlisted type transcribes like wav2vec2", async () => {
  const config = await makeConfig("wav2vec2");
  const architectures = ["Data2VecAudioForCTC"];
  const changes = { "config.json": { ...config, model_type: "data2vec-audio", architectures } };
  const heard = async (changes = {}) => {
    let text = "";
    await withTinySpeech("wav2vec2", { backend: new CpuBackend(), changes }, async (model) => {
      text = (await transcribeFile(model, await readRecording(CLIP.file))).text;
    });
    return text;
  };
  const text = await heard(changes);
  assert.equal(text, await heard());
  assert.notEqual(text, "");
});

Deno.test("loadAsr() refuses a model without CTC, and names what it found", async () => {
  const config = await makeConfig("wav2vec2");
  const change = (changed: Record<string, unknown>) => ({
    "config.json": { ...config, ...changed },
  });
  const headless = change({ architectures: ["Wav2Vec2ForSequenceClassification"] });
  await assertRefused(
    "wav2vec2",
    headless,
    /Wav2Vec2ForSequenceClassification, but a name that ends in ForCTC/,
  );
  await assertRefused("wav2vec2", change({ conv_stride: undefined }), /has no conv_stride/);
  await assertRefused(
    "wav2vec2",
    change({ pad_token_id: undefined }),
    /Wanted: vocab_size and pad_token_id/,
  );
  await assertRefused(
    "wav2vec2",
    change({ vocab_size: 40 }),
    /returns 32 classes, but vocab_size .* is 40/,
  );
});

Deno.test("loadAsr() refuses an invalid graph, naming the folder and its type", async () => {
  const graph = new TextEncoder().encode("no graph");
  await assertRefused(
    "hubert",
    { "onnx/model.onnx": graph },
    /cannot be loaded as a model of type hubert: /,
  );
});

speechTest("loadAsr() treats a lite-whisper folder like Whisper's", async () => {
  const source = findModelFolder("hearth-demo-asr")!;
  const folder = await Deno.makeTempDir({ prefix: "hearth-lite-" });
  try {
    await copyFolder(source, folder, { without: ["config.json"] });
    const config = JSON.parse(await Deno.readTextFile(join(source, "config.json")));
    await Deno.writeTextFile(
      join(folder, "config.json"),
      JSON.stringify({ ...config, model_type: "lite-whisper" }),
    );
    await withSpeechFolder(folder, new CpuBackend(), async (model) => {
      assert.equal((await transcribeFile(model, await readRecording(CLIP.file))).text, CLIP_TEXT);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

speechTest(
  "a window with a known language needs one step fewer than one with an unknown language",
  async () => {
    const backend = new CpuBackend();
    const recording = await readRecording(CLIP.file);
    await withSpeechFolder(findModelFolder("hearth-demo-asr")!, backend, async (model) => {
      const countSteps = async (language?: string) => {
        using steps = countCalls(PagedDecoder.prototype as never, "run");
        assert.equal((await transcribeFile(model, recording, { language })).text, CLIP_TEXT);
        return steps.count;
      };
      assert.equal(await countSteps("en"), await countSteps() - 1);
    });
    await backend.dispose();
  },
);
