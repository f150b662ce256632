/** The words of a Dockerfile: quotes, escapes and variables. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the variables of a Dockerfile

import { expect, test } from "vitest";
import { expanded, jsonList, splitWords } from "./words.ts";

const values: Record<string, string> = { x: "1", empty: "", path: "/a:/b", dollar: "$x" };
const read = (word: string) => expanded(word, { escapeMark: "\\", variables: (name) => values[name] });

test("variables expand to their values, and to nothing when they are not set", () => {
  expect(read("$x-${x}_$y-${y}")).toBe("1-1_-");
  expect(read("${path}:/c")).toBe("/a:/b:/c");
  expect(read("$dollar $ $1")).toBe("$x $ $1");
});

test("a variable that is unset or empty may have a default", () => {
  expect(read("${y:-d} ${empty:-d} ${empty-d} ${x:-d}")).toBe("d d  1");
  expect(read("${y:+s} ${empty:+s} ${empty+s} ${x:+s}")).toBe("  s s");
  expect(read("${y:-${x:+deep $x}}")).toBe("deep 1");
  expect(read('${y:-"a }b"}')).toBe("a }b");
});

test("quotes and escapes are removed", () => {
  expect(read(`'$x' "$x b" \\$x "\\$x" a\\ b "c\\d"`)).toBe("$x 1 b $x $x a b c\\d");
});

test("an invalid word is refused with the reason", () => {
  expect(() => read("${x")).toThrow("is not supported");
  expect(() => read("${x:-a")).toThrow("a { has no }");
  expect(() => read("${x%b}")).toThrow("${x%…} is not supported");
  expect(() => read("${y:?please set it}")).toThrow("y is not set: please set it");
  expect(() => read("'a")).toThrow("a quote has no end");
  expect(() => read("${y:-".repeat(30))).toThrow("too many variables");
});

test("blanks outside of quotes separate words", () => {
  expect(splitWords(` A=1  B="x y" C=a\\ b 'd e'=f`, "\\")).toEqual(["A=1", 'B="x y"', "C=a\\ b", "'d e'=f"]);
});

test("only a JSON list of strings is a program without a shell", () => {
  expect(jsonList('["a b", "c"]')).toEqual(["a b", "c"]);
  expect(jsonList("[ -f x ] && y")).toBeUndefined();
  expect(jsonList("[1]")).toBeUndefined();
});
