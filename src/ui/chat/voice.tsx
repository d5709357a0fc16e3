/**
 * Speech models behind the same address as the model that chats, and dictation: the text of what the microphone hears is
 * added to the message.
 *
 * @module
 */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Failure } from "../controls.tsx";
import { RecordButton } from "../recorder.tsx";
import { call, type ListedModel } from "../server.ts";
import { useWork } from "../observed.ts";

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

/** Ids of speech models; absent if there is no model of the kind. */
export interface Voice {
  /** Transcribes dictated messages. */
  readonly listener?: string;
  /** Reads answers aloud. */
  readonly speaker?: string;
}

export function useVoice(models: readonly ListedModel[]): Voice {
  return useMemo(() => {
    const find = (kind: ListedModel["kind"]) =>
      models.find((model) => model.kind === kind && !model.status.failed)?.id;
    const [listener, speaker] = [find("asr"), find("tts")];
    return { ...(listener && { listener }), ...(speaker && { speaker }) };
  }, [models]);
}
