/** Whether a reply ends with a question, in the scripts that mark one. */
export const isQuestion = (text: string): boolean => /[?？؟]["'”’»」』)）\s]*$/u.test(text);
