/*
 * command.h: the commands that callers started in this sandbox.
 *
 *            fork             program runs             process ends           streams closed
 *   (none) ───────▶ starting ────────────▶ running ────────────▶ ended ────────────▶ (freed)
 *                      └── user, directory or program is wrong: FAIL, nothing kept ──▶ (freed)
 *
 *   starting  the child prepares itself; the caller has no answer yet
 *   running   OK was sent; output goes to the journal, GREW is announced. While the journal is full and its keeper needs
 *             all of it, output stays in the pipe, and a program that goes on writing waits
 *   ended     EXITED is in the journal and EXIT was announced; a process it left behind may still hold its streams
 */
#ifndef SANDKEEP_COMMAND_H
#define SANDKEEP_COMMAND_H

#include <sys/resource.h>
#include <sys/types.h>

#include "agent/journal.h"
#include "agent/spawn.h"
#include "shared/connection.h"

#define COMMAND_PTY 1u
#define COMMAND_STDIN 2u
#define COMMAND_KEEP 4u
#define COMMAND_OUT_OF_MEMORY 1u
#define COMMAND_TIMED_OUT 2u

struct command_stream {
  struct source source; /* first, so that a source is its stream; fd -1 when closed */
  struct command *command;
  enum journal_stream stream;
};

/* a piece of standard input that the command has not taken yet */
struct input {
  struct input *next;
  struct connection *from; /* NULL once that connection has ended */
  uint32_t id;
  bool counted; /* its answer says how many bytes the command was given in all */
  size_t length;
  size_t at;
  uint8_t data[];
};

struct command {
  struct command *next;
  char name[65];
  enum { COMMAND_STARTING, COMMAND_RUNNING, COMMAND_ENDED } state;
  pid_t pid;
  struct journal journal;
  /* the connection that says which output may be deleted; without one, the oldest is deleted when the journal is full */
  struct connection *keeper;
  /* its output is not taken until the keeper spares some */
  bool held;
  struct command_stream out, err; /* with a terminal only `out`, which is also the way in */
  struct command_stream status;
  struct command_stream in;
  struct input *inputs;
  size_t input_length;
  /* bytes of standard input that callers sent, and those of them that the pipe has taken */
  uint64_t input_accepted, input_given;
  bool input_ends;
  bool terminal;
  /*
   * the terminal's other side, open until the process has ended: a terminal that no process has open looks as if its last
   * user had gone, and closing ours in answer would kill a process that has merely closed its own
   */
  int peer;
  /* the process has been waited for, and how it ended */
  bool waited;
  int wait_status;
  struct rusage usage;
  /* loop_now() at which it is killed; 0 for never */
  int64_t deadline;
  /* loop_now() when the deadline was set */
  int64_t limited_at;
  uint32_t flags;
  uint64_t kills_before;
  bool grew;
  /* who asked for it, while starting */
  struct connection *asker;
  uint32_t asker_id;
};

struct commands {
  struct command *first;
  /* where journals are written, and the cgroup's count of processes killed for memory (-1: not known) */
  int journal_directory;
  int memory_events;
  /* tells every listener that a command has ended */
  void (*ended)(const struct command *c, uint32_t code, uint32_t signal);
  /* loop_now() at which the deadlines are checked next, 0 without any */
  int64_t next_look;
};

/* all answer on the connection themselves */
void command_exec(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_stdin(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_stdin_at(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_stdin_given(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_stdin_close(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_signal(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_resize(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_spare(struct commands *all, struct connection *from, uint32_t id, struct reader *r);
void command_list(struct commands *all, struct connection *from, uint32_t id);

/* between command.c, command_input.c and command_output.c */
void command_on_output(struct source *source, uint32_t events);
void command_watch_output(struct command *c);
/* output before the offset is not needed any more */
void command_need_from(struct command *c, uint64_t offset);
/* takes what is left in the stream of a process that has ended */
void command_drain(struct command_stream *s);
struct command *command_named(struct commands *all, struct connection *from, uint32_t id, struct reader *r, struct span name);
void command_close(struct command_stream *s);
void command_give_input(struct command *c);
void command_refuse_input(struct command *c, int error);

/* the fields that EXIT frames and the journal's EXITED have in common */
void command_write_exit(struct writer *w, const struct command *c, uint32_t code, uint32_t signal);

/* forgets a connection that ended */
void commands_forget(struct commands *all, const struct connection *c);
/* to be called for each process that was waited for */
void commands_waited(struct commands *all, pid_t pid, int status, const struct rusage *usage);
/*
 * kills what has passed its time limit, without the time in which the machine was paused; returns ms until the next call, -1
 * when there is no limit
 */
int commands_expire(struct commands *all);
/* frees what is over; once a pass */
void commands_sweep(struct commands *all);

#endif
