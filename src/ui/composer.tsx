/**
 * The message input.
 *
 * @module
 */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import {
  Failure,
  IMAGE_FORMATS,
  MOST_IN_JSON_MIB,
  readDataUrl,
  refuseLarge,
  useDroppedFiles,
  usePastedFiles,
} from "./controls.tsx";

export function Composer({ takesImages, isBusy, onSend, onStop }: {
  takesImages: boolean;
  isBusy: boolean;
  onSend: (text: string, images: readonly string[]) => void;
  onStop: () => void;
}): JSX.Element {
  const [text, setText] = useState("");
  const [images, setImages] = useState<readonly string[]>([]);
  const [failure, setFailure] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const addImages = async (files: readonly File[]) => {
    if (files.length === 0) return;
    const refusal = takesImages
      ? files.map(refuseImage).find(Boolean)
      : `${files[0]!.name} was not added: this model reads text alone.`;
    setFailure(refusal);
    if (refusal !== undefined) return;
    const urls = await Promise.all(files.map(readDataUrl));
    setImages((before) => [...before, ...urls]);
  };
  usePastedFiles("image/*", addImages);
  useDroppedFiles(addImages);
  const isEmpty = text.trim() === "" && images.length === 0;
  const send = () => {
    if (isEmpty || isBusy) return;
    onSend(text, images);
    setText("");
    setImages([]);
    setFailure(undefined);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Failure message={failure} />
      {images.length > 0 && (
        <ul class="thumbs">
          {images.map((url, index) => (
            <li key={index}>
              <img src={url} alt={`Image ${index + 1} to send`} />
              <button
                type="button"
                class="quiet"
                aria-label={`Remove image ${index + 1}`}
                onClick={() => setImages(images.filter((_, at) => at !== index))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
      <textarea
        aria-label="Message"
        placeholder="Message"
        dir="auto"
        rows={Math.min(8, text.split("\n").length + 1)}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="row">
        {takesImages && (
          <>
            <button type="button" onClick={() => input.current?.click()}>Add images</button>
            <input
              ref={input}
              type="file"
              accept="image/*,.heic,.heif"
              multiple
              hidden
              aria-label="Images to send"
              onChange={(event) => {
                addImages([...event.currentTarget.files ?? []]);
                event.currentTarget.value = "";
              }}
            />
          </>
        )}
        <span class="hint">Enter sends, Shift+Enter begins a line</span>
        {isBusy
          ? <button type="button" class="main" onClick={onStop}>Stop</button>
          : <button type="submit" class="main" disabled={isEmpty}>Send</button>}
      </div>
    </form>
  );
}

/** Why it cannot be sent, if it cannot. The browser tells no type of some files: those the server looks at. */
function refuseImage(file: File): string | undefined {
  return file.type === "" || file.type.startsWith("image/")
    ? refuseLarge(file, MOST_IN_JSON_MIB)
    : `${file.name} is no image. Add ${IMAGE_FORMATS}.`;
}
