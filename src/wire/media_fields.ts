/**
 * The fields of requests that may hold media bytes.
 *
 * @module
 */

/**
 * Paths of media fields in the request schemas: names, and `[]` for an array's item. In these fields a string that
 * begins with `base64://` or `data:` is media. In any other field it is text.
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

/** Paths of fields that may also hold base64 without a prefix. */
export const FILE_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].file.file_data",
  "input.[].content.[].file_data",
  "input.[].output.[].file_data",
]);

/** Paths of lists whose items may also be base64 without a prefix. */
export const MEDIA_LISTS: ReadonlySet<string> = new Set(["messages.[].images.[]"]);

/** Paths of fields that hold base64 without a prefix. Documents have text in the same field, which is not base64. */
export const BASE64_FIELDS: ReadonlySet<string> = new Set([
  "messages.[].content.[].input_audio.data",
  "input.[].content.[].input_audio.data",
  "input.[].output.[].input_audio.data",
  "messages.[].content.[].source.data",
  "messages.[].content.[].content.[].source.data",
  "messages.[].content.[].source.content.[].source.data",
  "messages.[].content.[].content.[].source.content.[].source.data",
]);
