/**
 * Speech models behind the same address as the model that chats.
 *
 * @module
 */
import { useMemo } from "preact/hooks";
import type { ListedModel } from "../server.ts";

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
