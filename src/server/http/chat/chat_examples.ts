/**
 * Example chat requests of the API's description; each works as written with the built-in model that it names.
 *
 * @module
 */

/** A red circle, PNG. */
const CIRCLE =
  "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQMAAACQp+OdAAAABlBMVEX////cHh7/Hx2WAAAAbUlEQVR42mNgoCWQ/wFl" +
  "/P8PoZn//z8AZvD///8BouT/f4ii+v///0HVQlQzghgNyAxmEAOknx3EeIDM4AcxPiAz5EGMH1gZ9iDGH1ow8FiK6UJMX8A9iOl3eLAg" +
  "AgoedPDAhAcvPMARUUAbAACTy7xBZ3GgqwAAAABJRU5ErkJggg==";

/** Examples by what each shows. */
export const CHAT_EXAMPLES: Readonly<Record<string, unknown>> = {
  "a question": {
    model: "hearth-demo-chat",
    messages: [{ role: "user", content: "What is the capital of France?" }],
  },
  "a question about an image": {
    model: "hearth-demo-vision",
    messages: [{
      role: "user",
      content: [
        { type: "image_url", image_url: { url: `data:image/png;base64,${CIRCLE}` } },
        { type: "text", text: "What is this?" },
      ],
    }],
    temperature: 0,
  },
};
