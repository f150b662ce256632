/** Which columns a window shows: as many as fit, and what somebody has chosen. */

import { expect, test } from "vitest";
import { type Choices, choicesOf, columns, columnsFor, leastWidth, shownIn } from "./columns.ts";

function names(width: number, choices: Choices = {}): string {
  return shownIn(width, choices)
    .map(({ id }) => id)
    .join(" ");
}

test("narrow windows leave out what matters least, and phones have two lines", () => {
  expect(names(1440)).toBe("image ends cpu memory net refused command made age");
  expect(names(1280)).toBe("image ends cpu memory refused command made age");
  expect(names(1024)).toBe("ends cpu memory refused command age");
  expect(names(768)).toBe("ends refused command age");
  expect(names(390)).toBe("ends refused command age");
});

test("a choice counts in every window that has room for such a column, and changes no other", () => {
  const choices = { image: true, age: false };
  expect(names(1440, choices)).toBe("image ends cpu memory net refused command made");
  expect(names(1024, choices)).toBe("image ends cpu memory refused command");
  expect(names(390, choices)).toBe("ends refused command");
  expect(columnsFor(390).map(({ id }) => id)).toEqual(["ends", "refused", "command", "age"]);
  expect(columnsFor(721)).toEqual(columns);
});

test("what a window shows without a choice needs no scrolling sideways", () => {
  for (let width = 721; width < 2000; width++) expect(leastWidth(shownIn(width, {}))).toBeLessThanOrEqual(width - 168);
});

test("what is stored is checked", () => {
  expect(choicesOf('{"image":true,"age":false}')).toEqual({ image: true, age: false });
  expect(choicesOf('{"image":"yes","name":false,"__proto__":true,"cpu":true}')).toEqual({ cpu: true });
  for (const text of ["", "[]", "null", "{", "7"]) expect(choicesOf(text)).toEqual({});
});
