import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { HearthError } from "../../../src/base/errors.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import { countFlacSamples, readFlac } from "../../../src/media/audio/flac.ts";
import { makeOggPage } from "../../../src/media/audio/ogg_pages.ts";
import { MAX_AUDIO_HOURS } from "../../../src/media/audio/sound.ts";
import { decodeWhole, readFixture, SPEECH_FILES } from "../../fixtures/audio/audio_files.ts";
import { FRAME_SAMPLES, makeFlacSilence } from "../../fixtures/audio/flac_silence.ts";

type Damage = (file: Uint8Array<ArrayBuffer>, random: Random) => Uint8Array<ArrayBuffer>;
/** An integer from 0 to below `limit`. */
type Random = (limit: number) => number;

/** Ways to damage a file, each keeping or reducing its length. */
const DAMAGES: Readonly<Record<string, Damage>> = {
  "cut": (file, random) => file.slice(0, random(file.length)),
  "with bits flipped": (file, random) => {
    for (let i = random(20); i >= 0; i--) file[random(file.length)]! ^= 1 << random(8);
    return file;
  },
  "with a damaged header": (file, random) => {
    for (let i = random(8); i >= 0; i--) file[random(Math.min(400, file.length))] = random(256);
    return file;
  },
  "with a hole": (file, random) => {
    const start = random(file.length);
    return new Uint8Array([...file.subarray(0, start), ...file.subarray(start + random(500))]);
  },
  "with noise in it": (file, random) => {
    const start = random(file.length);
    for (let i = start + random(2000); i >= start; i--) file[i] = random(256);
    return file;
  },
  "with the header of another format": (file, random) => {
    const other = readFixture(SPEECH_FILES[random(SPEECH_FILES.length)]!);
    file.set(other.subarray(0, Math.min(file.length, 1 + random(64))));
    return file;
  },
};
const ROUNDS = 2;

function makeRandom(seed: number): Random {
  let state = seed;
  return (limit) => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0;
    return Math.floor(state / 2 ** 32 * limit);
  };
}

/** Asserts that a damaged file gives either sound or an error about it. */
async function assertBears(file: Uint8Array<ArrayBuffer>, what: string): Promise<void> {
  try {
    const samples = await decodeWhole(file);
    assert.ok(samples.length > 0 && samples.every(Number.isFinite), what);
  } catch (error) {
    assert.ok(error instanceof HearthError, `${what}: ${error}`);
    assert.equal(error.kind, "invalid_media");
  }
}

async function assertInvalid(file: Uint8Array<ArrayBuffer>, message: RegExp): Promise<void> {
  await assert.rejects(decodeWhole(file), { name: "HearthError", kind: "invalid_media", message });
}

for (const [fileIndex, name] of SPEECH_FILES.entries()) {
  Deno.test(`decodeAudio() survives ${name} damaged in many ways, and then decodes the intact file as before`, async () => {
    const intact = readFixture(name);
    const before = await decodeWhole(intact);
    for (const [kind, damage] of Object.entries(DAMAGES)) {
      for (let round = 0; round < ROUNDS; round++) {
        const random = makeRandom(1 + fileIndex * 1000 + round);
        await assertBears(damage(intact.slice(), random), `${name} ${kind}, round ${round}`);
      }
    }
    assertSameValues(await decodeWhole(intact), before);
  });
}

Deno.test("decodeAudio() refuses files that are not audio", async () => {
  await assertInvalid(new Uint8Array(), /is empty/);
  await assertInvalid(new Uint8Array(1), /not supported audio/);
  await assertInvalid(new Uint8Array(100_000), /not supported audio/);
  await assertInvalid(new Uint8Array(100_000).fill(0xff), /not supported audio/);
  await assertInvalid(
    new TextEncoder().encode("<html>".repeat(1000)),
    /seems to be HTML, .* one of WAV, Ogg/,
  );
});

Deno.test("decodeAudio() names unsupported formats", async () => {
  const starts = {
    "AMR": "#!AMR\n<U",
    "WMA or WMV": "\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "MPEG transport stream": "\x47\x40\x11\x10",
    "DTS": "\x7f\xfe\x80\x01\xfc",
    "TrueHD": "\xf8\x06\0\0\xf8\x72\x6f\xba",
    "Creative Voice \\(VOC\\)": "Creative Voice File\x1a",
  };
  for (const [name, start] of Object.entries(starts)) {
    const file = new Uint8Array(10_000);
    file.set(Array.from(start, (letter) => letter.charCodeAt(0)));
    await assertInvalid(
      file,
      new RegExp(`seems to be ${name}, which is not supported; one of WAV, Ogg`),
    );
  }
});

Deno.test("decodeAudio() reads no frames from a transport stream, whatever its packets", async () => {
  const frames = readFixture("speech_16k.aac");
  for (const [head, packetBytes] of [[[], 188], [[0, 0, 1, 2], 192]] as const) {
    const numPackets = 40;
    const file = new Uint8Array(numPackets * packetBytes);
    for (let packet = 0; packet < numPackets; packet++) {
      // A null packet first, as in the middle of a broadcast, then whole frames.
      file.set([...head, 0x47, packet === 0 ? 0x1f : 0x01, 0xff, 0x10], packet * packetBytes);
      const room = packetBytes - head.length - 4;
      if (packet > 0) file.set(frames.subarray(0, room), packet * packetBytes + head.length + 4);
    }
    file.set(frames.subarray(0, 2000), 2 * packetBytes + head.length + 4);
    for (let at = head.length; at < file.length; at += packetBytes) file[at] = 0x47;
    await assertInvalid(file, /seems to be MPEG transport stream/);
  }
});

