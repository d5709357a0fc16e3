import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import { decodeAac, readAdts } from "../../../src/media/audio/aac.ts";
import { readWav } from "../../../src/media/audio/wav.ts";
import {
  decodeWhole,
  RATE_HZ,
  readFixture,
  SPEECH_FILES,
} from "../../fixtures/audio/audio_files.ts";

interface Expectation {
  /** The similarity to the original that the decoded sound must exceed, at the best volume. */
  readonly decibels: number;
  /** Samples added by the encoder that the format cannot declare. */
  readonly delay?: number;
  /**
   * Volume relative to the original, if a channel, the encoder's input or the downmix changed it.
   */
  readonly gain?: number;
}

const QUIET_RIGHT = 0.75;
const FLOAT_DOWNMIX = Math.SQRT2;

const EXPECTED: Readonly<Record<string, Expectation>> = {
  "speech.wav": { decibels: 200 },
  "speech_8k.aifc": { decibels: 35 },
  "speech_8k.wav": { decibels: 35 },
  "speech_44k_stereo.mp3": { decibels: 25, gain: 0.95 * QUIET_RIGHT },
  "speech_22k.mp3": { decibels: 22, gain: 0.95 },
  "speech_44k_stereo.m4a": { decibels: 20, gain: QUIET_RIGHT },
  "speech_16k.aac": { decibels: 12, delay: 1024, gain: FLOAT_DOWNMIX },
  "speech_44k_he.m4a": { decibels: 15 },
  "speech_44k_he_v2.aac": { decibels: 22, delay: 2578, gain: 1.05 * QUIET_RIGHT },
  "speech_16k_fragmented.mp4": { decibels: 12, delay: 1024, gain: FLOAT_DOWNMIX },
  "speech_48k_opus.mp4": { decibels: 25, gain: FLOAT_DOWNMIX },
  "speech_44k_stereo.ogg": { decibels: 22, gain: QUIET_RIGHT },
  "speech_48k_stereo.opus": { decibels: 23, gain: QUIET_RIGHT },
  "speech_16k_flac.ogg": { decibels: 90 },
  "speech_22k_stereo.flac": { decibels: 38, gain: QUIET_RIGHT },
  "speech_48k_opus.webm": { decibels: 25, gain: FLOAT_DOWNMIX },
  "speech_44k_vorbis.webm": { decibels: 20, gain: FLOAT_DOWNMIX },
  "speech_16k_flac.mka": { decibels: 90 },
  "speech_16k_mp3.mka": { decibels: 15, delay: 1105, gain: 0.95 },
};

/** The similarity of `decoded` to `original` at the best volume, and that volume. */
function compare(
  decoded: Float32Array,
  original: Float32Array,
): { decibels: number; gain: number } {
  let both = 0, first = 0, second = 0;
  original.forEach((sample, i) => {
    const other = decoded[i] ?? 0;
    both += sample * other;
    first += sample * sample;
    second += other * other;
  });
  const correlation = both / Math.sqrt(first * second);
  return { decibels: -10 * Math.log10(Math.max(1e-30, 1 - correlation ** 2)), gain: both / first };
}

Deno.test("every fixture has an expectation", () => {
  assert.deepEqual(Object.keys(EXPECTED).sort(), SPEECH_FILES);
});

const original = await decodeWhole(readFixture("speech.wav"));

for (const [name, { decibels, delay = 0, gain = 1 }] of Object.entries(EXPECTED)) {
  Deno.test(`decodeAudio() decodes ${name} to the sound of speech.wav`, async () => {
    const decoded = await decodeWhole(readFixture(name));
    const found = compare(decoded.subarray(delay), original);
    assert.ok(found.decibels > decibels, `only ${found.decibels.toFixed(1)} dB alike`);
    assert.ok(Math.abs(found.gain / gain - 1) < 0.05, `${found.gain.toFixed(3)} times as loud`);
    const extra = decoded.length - original.length - delay;
    // Containers without a length end with a whole frame.
    assert.ok(extra >= 0 && extra < 1152, `${extra} samples more`);
  });
}

Deno.test("decodeAudio() recognizes formats only by their content", async () => {
  const mp3 = readFixture("speech_22k.mp3");
  const inside = new Uint8Array(100 + mp3.length + 50).subarray(100, 100 + mp3.length);
  inside.set(mp3);
  assertSameValues(await decodeWhole(inside), await decodeWhole(mp3));
});

