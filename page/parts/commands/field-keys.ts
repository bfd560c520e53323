/** A press of a key in a text field, as React gives it. */
interface Press {
  key: string;
  shiftKey: boolean;
  nativeEvent: { isComposing: boolean; keyCode: number };
}

/** The key code of a press that the input method has used. */
const USED_BY_INPUT_METHOD = 229;

/** Whether a press sends the text of a field: Enter does, and Shift+Enter begins a new line. */
export const isSendKey = (press: Press): boolean => press.key === "Enter" && !press.shiftKey && !isOfInputMethod(press);

/** Whether a press leaves a field without its text. */
export const isLeaveKey = (press: Press): boolean => press.key === "Escape" && !isOfInputMethod(press);

/**
 * During the composition of a word, as in Chinese, Enter and Escape belong to the input method. In Safari the press
 * that ends a composition comes after it: only its key code tells.
 */
const isOfInputMethod = ({ nativeEvent: { isComposing, keyCode } }: Press): boolean =>
  isComposing || keyCode === USED_BY_INPUT_METHOD;
