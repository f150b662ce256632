/* filter_program.h: a program of classic BPF that is being written, and the few forms of instructions that the filter is made of. */
#ifndef SANDKEEP_FILTER_PROGRAM_H
#define SANDKEEP_FILTER_PROGRAM_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOW SECCOMP_RET_ALLOW
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))
/* answers 0 without making the call */
#define PRETEND FAIL(0)

struct program {
  struct sock_filter *at;
  size_t length; /* beyond room when it did not fit */
  size_t room;
};

static inline void put(struct program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  if (p->length < p->room)
    p->at[p->length] = (struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = k};
  p->length++;
}

static inline void answer(struct program *p, uint32_t value) { put(p, BPF_RET | BPF_K, value, 0, 0); }

static inline void answer_if(struct program *p, uint32_t equal, uint32_t value) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 0, 1);
  answer(p, value);
}

static inline void answer_if_any(struct program *p, uint32_t bits, uint32_t value) {
  put(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  answer(p, value);
}

static inline void answer_unless(struct program *p, uint32_t equal, uint32_t value) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 1, 0);
  answer(p, value);
}

/* what follows, up to done(), is for values equal to this one */
static inline size_t when(struct program *p, uint32_t equal) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 0, 0);
  return p->length - 1;
}

static inline void done(struct program *p, size_t when) {
  if (when < p->room) p->at[when].jf = (uint8_t)(p->length - when - 1);
}

static inline void load_argument(struct program *p, int index) {
  put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (uint32_t)index, 0, 0);
}

static inline void load_upper_half(struct program *p, int index) {
  put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (uint32_t)index + 4, 0, 0);
}

/* 0 for a null pointer, anything else for another */
static inline void load_whether_set(struct program *p, int index) {
  load_argument(p, index);
  put(p, BPF_MISC | BPF_TAX, 0, 0, 0);
  load_upper_half(p, index);
  put(p, BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
}

#endif
