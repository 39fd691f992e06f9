// A sched_yield after which other programs have the core, too. It stands before the C library's.
//
// A process that waits in MPI looks for messages and yields in turn. Linux lets other threads of the
// same session run then, and not those of other sessions: where several runs share a core, one that
// only waits keeps its part of it. Who has yielded so often without a pause sleeps instead.

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { YIELDS = 200, SLEEP_NS = 50000, PAUSE_NS = 1000000 };

static long long Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int sched_yield(void) {
  static __thread long long ended;  // when the last call did
  static __thread int yields;       // since the last pause between two calls
  if (Now() - ended > PAUSE_NS) yields = 0;
  if (yields < YIELDS) {
    ++yields;
    syscall(SYS_sched_yield);
  } else {
    const struct timespec moment = {0, SLEEP_NS};
    nanosleep(&moment, NULL);
  }
  ended = Now();
  return 0;
}
