/**
 * A button that records the microphone.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Called with the finished recording. */
export function RecordButton({ onRecorded, onFailure }: {
  onRecorded: (file: File) => void;
  onFailure: (message: string) => void;
}): JSX.Element {
  const [isRecording, setIsRecording] = useState(false);
  const recorder = useRef<MediaRecorder | undefined>(undefined);
  useEffect(() => () => recorder.current?.stop(), []);
  const begin = async () => {
    if (navigator.mediaDevices === undefined) {
      return onFailure(
        `Browsers give the microphone only to pages at https:// and at localhost, and this one is at ` +
          `${location.origin}. Record with another program and choose the file here.`,
      );
    }
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (error) {
      return onFailure(`The microphone cannot be used: ${(error as Error).message}`);
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
      {isRecording ? "Stop recording" : "Record"}
    </button>
  );
}
