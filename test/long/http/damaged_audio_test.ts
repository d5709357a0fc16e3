/** Damaged uploads give 400 or a transcript, and the server still transcribes afterwards. */
import assert from "node:assert/strict";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechApp,
  postSpeech,
  readRecording,
} from "../../fixtures/servers/speech_server.ts";
import { findForeignSpeech, foreignSpeechTest } from "../../fixtures/audio/speech.ts";

const NUM_FILES = 96;

/** Damages a file reproducibly: cuts off its end or its beginning, flips bits, or overwrites bytes. */
function damage(file: Uint8Array<ArrayBuffer>, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed * 2654435761 >>> 0;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
  const bytes = file.slice();
  switch (seed % 4) {
    case 0:
      return bytes.slice(0, random(seed % 8 === 0 ? 64 : bytes.length));
    case 1: {
      // Damage has the most effect in headers.
      const reach = random(2) === 0 ? 64 : bytes.length;
      for (let i = 0; i < 8; i++) bytes[random(reach)]! ^= 1 << random(8);
      return bytes;
    }
    case 2: {
      const start = random(bytes.length);
      return bytes.fill(random(256), start, start + random(2000));
    }
    default:
      return bytes.slice(random(bytes.length));
  }
}

foreignSpeechTest(
  `transcriptions: ${NUM_FILES} damaged files give 400 or a transcript`,
  async () => {
    await using app = await openSpeechApp();
    const speechFolder = findForeignSpeech()!;
    const files = [
      await readRecording("04_voice.wav"),
      await Deno.readFile(`${speechFolder}/jfk.flac`),
    ];
    const short = files.map((file) => file.slice(0, 60_000));
    let numTranscripts = 0;
    for (let seed = 0; seed < NUM_FILES; seed++) {
      const response = await postSpeech(app, damage(short[seed >> 2 & 1]!, seed));
      const body = await response.json();
      if (response.status === 200) {
        assert.equal(typeof body.text, "string");
        numTranscripts++;
      } else {
        assert.deepEqual(
          [response.status, body.error.code],
          [400, "invalid_media"],
          `seed ${seed}`,
        );
      }
    }
    assert.ok(numTranscripts > 0 && numTranscripts < NUM_FILES, `${numTranscripts} transcripts`);
    const { text } = await (await postSpeech(app, await readRecording(CLIP.file))).json();
    assert.equal(text, CLIP_TEXT);
  },
);
