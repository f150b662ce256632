/**
 * Answers of a terminal to a program's questions, such as which terminal it is and where its cursor stands. They look like
 * typed input to the program. When old output is shown again, its questions were answered long ago.
 */

/** after the escape character */
const reports = [
  // device attributes, status, the cursor's place, a mode, the window's size
  /^\[[?>=]?[\d;]*[cnRt]$/,
  /^\[\??[\d;]*\$y$/,
  // colours and settings
  /^[\]P]/,
];

export function isReport(data: string): boolean {
  return data.startsWith("\x1b") && reports.some((report) => report.test(data.slice(1)));
}
