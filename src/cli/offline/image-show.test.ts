/** What `sandkeep image history` prints for images with and without layers of their own. */

import { expect, test } from "vitest";
import { plainConfig } from "../../core/model/image.ts";
import { history } from "./image-show.ts";

const steps = [{ createdBy: "RUN make" }, { createdBy: "CMD serve", isEmpty: true }];

const config = { ...plainConfig(), history: steps };

test("the steps of an image that the daemon built are shown without sizes", () => {
  expect(history({ config })).toEqual(["unknown time  0 bytes  CMD serve", "unknown time  -  RUN make"]);
});

test("an image with other layers than steps shows its layers", () => {
  const parts = [1, 2].map((size) => ({ diffId: `d${size}`, size: size * 98_304, layer: "one" }));
  expect(history({ config, parts: parts.slice(0, 1) })).toEqual([
    "unknown time  0 bytes  CMD serve",
    "unknown time  98.3 kB  RUN make",
  ]);
  expect(history({ config, parts })).toEqual(["196.6 kB  sha256:d2", "98.3 kB  sha256:d1"]);
});
