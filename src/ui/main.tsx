/**
 * The entry point of the page.
 *
 * @module
 */
import { render } from "preact";
import { App } from "./app.tsx";

render(<App />, document.getElementById("app")!);
