/** What models leave behind: requests no buffer on a GPU, and disposed models no buffer of their own and no session. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { GraphSession } from "../../src/device/ort/ort.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";
import { embed, type OpenModel, openModel } from "../fixtures/engine/model.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { transcribeFile } from "../fixtures/audio/transcribe.ts";
import { discFile, matte } from "../fixtures/images/matting.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/models/tiny_ocr.ts";
import { goldenSound, makeTinySpeech } from "../fixtures/models/tiny_speech.ts";
import { drawImage } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder, type VisionFamily } from "../fixtures/models/vision/vision_folder.ts";

/** The function that creates Hearth's own buffers, in a stack trace. ONNX Runtime calls the device itself. */
const OWN = /at createBuffer \(.*\/src\/gpu\/device\.ts/;

/** Counts the buffers that exist: all of them, and Hearth's own. */
class LiveBuffers implements Disposable {
  readonly all = new Set<GPUBuffer>();
  readonly own = new Set<GPUBuffer>();
  readonly #createBuffer = GPUDevice.prototype.createBuffer;
  readonly #destroy = GPUBuffer.prototype.destroy;

  constructor() {
    const { all, own } = this;
    const [createBuffer, destroy] = [this.#createBuffer, this.#destroy];
    GPUDevice.prototype.createBuffer = function (descriptor) {
      const buffer = createBuffer.call(this, descriptor);
      all.add(buffer);
      if (OWN.test(new Error().stack!)) own.add(buffer);
      return buffer;
    };
    GPUBuffer.prototype.destroy = function () {
      all.delete(this);
      own.delete(this);
      return destroy.call(this);
    };
  }

  [Symbol.dispose](): void {
    GPUDevice.prototype.createBuffer = this.#createBuffer;
    GPUBuffer.prototype.destroy = this.#destroy;
  }
}

/** Counts the sessions that are open. */
class CountingBackend extends CpuBackend {
  numOpen = 0;
  numOpened = 0;

  #count(session: GraphSession): GraphSession {
    this.numOpened++;
    this.numOpen++;
    const release = () => {
      this.numOpen--;
      return session.release();
    };
    return { ...session, release };
  }

  override async openSession(...args: Parameters<CpuBackend["openSession"]>) {
    return this.#count(await super.openSession(...args));
  }

  override async openModel(...args: Parameters<CpuBackend["openModel"]>) {
    return this.#count(await super.openModel(...args));
  }
}

/** A model's folder, removed after the test unless it is built in, and a request to it. */
interface Case {
  readonly open: () => Promise<{ readonly path: string } & Partial<AsyncDisposable>>;
  readonly request: (model: OpenModel) => Promise<unknown>;
}

const builtIn = (name: string) => () => Promise.resolve({ path: findModelFolder(name)! });

function vision(family: VisionFamily): Case {
  return {
    open: () => makeVisionFolder(family),
    request: (model) => chat(model, [imageMessage(drawImage(0, [84, 56]), "Hi")], { maxTokens: 3 }),
  };
}

const CASES: Readonly<Record<string, Case>> = {
  "a chat model": {
    open: builtIn("hearth-demo-chat"),
    request: (model) => chat(model, [{ role: "user", content: "Hello" }], { maxTokens: 4, n: 2 }),
  },
  "a vision model": vision("qwen2_5_vl"),
  "a vision model with states": vision("lfm2_vl"),
  "an OCR model": {
    open: async () => {
      const { folder, ...tiny } = await makeTinyOcr("florence");
      return { path: folder, ...tiny };
    },
    request: (model) => chat(model, [imageMessage(ocrImage(1))], { maxTokens: 4 }),
  },
  "a speech recogniser": {
    open: async () => {
      const { folder, ...tiny } = await makeTinySpeech("moonshine");
      return { path: folder, ...tiny };
    },
    request: (model) => {
      const sound = makeWav(goldenSound(1.2), { sampleRateHz: 16_000 });
      return transcribeFile(model as unknown as AsrModel, sound);
    },
  },
  "an embedding model": {
    open: builtIn("hearth-demo-embed"),
    request: (model) => embed(model, [[5, 6, 7], [8]]),
  },
  "a background remover": {
    open: builtIn("hearth-demo-matting"),
    request: (model) => matte(model, discFile()),
  },
};

for (const [name, { open, request }] of Object.entries(CASES)) {
  gpuTest(
    `${name} on WebGPU leaves no buffer after requests, and none of its own when it is disposed of`,
    async () => {
      using live = new LiveBuffers();
      await using folder = { [Symbol.asyncDispose]: async () => {}, ...await open() };
      const backend = await WebGpuBackend.create(await openTestDevice());
      const before = new Set(live.own);
      const model = await openModel(folder.path, { backend });
      // The first requests fill caches and pools.
      for (let i = 0; i < 2; i++) await request(model);
      const numBuffers = live.all.size;
      await request(model);
      assert.equal(live.all.size, numBuffers, "a request leaves buffers");
      await model.dispose();
      assert.deepEqual([...live.own.difference(before)].map(({ label }) => label), []);
      await backend.dispose();
    },
  );
}

for (const [name, { open, request }] of Object.entries(CASES)) {
  Deno.test(`${name} on the CPU leaves no session when it is disposed of`, async () => {
    await using folder = { [Symbol.asyncDispose]: async () => {}, ...await open() };
    const backend = new CountingBackend();
    const model = await openModel(folder.path, { backend });
    await request(model);
    await model.dispose();
    assert.ok(backend.numOpened > 0);
    assert.equal(backend.numOpen, 0, `of ${backend.numOpened} sessions`);
    await backend.dispose();
  });
}
