// Gradients that leave while others are still computed.
//
// An operation of its own packs each group of gradients as soon as these are there, and lets the
// buckets that they fill go. Until the last operation takes over, a thread lets MPI work: on one
// core it takes time from the computation, but the wire is busy. Nothing but time is different: all
// messages are those of slices.h.

#ifndef MATEX_EXCHANGE_FLOW_H_
#define MATEX_EXCHANGE_FLOW_H_

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "slices.h"

namespace {

// Lets others have the core for a moment.
inline void Pause(int64_t nanoseconds) {
  const timespec moment = {0, nanoseconds};
  nanosleep(&moment, nullptr);
}

// What is under way in this step. The lock is held by whoever packs, or lets MPI work.
template <typename T>
class Flow {
 public:
  static Flow* Make() {
    Flow* flow = static_cast<Flow*>(calloc(1, sizeof(Flow)));
    if (flow == nullptr) return nullptr;
    pthread_mutex_init(&flow->lock_, nullptr);
    pthread_cond_init(&flow->wake_, nullptr);
    return flow;
  }

  void Free() {
    Lock();
    ends_ = true;
    moves_ = false;
    pthread_cond_signal(&wake_);
    Unlock();
    if (has_thread_) pthread_join(thread_, nullptr);
    pthread_cond_destroy(&wake_);
    pthread_mutex_destroy(&lock_);
    free(waits_);
    free(this);
  }

  void Lock() { pthread_mutex_lock(&lock_); }
  void Unlock() { pthread_mutex_unlock(&lock_); }

  // The messages of this step, or null before it has begun; the lock is held for what follows.
  Slices<T>* slices() { return slices_; }

  // Begins a step, whose groups are the parts [groups[g], groups[g + 1]) of the vector.
  bool Begin(Slices<T>* slices, const Route& route, const int64_t* offsets, const int64_t* groups,
             int64_t group_count, int status, bool is_finite) {
    int64_t* waits = static_cast<int64_t*>(
        realloc(waits_, static_cast<size_t>(route.bucket_count) * sizeof(int64_t)));
    if (waits == nullptr) return false;
    waits_ = waits;
    for (int64_t k = 0; k < route.bucket_count; ++k) {
      waits_[k] = 0;
      for (int64_t g = 0; g < group_count; ++g)
        waits_[k] += Overlap(route.buckets[k], offsets[groups[g]], offsets[groups[g + 1]]);
    }
    slices_ = slices;
    code = status;
    finite = is_finite;
    moves_ = true;
    if (!has_thread_) has_thread_ = pthread_create(&thread_, nullptr, Run, this) == 0;
    pthread_cond_signal(&wake_);
    return true;
  }

  // Says that the elements [start, stop) of a group are packed.
  void Packed(const Route& route, int64_t start, int64_t stop) {
    for (int64_t k = 0; k < route.bucket_count; ++k)
      if (Overlap(route.buckets[k], start, stop) && --waits_[k] == 0 && code == 0)
        code = slices_->Packed(k);
    bool came = false;
    if (code == 0) code = slices_->Advance(&came);
  }

  // Hands the messages of this step over to the caller.
  Slices<T>* TakeOver() {
    Slices<T>* slices = slices_;
    slices_ = nullptr;
    moves_ = false;
    return slices;
  }

  int code;     // what MPI has returned
  bool finite;  // whether all that was packed is

 private:
  static bool Overlap(const Bucket& bucket, int64_t start, int64_t stop) {
    return start < bucket.stop && bucket.start < stop;
  }

  static void* Run(void* opaque) {
    Flow* flow = static_cast<Flow*>(opaque);
    flow->Lock();
    while (!flow->ends_) {
      if (!flow->moves_) {
        pthread_cond_wait(&flow->wake_, &flow->lock_);
        continue;
      }
      bool came = false;
      if (flow->code == 0) flow->code = flow->slices_->Advance(&came);
      flow->Unlock();
      Pause(came ? 1000 : 50000);
      flow->Lock();
    }
    flow->Unlock();
    return nullptr;
  }

  pthread_mutex_t lock_;
  pthread_cond_t wake_;
  pthread_t thread_;
  bool has_thread_, ends_, moves_;
  Slices<T>* slices_;
  int64_t* waits_;  // by bucket: groups that are not yet packed
};

}  // namespace

#endif  // MATEX_EXCHANGE_FLOW_H_
