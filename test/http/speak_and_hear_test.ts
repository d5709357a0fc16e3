import assert from "node:assert/strict";
import { joinBytes } from "../../src/join_bytes.ts";
import { SOUND_FORMATS, type SoundFormat } from "../../src/media/sound_format.ts";
import { createSoundWriter } from "../../src/media/write_sound.ts";
import { openSpeechApp } from "../fixtures/speech_server.ts";
import { decodeAll } from "../fixtures/tts_server.ts";

const SENTENCES = [
  "Turn on the kitchen light.",
  "What is the weather in Paris?",
  "Set a timer for ten minutes.",
  "Will it rain tomorrow?",
  "Turn off the garage light.",
  "Open the door.",
  "What time is it?",
  "Take me to the museum.",
  "Send a message to Emma.",
  "Ask Michael to feed the horse.",
];
/** What is written as a file that says what it is; bare samples are none. */
const FORMATS = SOUND_FORMATS.filter((format) => format !== "pcm");
const RATE_HZ = 22_050;

async function speak(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const args = ["-v", "en-gb", "-s", "150", "--stdout", text];
  const { stdout } = await new Deno.Command("espeak-ng", { args }).output();
  return stdout;
}

async function hasEspeak(): Promise<boolean> {
  const command = new Deno.Command("espeak-ng", { args: ["--version"], stdout: "null" });
  return await command.output().then(({ success }) => success, () => false);
}

async function write(format: SoundFormat, samples: Float32Array): Promise<Uint8Array> {
  const writer = await createSoundWriter(format, RATE_HZ);
  const bytes = joinBytes([writer.write(samples), writer.finish()]);
  writer.dispose();
  return bytes;
}

Deno.test({
  name: "what is spoken and written in any format is heard in a chat, word for word",
  ignore: !await hasEspeak(),
  fn: async () => {
    await using app = await openSpeechApp();
    const model = app.session.requireReady().id;
    const hear = async (sentence: string, i: number) => {
      const samples = await decodeAll(await speak(sentence), RATE_HZ);
      const url = `base64://${(await write(FORMATS[i % FORMATS.length]!, samples)).toBase64()}`;
      const content = [
        { type: "text", text: "What is said?" },
        { type: "audio", audio_url: { url } },
      ];
      const response = await app.post("/chat/completions", {
        model,
        messages: [{ role: "user", content }],
        temperature: 0,
      });
      const { choices } = await response.json();
      return choices[0].message.content;
    };
    assert.deepEqual(await Promise.all(SENTENCES.map(hear)), SENTENCES);
  },
});