Deno.test("decodeAudio() refuses containers without sound it can decode", async () => {
  const spoil = (name: string, from: string, to: string) => {
    const file = readFixture(name);
    const text = new TextDecoder("latin1").decode(file);
    file.set(new TextEncoder().encode(to), text.indexOf(from));
    return file;
  };
  await assertInvalid(
    spoil("speech_44k_stereo.m4a", "mp4a", "samr"),
    /sound is samr \(AMR\); AAC/,
  );
  await assertInvalid(spoil("speech_44k_stereo.m4a", "soun", "vide"), /no sound track/);
  await assertInvalid(
    spoil("speech_48k_opus.webm", "A_OPUS", "A_DTS_"),
    /sound is A_DTS_ \(DTS\); A_OPUS/,
  );
  await assertInvalid(
    spoil("speech_48k_stereo.opus", "OpusHead", "Speex   "),
    /no Opus, Vorbis or FLAC/,
  );
});

Deno.test("decodeAudio() names MP3 in free format, and unsupported kinds of AAC", async () => {
  // Like lame --freeformat: frames of one length with bitrate 0, some with a byte of padding.
  const frames = [1000, 1001, 1000, 1000].map((numBytes) => {
    const frame = new Uint8Array(numBytes).fill(0x55);
    frame.set([0xff, 0xfb, numBytes === 1001 ? 0x02 : 0x00, 0xc4]);
    return frame;
  });
  const free = new Uint8Array(await new Blob(frames).arrayBuffer());
  await assertInvalid(free, /MP3 file is in free format.*320 kbit\/s is expected/);
  // Without more frames it cannot be recognized.
  await assertInvalid(free.slice(0, 1500), /not supported audio/);
  const main = readFixture("speech_16k.aac");
  for (let at = 0; at < main.length;) {
    main[at + 2]! &= 0x3f;
    at += (main[at + 3]! & 3) << 11 | main[at + 4]! << 3 | main[at + 5]! >> 5;
  }
  await assertInvalid(main, /AAC file is AAC Main; AAC-LC or HE-AAC/);
  await assertInvalid(Uint8Array.of(0x56, 0xe0, 0x40, 0x20), /seems to be AAC in LATM/);
});

Deno.test("decodeAudio() names an unsupported codec in Ogg", async () => {
  const head = new TextEncoder().encode("Speex   1.2.1".padEnd(80, "\0"));
  await assertInvalid(makeOggPage(head, 0), /sound is Speex; Opus, Vorbis or FLAC is expected/);
});

Deno.test("decodeAudio() is fast for files designed to be slow", async () => {
  const size = 8 << 20;
  const repeat = (unit: ArrayLike<number>, beginning: ArrayLike<number> = []) => {
    const file = new Uint8Array(size);
    file.set(unit);
    for (let end = unit.length; end < size; end *= 2) file.copyWithin(end, 0, end);
    file.set(beginning);
    return file;
  };
  const bytes = (text: string) => new TextEncoder().encode(text);
  // Each would take hours if a part of the file were scanned repeatedly.
  await assertInvalid(repeat([...bytes("OggS\0"), ...Array(21).fill(0), 255, 255]), /Ogg/);
  await assertInvalid(
    repeat(bytes("\0\0\0\x08moof"), bytes("\0\0\0\x08ftyp")),
    /no table of contents/,
  );
  await assertInvalid(repeat([0xff, 0xf1, 0x50, 0x80, 0x01, 0x1f, 0xfc, 0]), /AAC frames/);
  await assertInvalid(repeat([0xec, 0x80], [0x1a, 0x45, 0xdf, 0xa3, 0x80]), /no sound track/);
});

Deno.test("decodeAudio() returns the very long silence of a small file in chunks, and refuses it after 8 hours", async () => {
  const sampleRateHz = 1_000;
  const file = makeFlacSilence({ numFrames: 700, sampleRateKhz: 1 });
  assert.ok(file.length < 11_000);
  let numSamples = 0;
  const decode = async () => {
    for await (const piece of decodeAudio(file, { sampleRateHz })) {
      assert.ok(piece.length <= 65_536);
      numSamples += piece.length;
    }
  };
  await assert.rejects(decode, { kind: "invalid_media", message: /longer than 8 hours/ });
  assert.equal(Math.round(numSamples / sampleRateHz / 3600), MAX_AUDIO_HOURS);
});

Deno.test("countFlacSamples() returns the length that a FLAC file declares, Infinity if it declares none, and 0 for other files", async () => {
  const speech = readFixture("speech_22k_stereo.flac");
  let numSamples = 0;
  for await (const { channels } of readFlac(speech, { onTruncated: assert.fail })) {
    numSamples += channels[0]?.length ?? 0;
  }
  assert.equal(countFlacSamples(speech), numSamples);
  assert.equal(countFlacSamples(makeFlacSilence({ numFrames: 1, sampleRateKhz: 16 })), Infinity);
  assert.equal(countFlacSamples(readFixture("speech.wav")), 0);
  assert.equal(countFlacSamples(speech.subarray(0, 20)), 0);
});

Deno.test("decodeAudio() reads a FLAC file to its silent end", async () => {
  for (const numFrames of [1, 2, 9]) {
    const file = makeFlacSilence({ numFrames, sampleRateKhz: 16 });
    assert.equal((await decodeWhole(file)).length, numFrames * FRAME_SAMPLES);
  }
});
