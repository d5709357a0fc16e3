/**
 * A tiny NeMo transducer gives the same as plain loops in float64 over the whole recording. The
 * last tests are about the files of its folder.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { chooseFiles } from "../../src/models/load/choose_files.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { loadAsr } from "../fixtures/engine/open_folder.ts";
import { moveWeights } from "../fixtures/models/move_weights.ts";
import { goldenSound, makeSpeechFolder, withSpeechFolder } from "../fixtures/models/tiny_speech.ts";
import type { FolderFiles } from "../fixtures/models/tiny_speech_ctc.ts";
import { tdtFiles, tdtReference } from "../fixtures/models/tiny_speech_tdt.ts";
import { transcribeFile } from "../fixtures/audio/transcribe.ts";

const FRAME_SECONDS = 0.08;

async function assertReference(
  backend: Backend,
  lengths: readonly number[],
  { hasDataFiles = false } = {},
): Promise<void> {
  await using made = await makeSpeechFolder(tdtFiles());
  if (hasDataFiles) await moveWeights(made.folder);
  await withSpeechFolder(made.folder, backend, async (model) => {
    for (const seconds of lengths) {
      // Rounded as in a WAV file of 16 bits.
      const samples = goldenSound(seconds).map((x) => Math.round(x * 32_768) / 32_768);
      const { text, tokens } = tdtReference(samples);
      const { segments, ...heard } = await transcribeFile(model, makeWav(samples), {
        timesWords: true,
      });
      assert.equal(heard.text, text, `${seconds} s`);
      const spaced = tokens.map((token, i) => {
        const isFollowed = tokens[i + 1]?.frame === token.frame;
        const length = token.duration === 0 && !isFollowed ? 1 : token.duration;
        return { ...token, start: token.frame, end: token.frame + length };
      }).filter(({ piece }) => piece !== "▁");
      let [next, end] = [0, 0];
      for (const { tokens: ids, startSeconds, endSeconds, words } of segments) {
        const own = spaced.slice(next, next += ids.length);
        assert.deepEqual(ids, own.map(({ id }) => id));
        assertClose(startSeconds, words![0]!.startSeconds);
        assertClose(endSeconds, words!.at(-1)!.endSeconds);
        const starts = own.filter(({ piece }, i) => i === 0 || piece.startsWith("▁"));
        // A lone space marker also starts a word.
        assert.ok(words!.length >= starts.length);
        for (const word of words!) {
          // If the network puts several words into a frame, each comes after the previous one.
          const isOwn = own.some(({ start, piece }) =>
            isClose(word.startSeconds, start * FRAME_SECONDS) &&
            word.text.startsWith(piece.replace("▁", ""))
          );
          const isLast = word.startSeconds > seconds - own.length * FRAME_SECONDS;
          assert.ok(isOwn || isClose(word.startSeconds, end) || isLast);
          assert.ok(word.startSeconds >= end - 1e-6);
          assert.ok(word.endSeconds >= word.startSeconds + FRAME_SECONDS - 1e-6);
          end = word.endSeconds;
        }
      }
      assert.equal(next, spaced.length);
    }
  });
}

function isClose(a: number, b: number): boolean {
  return Math.abs(a - b) < 1e-6;
}

function assertClose(a: number, b: number): void {
  assert.ok(isClose(a, b), `${a} and not ${b}`);
}

cpuTest(
  "a tiny transducer on the CPU transcribes like the whole recording at once, also across seams",
  async (backend) => {
    await assertReference(backend, [0.3, 1.2, 6.5, 70]);
  },
);

gpuTest(
  "a tiny transducer on WebGPU reads its weights from files beside its graphs",
  async (gpu) => {
    await assertReference(await WebGpuBackend.create(gpu), [1.2], { hasDataFiles: true });
  },
);

gpuTest("a tiny transducer on WebGPU transcribes like the whole recording at once", async (gpu) => {
  await assertReference(await WebGpuBackend.create(gpu), [1.2, 6.5]);
});

Deno.test("chooseFiles() chooses the 8-bit graphs of a transducer on the CPU, and the graphs of a requested dtype", () => {
  const graphs = ["encoder-model.onnx", "decoder_joint-model.onnx"];
  const small = graphs.map((graph) => graph.replace(".onnx", ".int8.onnx"));
  const rest = ["config.json", "vocab.txt"];
  const folder = {
    path: "some/folder",
    config: { model_type: "nemo-conformer-tdt" },
    files: new Set([
      ...graphs,
      ...small,
      ...rest,
      "encoder-model.onnx.data",
      "nemo128.onnx",
      "README.md",
    ]),
  };
  const onCpu = chooseFiles(folder, { device: "cpu" });
  assert.deepEqual([onCpu.kind, onCpu.dtype], ["asr", "q8"]);
  assert.deepEqual(onCpu.files, [...rest, ...small, "nemo128.onnx"]);
  const whole = [...rest, "encoder-model.onnx.data", ...graphs, "nemo128.onnx"];
  assert.deepEqual(chooseFiles(folder, { device: "gpu" }).files, whole);
  assert.deepEqual(chooseFiles(folder, { device: "cpu", dtype: "fp32" }).files, whole);
  assert.throws(
    () => chooseFiles(folder, { device: "cpu", dtype: "q4" }),
    /comes only in fp32, q8, not in q4/,
  );
  folder.files.delete("nemo128.onnx");
  assert.throws(() => chooseFiles(folder, { device: "cpu" }), /has no nemo128\.onnx/);
});

Deno.test("loadAsr() refuses a transducer with a missing or wrong part, naming what it found", async () => {
  const files = tdtFiles();
  const vocabulary = new TextDecoder().decode(files["vocab.txt"] as Uint8Array);
  const refusals: readonly (readonly [FolderFiles, RegExp])[] = [
    [{ "vocab.txt": undefined }, /has no vocab\.txt/],
    [{ "vocab.txt": bytes(vocabulary.replace("▁we 7", "▁we")) }, /"▁we" for token 7; wanted/],
    [{ "vocab.txt": bytes(vocabulary.replace("<blk>", "<b>")) }, /has 13 tokens and no <blk>/],
    [
      { "vocab.txt": bytes(`${vocabulary}x 13\nx 14\nx 15\nx 16\nx 17\n`) },
      /returns 18 logits, and vocab\.txt has 18 tokens/,
    ],
    [
      { "encoder-model.onnx": files["nemo128.onnx"] },
      /encoder-model has the inputs waveforms, waveforms_lens; wanted: audio_signal, length/,
    ],
  ];
  for (const [changes, message] of refusals) {
    await using made = await makeSpeechFolder({ ...files, ...changes });
    const load = loadAsr(await openFolder(made.folder), { backend: new CpuBackend() });
    await assert.rejects(load, { name: "StartupError", message });
  }
});

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
