/**
 * The microphone, and a button that records from it.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

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

/** Sample rate of {@linkcode listen}. */
const LISTEN_RATE = 24_000;

/** @throws {Error} with the reason, in words for the user. */
export async function openMicrophone(): Promise<MediaStream> {
  if (navigator.mediaDevices === undefined) {
    throw new Error(
      `Browsers allow the microphone only on https:// pages and localhost, and this page is at ` +
        `${location.origin}. Record with another program and choose the file here.`,
    );
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    throw new Error(`The microphone cannot be used: ${(error as Error).message}`);
  }
}

/**
 * Calls `onSound` with 16-bit samples at {@linkcode LISTEN_RATE} as they are heard. Returns a function that ends this.
 */
export async function listen(
  stream: MediaStream,
  onSound: (samples: Int16Array<ArrayBuffer>) => void,
): Promise<() => Promise<void>> {
  const context = new AudioContext({ sampleRate: LISTEN_RATE });
  await context.audioWorklet.addModule(new URL("microphone_worklet.js", import.meta.url));
  const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
  node.port.onmessage = ({ data }) => onSound(data);
  context.createMediaStreamSource(stream).connect(node);
  return async () => {
    for (const track of stream.getTracks()) track.stop();
    if (context.state !== "closed") await context.close();
  };
}
