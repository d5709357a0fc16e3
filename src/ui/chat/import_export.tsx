/**
 * Saves all conversations as a file, and imports them from one.
 *
 * @module
 */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Failure, SaveButton } from "../controls.tsx";
import type { ChatStore } from "./chat_store.ts";
import { readExport, writeExport } from "./conversation_file.ts";

export function ImportExport({ store }: { store: ChatStore }): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const [news, setNews] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const importFile = async (file: File | undefined) => {
    if (file === undefined) return;
    setFailure(undefined);
    setNews(undefined);
    try {
      const read = readExport(await file.text());
      await store.import(read);
      setNews(`${read.conversations.length} imported from ${file.name}.`);
    } catch (error) {
      setFailure(`${file.name} was not imported. ${(error as Error).message}`);
    }
  };
  return (
    <>
      <div class="row">
        <SaveButton
          name="hearth-conversations.json"
          make={async () => writeExport(await store.export())}
        >
          Export
        </SaveButton>
        <button type="button" onClick={() => input.current?.click()}>Import</button>
      </div>
      <input
        ref={input}
        type="file"
        accept="application/json"
        aria-label="File of exported conversations"
        hidden
        onChange={(event) => {
          importFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
      {news && <p class="soft" role="status">{news}</p>}
      <Failure message={failure} />
    </>
  );
}
