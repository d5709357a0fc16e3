/**
 * Where a request may hold media in its own bytes.
 *
 * @module
 */

/**
 * Paths of the fields, as the request schemas have them: names, and `[]` for an item of an array. A string there that
 * begins with `base64://` or `data:` is media; anywhere else it is text, whatever it begins with.
 */
export const MEDIA_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].image_url",
  "messages.[].content.[].image_url.url",
  "messages.[].content.[].audio_url",
  "messages.[].content.[].audio_url.url",
  "messages.[].content.[].image",
  "messages.[].content.[].url",
  "input.[].content.[].image_url",
  "input.[].output.[].image_url",
]);

/** Paths of fields that hold media too, or base64 without any such beginning. */
export const FILE_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].file.file_data",
  "input.[].content.[].file_data",
  "input.[].output.[].file_data",
]);

/** Paths of lists whose items are media too, or base64 without any such beginning. */
export const MEDIA_LISTS: ReadonlySet<string> = new Set(["messages.[].images.[]"]);

/** Paths of fields that hold base64 without any such beginning; the text of documents is no base64. */
export const BASE64_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].input_audio.data",
  "messages.[].content.[].source.data",
  "messages.[].content.[].content.[].source.data",
  "messages.[].content.[].source.content.[].source.data",
  "messages.[].content.[].content.[].source.content.[].source.data",
]);
