/**
 * Speech in a chat, by speech models behind the same address as the model that chats: dictation, and answers read
 * aloud.
 *
 * @module
 */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Failure, QuietButton } from "../controls.tsx";
import { RecordButton } from "../microphone.tsx";
import { call, type ListedModel, post, readBytes, useWork } from "../server.ts";
import { SpeechPlayer } from "../sound.tsx";

/** A button that records speech, and adds its text to the message. */
export function DictateButton({ model, onText }: {
  model: string;
  onText: (text: string) => void;
}): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const work = useWork();
  const transcribe = (sound: File) => {
    setFailure(undefined);
    work.start(async (signal) => {
      const body = new FormData();
      body.append("model", model);
      body.append("file", sound);
      const response = await call("v1/audio/transcriptions", { method: "POST", body, signal });
      const { text } = await response.json() as { text: string };
      if (text.trim() === "") setFailure("No speech was found.");
      else onText(text.trim());
    });
  };
  return (
    <>
      {work.isBusy
        ? <button type="button" onClick={work.stop}>Transcribing …</button>
        : (
          <RecordButton
            labels={["Dictate", "Stop dictating"]}
            onRecorded={transcribe}
            onFailure={setFailure}
          />
        )}
      <Failure message={work.failure ?? failure} />
    </>
  );
}

/** A button that reads a text aloud. @param props.text gives the text when the button is pressed. */
export function ReadAloudButton({ model, text }: {
  model: string;
  text: () => string;
}): JSX.Element {
  const work = useWork();
  const read = () =>
    work.start(async (signal) => {
      const player = new SpeechPlayer();
      signal.addEventListener("abort", () => player.close());
      try {
        const body = { model, input: text(), response_format: "pcm" };
        const response = await post("v1/audio/speech", body, signal);
        for await (const bytes of readBytes(response)) player.add(bytes);
        await player.finished();
      } finally {
        await player.close();
      }
    });
  return (
    <>
      <QuietButton aria-pressed={work.isBusy} onClick={work.isBusy ? work.stop : read}>
        {work.isBusy ? "Stop reading" : "Read aloud"}
      </QuietButton>
      <Failure message={work.failure} />
    </>
  );
}

/** Ids of speech models; absent if there is no model of the kind. */
export interface Voice {
  /** Transcribes dictated messages. */
  readonly listener?: string;
  /** Reads answers aloud. */
  readonly speaker?: string;
}

/** Finds the first speech model of each kind that has not failed to load. */
export function useVoice(models: readonly ListedModel[]): Voice {
  return useMemo(() => {
    const find = (kind: ListedModel["kind"]) =>
      models.find((model) => model.kind === kind && !model.status.failed)?.id;
    const [listener, speaker] = [find("asr"), find("tts")];
    return { ...(listener && { listener }), ...(speaker && { speaker }) };
  }, [models]);
}
