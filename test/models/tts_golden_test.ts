import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { readReference } from "../../src/models/tts/voices.ts";
import type { Voice } from "../../src/models/task.ts";
import {
  loadTtsTokenizer,
  type Synthesizer,
  type VoiceCloner,
} from "../../src/models/tts/synthesizer.ts";
import { toPhonemes } from "../../src/models/tts/non_autoregressive.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { openSynthesizer } from "../fixtures/engine/open_folder.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";
import { recordSomebody } from "../fixtures/audio/recordings.ts";
import {
  makeSpeakerEncoder,
  makeTinyTts,
  TTS_FAMILIES,
  type TtsFamily,
} from "../fixtures/models/tiny_tts.ts";

/** Results of transformers.js and kokoro-js: see `goldens/make_tts.mjs`. */
interface Goldens {
  readonly spoken: readonly {
    readonly family: TtsFamily;
    readonly text: string;
    readonly voice: string;
    readonly speed: number;
    readonly tokens: readonly number[];
    /** Samples in f32, in base64. */
    readonly samples: string;
  }[];
  readonly sounds: readonly {
    readonly language: string;
    readonly text: string;
    readonly phonemes: string;
  }[];
}

const TOLERANCE = 1e-4;

const goldens: Goldens = JSON.parse(
  await Deno.readTextFile(new URL("../fixtures/models/goldens/tts.json", import.meta.url)),
);

async function compare(family: TtsFamily, backend: Backend): Promise<void> {
  await using tiny = await makeTinyTts(family);
  await using speakers = await makeSpeakerEncoder();
  const folder = await openFolder(tiny.folder);
  const tokenizer = await loadTtsTokenizer(folder);
  const { synthesizer } = await openSynthesizer(folder, {
    backend,
    onProgress: () => {},
    ...(family === "speecht5" && { speakerEncoderFolder: speakers.folder }),
  });
  try {
    for (const golden of goldens.spoken.filter((each) => each.family === family)) {
      assert.deepEqual([...tokenizer.encode(golden.text)], golden.tokens);
      const heard = await speak(synthesizer, golden);
      const wanted = new Float32Array(Uint8Array.fromBase64(golden.samples).buffer);
      assert.equal(heard.length, wanted.length);
      const worst = wanted.reduce(
        (most, sample, i) => Math.max(most, Math.abs(sample - heard[i]!)),
        0,
      );
      assert.ok(worst < TOLERANCE, `${golden.text}: ${worst}`);
      assert.ok(wanted.some((sample) => Math.abs(sample) > 0.05));
    }
  } finally {
    await synthesizer.dispose();
  }
}

async function speak(
  synthesizer: Synthesizer,
  { tokens, voice: id, speed }: Goldens["spoken"][number],
): Promise<Float32Array> {
  const voice = id === "recording"
    ? await cloneVoice(synthesizer.cloner!)
    : synthesizer.voices.find((each) => each.id === id)!;
  const { signal } = new AbortController();
  return await synthesizer.synthesize(tokens, { voice, speed, noiseOffset: 0, signal });
}

/** Clones the voice whose recording transformers.js used. */
async function cloneVoice(cloner: VoiceCloner): Promise<Voice> {
  const { sampleRateHz } = cloner;
  const recording = recordSomebody({ pitchHz: 210, seconds: 1.5, sampleRateHz });
  return (await cloner.clone(await readReference(recording, { sampleRateHz }))).voice;
}

for (const family of TTS_FAMILIES) {
  cpuTest(`${family} on the CPU sounds the same as in transformers.js`, async (backend) => {
    await compare(family, backend);
  });

  gpuTest(`${family} on WebGPU sounds the same as in transformers.js`, async () => {
    const backend = await WebGpuBackend.create(await openTestDevice());
    try {
      await compare(family, backend);
    } finally {
      backend.dispose();
    }
  });
}

Deno.test("toPhonemes() returns the same phonemes as kokoro-js", async () => {
  for (const { text, language, phonemes } of goldens.sounds) {
    assert.equal(await toPhonemes(text, language), phonemes);
  }
});
