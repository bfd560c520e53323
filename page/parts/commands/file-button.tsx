import { type ReactNode, useRef } from "react";

interface Props {
  /** The button's action, for screen readers. */
  label: string;
  /** Media types and file extensions for the browser's dialog. */
  accept: string;
  disabled?: boolean;
  onFile: (file: File) => void;
  children: ReactNode;
}

/** A button that opens a file dialog. */
export function FileButton({ label, accept, disabled = false, onFile, children }: Props) {
  const picker = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" disabled={disabled} onClick={() => picker.current?.click()}>
        {children}
      </button>
      <input
        ref={picker}
        type="file"
        accept={accept}
        hidden
        aria-label={label}
        onChange={({ target }) => {
          const file = target.files?.[0];
          if (file) onFile(file);
          // The same file may be chosen again.
          target.value = "";
        }}
      />
    </>
  );
}
