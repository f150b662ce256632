/** Patterns of the core's ids. Dialects do not look up an id that does not match. */

export const ids = {
  sandbox: /^sandbox_[A-Za-z0-9]{1,64}$/,
  session: /^sbx_[A-Za-z0-9]{1,64}$/,
  command: /^cmd_[A-Za-z0-9]{1,64}$/,
  snapshot: /^snap_[A-Za-z0-9]{1,64}$/,
  drive: /^drv_[A-Za-z0-9]{1,64}$/,
  webhook: /^wh_[A-Za-z0-9]{1,64}$/,
  delivery: /^msg_[A-Za-z0-9]{1,64}$/,
  key: /^key_[A-Za-z0-9_]{1,64}$/,
};
