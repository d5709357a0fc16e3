/**
 * OCR: shows the image beside its text, with boxes on request.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Check, CopyButton, Failure, formatMs, TextField } from "./controls.tsx";
import { FileDrop, IMAGE_FORMATS, MAX_IN_JSON_MIB, readDataUrl, SaveButton } from "./files.tsx";
import { RequestCode } from "./request_code.tsx";
import { type PageProps, post, readEvents, useWork } from "./server.ts";

/** A prompt with which Florence-2, or a text detector with a recogniser, returns the box of each line. */
const REGION_TASK = "<OCR_WITH_REGION>";

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
}

export function OcrPage({ info }: PageProps): JSX.Element {
  const [image, setImage] = useState<string>();
  const [instruction, setInstruction] = useState("");
  const [asksBoxes, setAsksBoxes] = useState(false);
  const [text, setText] = useState("");
  const work = useWork();
  const makeRequest = (url: string, withBoxes: boolean) => ({
    model: info.id,
    messages: [{
      role: "user",
      content: [
        { type: "image_url", image_url: { url } },
        ...toTextParts(withBoxes ? REGION_TASK + instruction : instruction),
      ],
    }],
    stream: true,
  });
  const read = (url: string, withBoxes = asksBoxes) =>
    work.start(async (signal) => {
      setImage(url);
      setText("");
      let answer = "";
      const response = await post("v1/chat/completions", makeRequest(url, withBoxes), signal);
      for await (const event of readEvents(response)) {
        answer += (event as Chunk).choices[0]?.delta.content ?? "";
        setText(answer);
      }
    });
  const boxes = parseBoxes(text);
  const shown = boxes ? boxes.map(({ label }) => label).join("\n") : text;
  return (
    <main class="wide">
      <h1>Read the text of an image</h1>
      <FileDrop
        accept="image/*,.heic,.heif,application/pdf"
        label="Drop or paste an image"
        formats={`${IMAGE_FORMATS.replace(" or", ",")} or PDF`}
        maxMib={MAX_IN_JSON_MIB}
        onFiles={async ([file]) => read(await readDataUrl(file!))}
      />
      <TextField
        label="Instruction"
        hint="Depends on the model: a script (en), a task (<CAPTION>) or a question"
        isShort
        value={instruction}
        onInput={setInstruction}
      />
      <Check
        label="Boxes around the lines"
        isOn={asksBoxes}
        onChange={(isOn) => {
          setAsksBoxes(isOn);
          if (image) read(image, isOn);
        }}
      />
      <Failure message={work.failure} />
      {image && (
        <div class="two">
          {image.startsWith("data:application/pdf")
            ? <p class="soft">The pages of a PDF file, one after the other</p>
            : <BoxedImage url={image} boxes={boxes ?? []} />}
          <section>
            <pre class="result" dir="auto" aria-live="polite" aria-busy={work.isBusy}>
              {shown || (work.isBusy ? "Reading …" : work.failure ? "" : "Nothing was read.")}
            </pre>
            <div class="row">
              {work.isBusy
                ? <button type="button" onClick={work.stop}>Stop</button>
                : <button type="button" onClick={() => read(image)}>Read again</button>}
              <CopyButton text={() => shown} />
              <SaveButton name="text.txt" make={() => new Blob([shown], { type: "text/plain" })}>
                Download
              </SaveButton>
              {work.tookMs !== undefined && <span class="soft">{formatMs(work.tookMs)}</span>}
            </div>
          </section>
        </div>
      )}
      <RequestCode
        request={{
          path: "v1/chat/completions",
          json: makeRequest(image ?? "data:image/png;base64,…", asksBoxes),
        }}
      />
    </main>
  );
}

function toTextParts(text: string): { type: "text"; text: string }[] {
  return text.trim() === "" ? [] : [{ type: "text", text: text.trim() }];
}

interface Box {
  readonly label: string;
  /** Corners in pixels, in the syntax of an SVG polygon. */
  readonly points: string;
}

/** Parses an answer in Florence-2's format: JSON with labels and boxes of two or four corners. */
function parseBoxes(text: string): Box[] | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const { labels = [], quad_boxes, bboxes } = JSON.parse(text) as {
      labels?: string[];
      quad_boxes?: number[][];
      bboxes?: number[][];
    };
    const corners = quad_boxes ??
      bboxes?.map(([x0 = 0, y0 = 0, x1 = 0, y1 = 0]) => [x0, y0, x1, y0, x1, y1, x0, y1]);
    return corners?.map((box, index) => ({
      label: labels[index] ?? "",
      points: box.map(Number).join(" "),
    }));
  } catch {
    return undefined;
  }
}

function BoxedImage({ url, boxes }: { url: string; boxes: readonly Box[] }): JSX.Element {
  const [size, setSize] = useState<[number, number]>();
  return (
    <div class="boxed">
      <img
        src={url}
        alt="The image that is read"
        onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) =>
          setSize([naturalWidth, naturalHeight])}
      />
      {size && boxes.length > 0 && (
        <svg viewBox={`0 0 ${size[0]} ${size[1]}`} aria-hidden="true">
          {boxes.map(({ label, points }, index) => (
            <polygon key={index} points={points}>
              <title>{label}</title>
            </polygon>
          ))}
        </svg>
      )}
    </div>
  );
}
