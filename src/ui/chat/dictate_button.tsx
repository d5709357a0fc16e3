/**
 * Dictation: adds the text of what the microphone hears to the message.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "../controls.tsx";
import { RecordButton } from "../recorder.tsx";
import { call } from "../server.ts";
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
