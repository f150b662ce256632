/** Dialogs: a question before something is lost, and forms. The browser's own element keeps the focus inside. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { html } from "../html.ts";

interface DialogProps {
  title: string;
  children: ComponentChildren;
  close: () => void;
}

export function Dialog({ title, children, close }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement === document.body ? left : document.activeElement;
    // At once, so that the next key that somebody presses is for the dialog.
    element.current?.showModal();
    return () => giveBack(before);
  }, []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${close}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

/** what had the focus before the dialog that closes now; the dialog that follows it takes this over */
let left: Element | null = null;

/** focuses what had the focus before a dialog, once the dialog is gone; a browser does so only if it closes the dialog itself */
function giveBack(before: Element | null): void {
  left = before;
  queueMicrotask(() => {
    left = null;
    if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
  });
}

interface QuestionProps {
  title: string;
  /** what is lost */
  text: string;
  /** what the button does */
  verb: string;
  act: () => void;
  close: () => void;
}

export function Question({ title, text, verb, act, close }: QuestionProps) {
  return html`<${Dialog} title=${title} close=${close}>
    <p>${text}</p>
    <div class="acts">
      <button type="button" class="danger" onClick=${() => {
        close();
        act();
      }}>${verb}</button>
      <button type="button" onClick=${close}>Cancel</button>
    </div>
  <//>`;
}
