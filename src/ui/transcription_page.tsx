/**
 * Speech to text: words light up as the recording plays, and a click on a word moves playback there.
 *
 * @module
 */
import type { JSX } from "preact";
import { formatSrt, formatVtt } from "../media/subtitles.ts";
import { useEffect, useRef, useState } from "preact/hooks";
import { CopyButton, Failure, formatMs, TextField } from "./controls.tsx";
import { FileDrop, SaveButton, SOUND_FORMATS, useObjectUrl } from "./files.tsx";
import { LivePanel, RecordButton } from "./microphone.tsx";
import { RequestCode } from "./request_code.tsx";
import { call, type PageProps, readEvents, ServerError, useWork } from "./server.ts";
import { readPeaks, Waveform } from "./sound.tsx";

const PATH = "v1/audio/transcriptions";

interface Segment {
  /** Start and end of the text in seconds. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly words?: readonly {
    readonly word: string;
    readonly start: number;
    readonly end: number;
  }[];
}

const FIELDS = [["response_format", "verbose_json"], ["stream", "true"]] as const;
const WORDS = ["timestamp_granularities[]", "word"] as const;

export function TranscriptionPage({ info }: PageProps): JSX.Element {
  const [file, setFile] = useState<File>();
  const [peaks, setPeaks] = useState<readonly number[]>();
  const [segments, setSegments] = useState<readonly Segment[]>([]);
  const [language, setLanguage] = useState("");
  const [microphoneFailure, setMicrophoneFailure] = useState<string>();
  const work = useWork();

  const transcribe = (sound: File) =>
    work.start(async (signal) => {
      setFile(sound);
      setSegments([]);
      setPeaks(undefined);
      readPeaks(sound).then(setPeaks);
      const response = await request(sound, { model: info.id, language, signal });
      for await (const event of readEvents(response)) {
        const { type, ...segment } = event as Segment & { type: string };
        if (type === "transcript.text.segment") setSegments((before) => [...before, segment]);
      }
    });

  const shownLanguage = language.trim() === "" ? [] : [["language", language.trim()] as const];
  return (
    <main class="wide">
      <h1>Transcribe a recording</h1>
      <FileDrop
        accept="audio/*,video/webm,video/mp4"
        label="Drop or paste a recording"
        formats={SOUND_FORMATS}
        onFiles={([sound]) => transcribe(sound!)}
      >
        <RecordButton onRecorded={transcribe} onFailure={setMicrophoneFailure} />
      </FileDrop>
      <TextField
        label="Language"
        hint="A code such as en; detected if empty"
        isShort
        maxLength={3}
        placeholder="en"
        value={language}
        onInput={setLanguage}
      />
      <LivePanel model={info.id} language={language.trim()} />
      <Failure message={work.failure ?? microphoneFailure} />
      {file && (
        <Player file={file} peaks={peaks} segments={segments} isBusy={work.isBusy}>
          {work.isBusy ? "Transcribing …" : work.failure ? "" : "No speech was found."}
        </Player>
      )}
      {file && (
        <div class="row">
          {work.isBusy
            ? <button type="button" onClick={work.stop}>Stop</button>
            : <button type="button" onClick={() => transcribe(file)}>Transcribe again</button>}
          <CopyButton text={() => segments.map(({ text }) => text.trim()).join("\n")} />
          <SaveButton name="subtitles.srt" make={() => new Blob([formatSrt(toCues(segments))])}>
            SRT
          </SaveButton>
          <SaveButton name="subtitles.vtt" make={() => new Blob([formatVtt(toCues(segments))])}>
            VTT
          </SaveButton>
          {work.tookMs !== undefined && <span class="soft">{formatMs(work.tookMs)}</span>}
        </div>
      )}
      <RequestCode
        request={{
          path: PATH,
          file: `file=${file?.name ?? "speech.mp3"}`,
          form: [
            ["model", info.id],
            ...FIELDS,
            ["timestamp_granularities[]", "segment"],
            WORDS,
            ...shownLanguage,
          ],
        }}
      />
    </main>
  );
}

/** Requests a transcription with the times of words, or without them if the model has none. */
async function request(
  sound: File,
  { model, language, signal }: {
    readonly model: string;
    readonly language: string;
    readonly signal: AbortSignal;
  },
): Promise<Response> {
  const form = (withWords: boolean) => {
    const body = new FormData();
    // The model's name comes before the file, because a router reads a form only up to that name.
    body.append("model", model);
    body.append("file", sound);
    for (const [name, value] of FIELDS) body.append(name, value);
    body.append("timestamp_granularities[]", "segment");
    if (withWords) body.append(...WORDS);
    if (language.trim() !== "") body.append("language", language.trim());
    return body;
  };
  try {
    return await call(PATH, { method: "POST", body: form(true), signal });
  } catch (error) {
    const lacksWords = error instanceof ServerError && error.status === 400 &&
      /timestamp_granularities|times of words/.test(error.message);
    if (!lacksWords) throw error;
    return await call(PATH, { method: "POST", body: form(false), signal });
  }
}

function Player({ file, peaks, segments, isBusy, children }: {
  file: File;
  peaks: readonly number[] | undefined;
  segments: readonly Segment[];
  isBusy: boolean;
  /** Shown while there are no segments. */
  children: string;
}): JSX.Element {
  const url = useObjectUrl(file);
  const audio = useRef<HTMLAudioElement>(null);
  const [seconds, setSeconds] = useState(0);
  const duration = audio.current?.duration || 0;
  useEffect(() => {
    let frame = 0;
    const follow = () => {
      const { current } = audio;
      if (current && !current.paused) setSeconds(current.currentTime);
      frame = requestAnimationFrame(follow);
    };
    follow();
    return () => cancelAnimationFrame(frame);
  }, []);
  const seek = (to: number) => {
    audio.current!.currentTime = to;
    setSeconds(to);
  };
  return (
    <section>
      {peaks && (
        <Waveform
          peaks={peaks}
          fraction={duration > 0 ? seconds / duration : 0}
          onSeek={(fraction) => seek(fraction * duration)}
        />
      )}
      <audio
        ref={audio}
        src={url}
        controls
        aria-label="The recording"
        onSeeked={(event) => setSeconds(event.currentTarget.currentTime)}
      />
      <p class="transcript" dir="auto" aria-live="polite" aria-busy={isBusy}>
        {segments.flatMap((segment, at) =>
          (segment.words ?? [{ word: segment.text.trim(), start: segment.start, end: segment.end }])
            .map(({ word, start, end }, index) => (
              <button
                type="button"
                key={`${at}.${index}`}
                aria-current={seconds >= start && seconds < end && seconds > 0}
                onClick={() => seek(start)}
              >
                {word}
              </button>
            ))
        )}
        {segments.length === 0 && children}
      </p>
    </section>
  );
}

function toCues(segments: readonly Segment[]): Parameters<typeof formatSrt>[0] {
  return segments.map(({ start, end, text }) => ({ startSeconds: start, endSeconds: end, text }));
}
