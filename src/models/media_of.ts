/**
 * The media of tasks and events: files, whose memory is transferred between threads.
 *
 * @module
 */
import type { Task, TaskEvent } from "./task.ts";

/** The memory of a task's or an event's media, each piece once. */
export function mediaOf(message: Task | TaskEvent): Set<ArrayBuffer> {
  return new Set(filesOf(message).map(({ buffer }) => buffer));
}

function filesOf(message: Task | TaskEvent): Uint8Array<ArrayBuffer>[] {
  switch (message.type) {
    case "transcribe":
      return [message.audio];
    case "matte":
      return [message.image];
    case "speak":
      return message.recording === undefined ? [] : [message.recording.audio];
    case "chat":
      return message.messages.flatMap(({ content }) =>
        typeof content === "string"
          ? []
          : content.flatMap((part) => part.type === "image" ? [part.bytes] : [])
      );
    case "audio":
      return [message.bytes];
    case "done":
      return "png" in message ? [message.png] : [];
    default:
      return [];
  }
}
