import assert from "node:assert/strict";
import { decodeAudio } from "../../../src/media/audio.ts";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { splitFlac } from "../../../src/media/audio/flac_frames.ts";
import { makeOggPage } from "../../../src/media/audio/ogg_pages.ts";
import { decodeWhole, readFixture } from "../../fixtures/audio/audio_files.ts";
import { FRAME_SAMPLES, makeFlacSilence } from "../../fixtures/audio/flac_silence.ts";

/** Bytes of the magic and the single metadata block in files of {@linkcode makeFlacSilence}. */
const HEAD_BYTES = 42;

for (const bitsPerSample of [16, 32] as const) {
  for (const isTerse of [false, true]) {
    const from = isTerse ? "STREAMINFO" : "its frames";
    Deno.test(`decodeAudio() reads FLAC of ${bitsPerSample} bits whose rate is from ${from}`, async () => {
      const options = { numFrames: 3, sampleRateKhz: 16, bitsPerSample, isTerse };
      const decoded = await decodeWhole(makeFlacSilence({ ...options, level: 0.25 }));
      assert.equal(decoded.length, 3 * FRAME_SAMPLES);
      const worst = decoded.reduce((most, x) => Math.max(most, Math.abs(x - 0.25)), 0);
      assert.ok(worst < 2 ** -14, `${worst} off`);
    });
  }
}

Deno.test("decodeAudio() reads FLAC of seven channels in the longest frames", async () => {
  const options = {
    numFrames: 3,
    sampleRateKhz: 48,
    numChannels: 7,
    isVerbatim: true,
    level: 0.25,
  };
  const decoded = await decodeWhole(makeFlacSilence(options), 48_000);
  assertSameValues(decoded, new Float32Array(3 * FRAME_SAMPLES).fill(0.25));
});

Deno.test("decodeAudio() reads a FLAC file to its end if tags follow", async () => {
  const flac = readFixture("speech_22k_stereo.flac");
  const plain = await decodeWhole(flac);
  const tails = {
    "ID3v1": text("TAG".padEnd(128, "x")),
    "APE": text("APETAGEX".padEnd(400, "x")),
    "ID3v2": text("ID3".padEnd(400, "x")),
    "zeros": new Uint8Array(1000),
    "other bytes": text("what another program has put here ".repeat(30)),
  };
  for (const [name, tail] of Object.entries(tails)) {
    const decoded = await decodeWhole(new Uint8Array([...flac, ...tail]));
    assertSameValues(decoded, plain, name);
  }
});

Deno.test("decodeAudio() skips a damaged frame of FLAC without a length, and decodes the others", async () => {
  const file = makeFlacSilence({ numFrames: 5, sampleRateKhz: 16 });
  const frameBytes = (file.length - HEAD_BYTES) / 5;
  // Changes the sample of the third frame.
  file[HEAD_BYTES + 3 * frameBytes - 3]! ^= 1;
  assert.equal((await decodeWhole(file)).length, 4 * FRAME_SAMPLES);
});

Deno.test("decodeAudio() reads FLAC of stereo blocks of 16 samples", async () => {
  const short = await decodeWhole(readFixture("short_blocks_22k_stereo.flac"), 22_050);
  const whole = await decodeWhole(readFixture("speech_22k_stereo.flac"), 22_050);
  assertSameValues(short, whole.slice(0, 2205));
});

Deno.test("decodeAudio() decodes whole frames cut out of a FLAC file whose header declares more samples", async () => {
  const [head, frames] = takeApart(readFixture("speech_22k_stereo.flac"));
  const wanted = frames.slice(3, 6);
  const { length } = await decodeWhole(concat([head, ...wanted]), 22_050);
  assert.equal(length, 3 * 2304);
  const last = wanted.pop()!;
  assert.match(
    await findTruncation(concat([head, ...wanted, last.subarray(0, -1)])),
    /was cut or is damaged: its header promises 33075 samples, and 4608 can be decoded/,
  );
});

Deno.test("decodeAudio() decodes FLAC cut out of Ogg, and reports that the last page is missing", async () => {
  const [head, frames] = takeApart(readFixture("speech_22k_stereo.flac"));
  const first = makeOggPage(concat([text("\x7fFLAC\x01\0\0\0"), head]), 0);
  const pages = frames.slice(3, 6).map((frame, i) =>
    makeOggPage(frame, i + 1, { isLast: i === 2 })
  );
  assert.equal((await decodeWhole(concat([first, ...pages]), 22_050)).length, 3 * 2304);
  assert.match(
    await findTruncation(concat([first, ...pages.slice(0, 2)])),
    /was cut or is damaged/,
  );
});

/** The message about a file's truncation; empty if there is none. */
async function findTruncation(file: Uint8Array<ArrayBuffer>): Promise<string> {
  let message = "";
  const sound = decodeAudio(file, { sampleRateHz: 16_000, onTruncated: (text) => message = text });
  for await (const piece of sound) assert.ok(piece.length >= 0);
  return message;
}

/** A file's magic and first block of metadata, which is marked as the last, and the file's frames. */
function takeApart(file: Uint8Array<ArrayBuffer>): [head: Uint8Array, frames: Uint8Array[]] {
  const head = file.slice(0, HEAD_BYTES);
  let at = 4;
  for (let isLast = false; !isLast;) {
    isLast = file[at]! >= 0x80;
    at += 4 + (file[at + 1]! << 16 | file[at + 2]! << 8 | file[at + 3]!);
  }
  head[4]! |= 0x80;
  return [head, [...splitFlac(file.subarray(at))]];
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

Deno.test("splitFlac() returns every byte once, and data without frames as one piece", () => {
  const file = makeFlacSilence({ numFrames: 200, sampleRateKhz: 16 });
  const stream = file.subarray(HEAD_BYTES);
  const frames = [...splitFlac(stream)];
  assert.equal(frames.length, 200);
  assertSameValues(new Uint8Array(frames.flatMap((frame) => [...frame])), stream);
  // Without a matching checksum there is no frame, and the rest is one piece.
  assert.equal([...splitFlac(new Uint8Array(5000).fill(0xff))].length, 1);
});

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}
