/* Reasons, limits and doubts in Chinese: the server writes them in English, with figures.

The table is JSON. {0} stands for any text, which is looked up too. */
import { language } from "./words.js";

const REASONS = {
  "none": "无"
};

const escaped = (part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const PATTERNS = Object.entries(REASONS)
  .map(([english, chinese]) => {
    const parts = english.split(/\{\d\}/).map(escaped);
    return { order: parts.join("").length, chinese, found: new RegExp(`^${parts.join("(.+?)")}$`, "s") };
  })
  .sort((one, other) => other.order - one.order);
const LONGEST = 600; // characters of a text that is looked up

/* A text of the server in the language of the page; as it is where the table has none. */
export function told(value, depth = 3) {
  const said = String(value ?? "");
  if (language() !== "zh" || !depth || said.length > LONGEST) return said;
  for (const { found, chinese } of PATTERNS) {
    const [, ...places] = found.exec(said) ?? [];
    if (places.length || found.test(said)) {
      return chinese.replace(/\{(\d)\}/g, (_, place) => told(places[place], depth - 1));
    }
  }
  const parts = said.split("; ");
  return parts.length > 1 ? parts.map((one) => told(one, depth)).join("；") : said;
}