Deno.test("decodeAudio() skips ID3 tags, and data after the last frame", async () => {
  const mp3 = readFixture("speech_22k.mp3");
  const plain = await decodeWhole(mp3);
  const tag = new Uint8Array(10 + 300);
  tag.set([0x49, 0x44, 0x33, 4, 0, 0, 0, 0, 2, 44]);
  // Bytes that look like the beginning of a frame.
  tag.fill(0xff, 10);
  const tail = new TextEncoder().encode("TAG".padEnd(128, "x"));
  assertSameValues(await decodeWhole(new Uint8Array([...tag, ...mp3, ...tail])), plain);
  const flac = readFixture("speech_22k_stereo.flac");
  assertSameValues(
    await decodeWhole(new Uint8Array([...tag, ...flac])),
    await decodeWhole(flac),
  );
});

Deno.test("decodeAudio() reads AAC that starts within a frame", async () => {
  const file = readFixture("speech_16k.aac");
  const firstBytes = (file[3]! & 3) << 11 | file[4]! << 3 | file[5]! >> 5;
  const fromSecond = await decodeWhole(file.slice(firstBytes));
  assert.equal(fromSecond.length, (await decodeWhole(file)).length - 1024);
  assertSameValues(await decodeWhole(file.slice(100)), fromSecond);
});

Deno.test("decodeAudio() does not mistake samples with three MP3 headers in a row for MP3", async () => {
  const file = new Uint8Array(60_000).fill(1);
  // As a header, Layer I of 384 kbit/s at 32 kHz; as two samples of 16 bits, -1 and 200.
  for (let i = 0; i < 3; i++) file.set([0xff, 0xff, 0xc8, 0x00], 1000 + 576 * i);
  await assert.rejects(decodeWhole(file), {
    kind: "invalid_media",
    message: /not supported audio/,
  });
});

Deno.test("decodeAudio() decodes chained Ogg recordings, also of different rates", async () => {
  const parts = ["speech_48k_stereo.opus", "speech_44k_stereo.ogg", "speech_48k_stereo.opus"]
    .map(readFixture);
  const chained = await decodeWhole(new Uint8Array(parts.flatMap((part) => [...part])));
  const alone = await Promise.all(parts.map((part) => decodeWhole(part)));
  assert.equal(chained.length, alone.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const sound of alone) {
    const middle = [1000, sound.length - 1000] as const;
    assertSameValues(chained.slice(at + middle[0], at + middle[1]), sound.slice(...middle));
    at += sound.length;
  }
});

Deno.test("decodeAudio() returns the requested rate", async () => {
  for (const rate of [8_000, 24_000, 44_100]) {
    const { length } = await decodeWhole(readFixture("speech_22k_stereo.flac"), rate);
    assert.equal(length, Math.ceil(1.5 * rate));
  }
});

Deno.test("readAdts() decodes AAC-LC to the 16-bit samples of ffmpeg", async () => {
  const samples: number[] = [];
  for await (
    const { channels } of readAdts(readFixture("aac_tools.aac"), { onTruncated: assert.fail })
  ) {
    for (let i = 0; i < channels[0]!.length; i++) {
      for (const channel of channels) samples.push(channel[i]!);
    }
  }
  const expected: number[] = [];
  for await (
    const { channels, sampleRateHz } of readWav(readFixture("aac_tools.wav"), {
      onTruncated: assert.fail,
    })
  ) {
    assert.equal(sampleRateHz, 44_100);
    for (let i = 0; i < channels[0]!.length; i++) {
      for (const channel of channels) expected.push(channel[i]!);
    }
  }
  assert.equal(samples.length, expected.length);
  const worst = Math.max(...samples.map((sample, i) => {
    const clipped = Math.max(-1, Math.min(1 - 2 ** -15, sample));
    return Math.abs(clipped - expected[i]!);
  }));
  assert.ok(worst <= 0.51 * 2 ** -15, `${worst * 2 ** 15} bits off`);
});

Deno.test("decodeAac() uses the bands of the nearest rate for rates such as 40 kHz", async () => {
  const frames = [...listAdtsFrames(readFixture("aac_tools.aac"))];
  const decode = async (sampleRateHz: number) => {
    const sounds = await Array.fromAsync(decodeAac({ sampleRateHz }, frames));
    return sounds.map(({ channels }) => channels);
  };
  const expected = await decode(44_100);
  for (const rate of [37_566, 40_000]) assert.deepEqual(await decode(rate), expected);
});

