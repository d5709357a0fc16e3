/**
 * Reads an answer aloud, while the speech streams in.
 *
 * @module
 */
import type { JSX } from "preact";
import { Failure } from "../controls.tsx";
import { post, readBytes } from "../server.ts";
import { SpeechPlayer } from "../speech_player.ts";
import { useWork } from "../work.ts";

/** @param props.text gives the text as it is to be spoken. */
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
      <button
        type="button"
        class="quiet act"
        aria-pressed={work.isBusy}
        onClick={work.isBusy ? work.stop : read}
      >
        {work.isBusy ? "Stop reading" : "Read aloud"}
      </button>
      <Failure message={work.failure} />
    </>
  );
}
