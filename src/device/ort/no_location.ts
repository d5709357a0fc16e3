/**
 * Import this before onnxruntime-web. In a worker started from a `file:` URL, `location.origin` is the text "null".
 * onnxruntime-web builds a URL from it, and so fails on import. Without `location` it uses its own address.
 *
 * @module
 */
Reflect.deleteProperty(globalThis, "location");