/** Yields the frames of a file without checksums, without their headers. */
function* listAdtsFrames(file: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < file.length;) {
    const numBytes = (file[at + 3]! & 3) << 11 | file[at + 4]! << 3 | file[at + 5]! >> 5;
    yield file.subarray(at + 7, at + numBytes);
    at += numBytes;
  }
}

Deno.test("decodeAudio() stops when its signal is aborted", async () => {
  const controller = new AbortController();
  const pieces = decodeAudio(readFixture("speech_22k.mp3"), {
    sampleRateHz: RATE_HZ,
    signal: controller.signal,
  });
  controller.abort(new Error("The client has gone."));
  await assert.rejects(pieces.next(), /The client has gone/);
});

Deno.test("decodeAudio() decodes every format in a worker", async () => {
  const url = new URL("../../fixtures/audio/decode_worker.ts", import.meta.url);
  const worker = new Worker(url, { type: "module" });
  const answer = Promise.withResolvers<number[]>();
  worker.onmessage = ({ data }: MessageEvent<number[]>) => answer.resolve(data);
  worker.onerror = ({ message }) => answer.reject(new Error(message));
  worker.postMessage(SPEECH_FILES);
  const here = await Promise.all(SPEECH_FILES.map((name) => decodeWhole(readFixture(name))));
  assert.deepEqual(await answer.promise, here.map(({ length }) => length));
  worker.terminate();
});

Deno.test("decodeAudio() reads Opus of six channels, whose packets are longer than those of one stream", async () => {
  const decoded = await decodeWhole(readFixture("surround_48k.opus"));
  assert.equal(decoded.length, 0.2 * RATE_HZ);
  const original = (await decodeWhole(readFixture("speech.wav"))).subarray(0, decoded.length);
  const { decibels } = compare(decoded, original);
  assert.ok(decibels > 25, `${decibels} dB`);
});

Deno.test("decodeAudio() reports that a recording without a size was truncated, if one of its parts has a size", async () => {
  const file = readFixture("speech_48k_opus.webm");
  // Like programs that do not know the size yet: all bits of the segment's size are set.
  const segment = file.findIndex((byte, at) => byte === 0x18 && file[at + 1] === 0x53);
  file.set([0x01, ...Array(7).fill(0xff)], segment + 4);
  const read = async (bytes: Uint8Array<ArrayBuffer>) => {
    let message: string | undefined;
    const sound = decodeAudio(bytes, {
      sampleRateHz: RATE_HZ,
      onTruncated: (text) => message = text,
    });
    const pieces = await Array.fromAsync(sound);
    return { message, numSamples: pieces.reduce((sum, piece) => sum + piece.length, 0) };
  };
  const whole = await read(file);
  assert.equal(whole.message, undefined);
  const cut = await read(file.slice(0, file.length / 2));
  assert.match(cut.message ?? "", /was cut or is damaged: it promises \d+ bytes/);
  assert.ok(cut.numSamples > 0.3 * whole.numSamples && cut.numSamples < whole.numSamples);
});

const OGG_RATE_HZ = 44_100;

// Files cut at half a second without decoding: the first page lasts a whole second, and so begins
// before position 0.
for (
  const [cut, whole] of [
    ["cut_48k_stereo.opus", "speech_48k_stereo.opus"],
    ["cut_44k_stereo.ogg", "speech_44k_stereo.ogg"],
  ] as const
) {
  Deno.test(`readOgg() keeps all sound of ${cut}, whose positions begin before 0`, async () => {
    assertSameValues(await decodeWhole(readFixture(cut)), await decodeWhole(readFixture(whole)));
  });
}

Deno.test("readOgg() keeps every sample of a Vorbis file that was cut to one page and begins before position 0", async () => {
  const cut = await decodeWhole(readFixture("cut_page_44k_stereo.ogg"), OGG_RATE_HZ);
  const whole = await decodeWhole(readFixture("speech_44k_stereo.ogg"), OGG_RATE_HZ);
  assert.equal(cut.length, 35_520);
  assertSameValues(cut, whole.slice(0, cut.length));
});
