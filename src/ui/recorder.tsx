/**
 * A button that records from the microphone.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { openMicrophone } from "./microphone.ts";

/** Calls `onRecorded` with the finished recording. */
export function RecordButton({ labels = ["Record", "Stop recording"], onRecorded, onFailure }: {
  labels?: readonly [begin: string, end: string];
  onRecorded: (file: File) => void;
  onFailure: (message: string) => void;
}): JSX.Element {
  const [isRecording, setIsRecording] = useState(false);
  const recorder = useRef<MediaRecorder | undefined>(undefined);
  useEffect(() => () => recorder.current?.stop(), []);
  const begin = async () => {
    let stream: MediaStream;
    try {
      stream = await openMicrophone();
    } catch (error) {
      return onFailure((error as Error).message);
    }
    const parts: Blob[] = [];
    const made = recorder.current = new MediaRecorder(stream);
    made.ondataavailable = ({ data }) => parts.push(data);
    made.onstop = () => {
      recorder.current = undefined;
      for (const track of stream.getTracks()) track.stop();
      setIsRecording(false);
      onRecorded(new File(parts, "recording.webm", { type: made.mimeType }));
    };
    made.start();
    setIsRecording(true);
  };
  return (
    <button
      type="button"
      aria-pressed={isRecording}
      onClick={() => isRecording ? recorder.current?.stop() : begin()}
    >
      {labels[isRecording ? 1 : 0]}
    </button>
  );
}
