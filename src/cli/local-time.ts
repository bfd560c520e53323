/** Times of this machine's clocks, as people read them in a terminal. */

const two = (number: number) => String(number).padStart(2, "0");

export function localTimeOf(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

/** Month, day and time: some of the story happened before today. */
export function localDayOf(at: number): string {
  const date = new Date(at);
  return `${two(date.getMonth() + 1)}-${two(date.getDate())} ${localTimeOf(at)}`;
}
