/**
 * Text to speech: plays the sound while it arrives.
 *
 * @module
 */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Failure, formatMs, TextField } from "./controls.tsx";
import {
  FileDrop,
  readDataUrl,
  SaveButton,
  saveFile,
  SOUND_FORMATS,
  useObjectUrl,
} from "./files.tsx";
import { RecordButton } from "./microphone.tsx";
import { RequestCode } from "./request_code.tsx";
import { call, type PageProps, post, readBytes, useWork } from "./server.ts";
import { findPeaks, makeWav, readPeaks, SpeechPlayer, Waveform } from "./sound.tsx";

interface Voice {
  readonly id: string;
  readonly name?: string;
}

const EXAMPLE = "Hello there. How are you today?";

interface Result {
  readonly file: Blob;
  /** The request that produced the speech, unless it contained a recording. */
  readonly request?: Readonly<Record<string, unknown>>;
  readonly peaks: readonly number[];
  readonly firstSoundMs?: number;
}

export function SpeechPage({ info }: PageProps): JSX.Element {
  const [text, setText] = useState(EXAMPLE);
  const [voices, setVoices] = useState<readonly Voice[]>([]);
  const [voice, setVoice] = useState("");
  const [speed, setSpeed] = useState(1);
  const [reference, setReference] = useState<File>();
  const [result, setResult] = useState<Result>();
  const [failure, setFailure] = useState<string>();
  const work = useWork();

  useEffect(() => {
    call(`v1/audio/voices?model=${encodeURIComponent(info.id)}`).then(async (response) => {
      const { voices = [] } = await response.json() as { voices?: Voice[] };
      setVoices(voices);
      setVoice(voices[0]?.id ?? "");
    }).catch((error: Error) => setFailure(error.message));
  }, []);

  const streamed = {
    model: info.id,
    input: text,
    ...(voice !== "" && { voice }),
    speed,
    response_format: "pcm",
  };
  const speak = () =>
    work.start(async (signal) => {
      setFailure(undefined);
      setResult(undefined);
      setResult(
        reference === undefined
          ? await speakStreamed(streamed, signal)
          : await speakAs(info.id, { text, speed, reference, signal }),
      );
    });

  return (
    <main class="narrow">
      <h1>Speak a text</h1>
      <TextField label="Text" rows={5} dir="auto" value={text} onInput={setText} />
      <div class="row">
        {voices.length > 0 && reference === undefined && (
          <label>
            Voice
            <select value={voice} onChange={(event) => setVoice(event.currentTarget.value)}>
              {voices.map(({ id, name }) => <option key={id} value={id}>{name ?? id}</option>)}
            </select>
          </label>
        )}
        <label>
          Speed {speed.toFixed(2)}
          <input
            type="range"
            min="0.5"
            max="2"
            step="0.05"
            value={speed}
            onInput={(event) => setSpeed(event.currentTarget.valueAsNumber)}
          />
        </label>
      </div>
      {info.takes_reference_voice && (
        <FileDrop
          accept="audio/*"
          label={reference
            ? `Speaks with the voice of ${reference.name}`
            : "Drop a recording to speak with its voice"}
          formats={SOUND_FORMATS}
          onFiles={([file]) => setReference(file)}
        >
          <RecordButton onRecorded={setReference} onFailure={setFailure} />
          {reference && (
            <button type="button" onClick={() => setReference(undefined)}>Remove</button>
          )}
        </FileDrop>
      )}
      <div class="row">
        <button
          type="button"
          class="main"
          disabled={text.trim() === "" && !work.isBusy}
          onClick={work.isBusy ? work.stop : speak}
        >
          {work.isBusy ? "Stop" : "Speak"}
        </button>
        {result?.firstSoundMs !== undefined && (
          <span class="soft">first sound after {formatMs(result.firstSoundMs)}</span>
        )}
      </div>
      <Failure message={work.failure ?? failure} />
      {result && (
        <Playback result={result}>
          {result.request && <Mp3Button request={result.request} />}
        </Playback>
      )}
      <RequestCode
        request={{
          path: "v1/audio/speech",
          json: { ...streamed, response_format: "mp3" },
          output: "speech.mp3",
        }}
      />
    </main>
  );
}

async function speakStreamed(
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<Result> {
  const startedMs = performance.now();
  const player = new SpeechPlayer();
  signal.addEventListener("abort", () => player.close());
  try {
    const response = await post("v1/audio/speech", body, signal);
    let firstSoundMs = 0;
    for await (const bytes of readBytes(response)) {
      firstSoundMs ||= performance.now() - startedMs;
      player.add(bytes);
    }
    await player.finished();
    const samples = player.samples();
    return { file: makeWav(samples), request: body, peaks: findPeaks(samples), firstSoundMs };
  } finally {
    await player.close();
  }
}

/** Requests speech in a cloned voice; the answer comes as one file. */
async function speakAs(model: string, { text, speed, reference, signal }: {
  text: string;
  speed: number;
  reference: File;
  signal: AbortSignal;
}): Promise<Result> {
  const response = await post("v1/audio/speech", {
    model,
    speed,
    messages: [{
      role: "user",
      content: [
        { type: "text", text },
        { type: "audio_url", audio_url: { url: await readDataUrl(reference) } },
      ],
    }],
  }, signal);
  const { choices: [choice] } = await response.json() as {
    choices: { message: { content: { audio_url: { url: string } }[] } }[];
  };
  const file = dataUrlToBlob(choice!.message.content[0]!.audio_url.url);
  return { file, peaks: await readPeaks(file) ?? [] };
}

/** Converts a `data:` URL to a blob. The page's content security policy does not allow `fetch` for such URLs. */
function dataUrlToBlob(url: string): Blob {
  const comma = url.indexOf(",");
  const bytes = Uint8Array.from(atob(url.slice(comma + 1)), (each) => each.charCodeAt(0));
  return new Blob([bytes], { type: url.slice("data:".length, comma).split(";")[0]! });
}

/** Requests the speech again, as an MP3 file, and saves it. */
function Mp3Button({ request }: { request: Readonly<Record<string, unknown>> }): JSX.Element {
  const work = useWork();
  const save = () =>
    work.start(async (signal) => {
      const body = { ...request, response_format: "mp3" };
      saveFile(await (await post("v1/audio/speech", body, signal)).blob(), "speech.mp3");
    });
  return (
    <>
      <button type="button" disabled={work.isBusy} onClick={save}>
        {work.isBusy ? "Making MP3 …" : "Download MP3"}
      </button>
      <Failure message={work.failure} />
    </>
  );
}

function Playback({ result: { file, peaks }, children }: {
  result: Result;
  children: ComponentChildren;
}): JSX.Element {
  const audio = useRef<HTMLAudioElement>(null);
  const [fraction, setFraction] = useState(0);
  const url = useObjectUrl(file);
  return (
    <section>
      <Waveform
        peaks={peaks}
        fraction={fraction}
        onSeek={(to) => {
          audio.current!.currentTime = to * audio.current!.duration;
          setFraction(to);
        }}
      />
      <audio
        ref={audio}
        src={url}
        controls
        aria-label="The speech"
        onTimeUpdate={({ currentTarget: { currentTime, duration } }) =>
          setFraction(currentTime / duration)}
      />
      <div class="row">
        <SaveButton name="speech.wav" make={() => file}>Download WAV</SaveButton>
        {children}
      </div>
    </section>
  );
}
