// The sum of a vector between hosts, by messages along a route: see route.py, which says what they
// are, and slices.py, which sends the same through mpi4py.
//
// All receives are posted at the beginning. What a message brings may let others leave; so buckets
// are on their way one behind the other, and nobody waits for one of them alone.

#ifndef MATEX_EXCHANGE_SLICES_H_
#define MATEX_EXCHANGE_SLICES_H_

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "numbers.h"

namespace {

typedef uintptr_t Handle;

// Functions and handles of MPI, see exchange.cc.
struct Mpi {
  int (*isend)(const void*, int, Handle, int, int, Handle, void*);
  int (*irecv)(void*, int, Handle, int, int, Handle, void*);
  int (*test)(void*, int*, void*);
  int (*testsome)(int, void*, int*, int*, void*);
  Handle byte, null_request;
  int64_t request_bytes;
};

// One row of the table of messages, as slices.py writes it.
struct Message {
  int64_t bucket, phase, peer, sends, start, stop, whose;
};

// One row of the table of buckets: its elements, the slice of this rank and the piece that it owns,
// both empty where it serves none.
struct Bucket {
  int64_t start, stop, slice_start, slice_stop, piece_start, piece_stop, codec;
};

// What native.py says of the route of the members of now.
struct Route {
  Mpi mpi;
  const Message* messages;  // those of a bucket in a row
  const Bucket* buckets;
  int64_t message_count, bucket_count;
  int64_t locals, index, hosts, host;  // ranks of this host and hosts, and this rank's place there
  int64_t serves, first_tag;
  float* kept;   // what rounding took from the sums of the step before; null without compression
  float* taken;  // and takes in this one
  int64_t number;  // another one where the tables are others
};

enum Phase { kToServer = 0, kToOwner = 1, kFromOwner = 2, kFromServer = 3, kPhases = 4 };

const int kStatusBytes = 64;  // no MPI's status is larger
const int64_t kAligned = 64;

// Memory and progress of the exchanges along one route.
template <typename T>
class Slices {
 public:
  // Null where there is no memory.
  static Slices* Make(const Route& route, int64_t length) {
    Slices* slices = static_cast<Slices*>(calloc(1, sizeof(Slices)));
    if (slices == nullptr) return nullptr;
    slices->route_ = route;
    if (slices->Reserve(length)) return slices;
    slices->Free();
    return nullptr;
  }

  void Free() {
    free(requests_);
    free(statuses_);
    free(indices_);
    free(buffers_);
    free(left_);
    free(firsts_);
    free(sums_);
    free(scratch_);
    free(this);
  }

  int64_t number() const { return route_.number; }

  Slices* next;  // in the list of those that failed

  // Whether MPI has done with all messages of an exchange that failed.
  bool Over() {
    bool over = true;
    for (int64_t i = 0; i < route_.message_count; ++i) {
      if (IsNull(i)) continue;
      int done = 0;
      if (route_.mpi.test(Request(i), &done, statuses_) != 0)
        SetNull(i);  // it has ended, with an error
      else
        over &= done != 0;
    }
    return over;
  }

  // Begins an exchange: posts all receives. Returns what MPI does, as the following ones do.
  int Begin(Handle comm, const T* send, T* result, float* kept, float* taken) {
    comm_ = comm;
    send_ = send;
    result_ = result;
    route_.kept = kept;
    route_.taken = taken;
    buckets_left_ = route_.bucket_count;
    open_ = 0;
    for (int64_t k = 0; k < route_.bucket_count; ++k)
      for (int phase = 0; phase < kPhases; ++phase) left_[k * kPhases + phase] = 1;
    for (int64_t i = 0; i < route_.message_count; ++i) {
      const Message& message = route_.messages[i];
      if (message.sends) continue;
      ++left_[message.bucket * kPhases + message.phase];
      ++open_;
      const int code = route_.mpi.irecv(buffers_[i], static_cast<int>(Bytes(message)),
                                        route_.mpi.byte, static_cast<int>(message.peer),
                                        Tag(message), comm_, Request(i));
      if (code != 0) return code;
    }
    return 0;
  }

  // Says that all elements of a bucket are in `send`.
  int Packed(int64_t bucket) {
    const int code = Send(bucket, kToServer);
    return code != 0 ? code : Less(bucket, kToServer);
  }

  bool IsOver() const { return buckets_left_ == 0 && open_ == 0; }

  // Whether the sums of a bucket are in `result`.
  bool IsSummed(int64_t bucket) const { return left_[bucket * kPhases + kFromServer] == 0; }

  // Lets MPI work, and goes on with what has come; *came says whether anything has.
  int Advance(bool* came) {
    int count = 0;
    const int code = route_.mpi.testsome(static_cast<int>(route_.message_count), requests_, &count,
                                         indices_, statuses_);
    if (code != 0) return code;
    *came = count > 0;  // negative where nothing is under way
    for (int i = 0; i < count; ++i) {
      --open_;
      const Message& message = route_.messages[indices_[i]];
      if (message.sends) continue;
      const char* codes = buffers_[indices_[i]];
      if (message.phase == kFromOwner)
        Decode<false>(CodecOf(message), codes, result_ + message.start,
                      message.stop - message.start);
      if (message.phase == kFromServer)
        memcpy(result_ + message.start, codes, (message.stop - message.start) * sizeof(T));
      const int failed = Less(message.bucket, message.phase);
      if (failed != 0) return failed;
    }
    return 0;
  }

 private:
  bool Reserve(int64_t length) {
    const int64_t count = route_.message_count;
    requests_ = static_cast<char*>(malloc(count * route_.mpi.request_bytes + 1));
    statuses_ = static_cast<char*>(malloc((count + 1) * kStatusBytes));
    indices_ = static_cast<int*>(malloc((count + 1) * sizeof(int)));
    buffers_ = static_cast<char**>(calloc(count + 1, sizeof(char*)));
    left_ = static_cast<int64_t*>(calloc(route_.bucket_count * kPhases, sizeof(int64_t)));
    firsts_ = static_cast<int64_t*>(malloc(route_.bucket_count * sizeof(int64_t)));
    // Of this only the slices of this rank are ever touched.
    sums_ = static_cast<T*>(malloc(length * sizeof(T) + 1));
    if (requests_ == nullptr || statuses_ == nullptr || indices_ == nullptr ||
        buffers_ == nullptr || left_ == nullptr || firsts_ == nullptr || sums_ == nullptr)
      return false;
    for (int64_t k = 0; k < route_.bucket_count; ++k) firsts_[k] = count;
    for (int64_t i = count - 1; i >= 0; --i) firsts_[route_.messages[i].bucket] = i;
    for (int64_t i = 0; i < count; ++i) SetNull(i);
    int64_t size = 0;
    for (int64_t i = 0; i < count; ++i) size += Own(route_.messages[i]);
    scratch_ = static_cast<char*>(malloc(size + 1));
    if (scratch_ == nullptr) return false;
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bytes = Own(route_.messages[i]);
      if (bytes > 0) buffers_[i] = scratch_ + at;
      at += bytes;
    }
    return true;
  }

  // Bytes of the memory that a message needs for itself, rounded up: others leave from a vector.
  int64_t Own(const Message& message) const {
    if (message.sends && CodecOf(message) == kPlain) return 0;
    return (Bytes(message) + kAligned - 1) / kAligned * kAligned;
  }

  int CodecOf(const Message& message) const {
    const bool between_hosts = message.phase == kToOwner || message.phase == kFromOwner;
    return between_hosts ? static_cast<int>(route_.buckets[message.bucket].codec) : kPlain;
  }

  int64_t Bytes(const Message& message) const {
    return EncodedBytes<T>(CodecOf(message), message.stop - message.start);
  }

  int Tag(const Message& message) const {
    return static_cast<int>(route_.first_tag + message.bucket * kPhases + message.phase);
  }

  char* Request(int64_t i) { return requests_ + i * route_.mpi.request_bytes; }
  void SetNull(int64_t i) { memcpy(Request(i), &route_.mpi.null_request, route_.mpi.request_bytes); }
  bool IsNull(int64_t i) {
    return memcmp(Request(i), &route_.mpi.null_request, route_.mpi.request_bytes) == 0;
  }

  // Whether this rank's own slice is its contribution, with nothing to add.
  bool IsAlone(int64_t bucket) const {
    return route_.locals == 1 && route_.buckets[bucket].codec == kPlain;
  }

  int Send(int64_t bucket, int phase) {
    for (int64_t i = First(bucket); i < route_.message_count; ++i) {
      const Message& message = route_.messages[i];
      if (message.bucket != bucket) break;
      if (!message.sends || message.phase != phase) continue;
      ++open_;
      const int code = route_.mpi.isend(Leaving(i), static_cast<int>(Bytes(message)),
                                        route_.mpi.byte, static_cast<int>(message.peer),
                                        Tag(message), comm_, Request(i));
      if (code != 0) return code;
    }
    return 0;
  }

  // The first message of a bucket, or the number of all where it has none.
  int64_t First(int64_t bucket) const { return firsts_[bucket]; }

  // Where the content of a message that is sent now lies.
  const void* Leaving(int64_t i) {
    const Message& message = route_.messages[i];
    if (buffers_[i] != nullptr) return buffers_[i];
    switch (message.phase) {
      case kToServer: return send_ + message.start;
      case kToOwner: return (IsAlone(message.bucket) ? send_ : sums_) + message.start;
      default: return result_ + message.start;
    }
  }

  int Less(int64_t bucket, int64_t phase) {
    if (--left_[bucket * kPhases + phase] > 0) return 0;
    int code = 0;
    switch (phase) {
      case kToServer:
        if (!route_.serves) return Less(bucket, kFromServer);
        AddUpOnHost(bucket);
        code = Send(bucket, kToOwner);
        return code != 0 ? code : Less(bucket, kToOwner);
      case kToOwner:
        AddUpOverHosts(bucket);
        code = Send(bucket, kFromOwner);
        return code != 0 ? code : Less(bucket, kFromOwner);
      case kFromOwner:
        code = Send(bucket, kFromServer);
        return code != 0 ? code : Less(bucket, kFromServer);
      default: --buckets_left_; return 0;
    }
  }

  // The received message of a phase from rank or host `whose`, or null.
  const char* Received(int64_t bucket, int phase, int64_t whose) {
    for (int64_t i = First(bucket); i < route_.message_count; ++i) {
      const Message& message = route_.messages[i];
      if (message.bucket != bucket) break;
      if (!message.sends && message.phase == phase && message.whose == whose) return buffers_[i];
    }
    return nullptr;
  }

  // In the order of the ranks.
  void AddUpOnHost(int64_t k) {
    const Bucket& bucket = route_.buckets[k];
    const int64_t start = bucket.slice_start, size = bucket.slice_stop - start;
    if (!IsAlone(k)) {
      for (int64_t index = 0; index < route_.locals; ++index) {
        const char* codes = index == route_.index
                                ? reinterpret_cast<const char*>(send_ + start)
                                : Received(k, kToServer, index);
        if (codes == nullptr) continue;
        if (index == 0)
          Decode<false>(kPlain, codes, sums_ + start, size);
        else
          Decode<true>(kPlain, codes, sums_ + start, size);
      }
      if (bucket.codec != kPlain)
        for (int64_t i = start; i < start + size; ++i) sums_[i] += static_cast<T>(route_.kept[i]);
    }
    if (bucket.codec == kPlain) return;
    for (int64_t i = First(k); i < route_.message_count; ++i) {
      const Message& message = route_.messages[i];
      if (message.bucket != k) break;
      if (message.sends && message.phase == kToOwner)
        Encode(static_cast<int>(bucket.codec), sums_ + message.start, buffers_[i],
               route_.taken + message.start, message.stop - message.start);
    }
  }

  // In the order of the hosts. Not before all have begun is anything written into the result.
  void AddUpOverHosts(int64_t k) {
    const Bucket& bucket = route_.buckets[k];
    const int codec = static_cast<int>(bucket.codec);
    const int64_t start = bucket.piece_start, size = bucket.piece_stop - start;
    const T* own = (IsAlone(k) ? send_ : sums_) + start;
    T* total = result_ + start;
    for (int64_t host = 0; host < route_.hosts; ++host) {
      const bool is_own = host == route_.host;
      const char* codes =
          is_own ? reinterpret_cast<const char*>(own) : Received(k, kToOwner, host);
      if (codes == nullptr) continue;
      const int format = is_own ? kPlain : codec;
      if (host == 0)
        Decode<false>(format, codes, total, size);
      else
        Decode<true>(format, codes, total, size);
    }
    if (codec == kPlain) return;
    const char* first = nullptr;
    for (int64_t i = First(k); i < route_.message_count; ++i) {
      const Message& message = route_.messages[i];
      if (message.bucket != k) break;
      if (!message.sends || message.phase != kFromOwner) continue;
      if (first == nullptr)
        Encode(codec, total, buffers_[i], route_.taken + start, size);
      else
        memcpy(buffers_[i], first, EncodedBytes<T>(codec, size));
      first = buffers_[i];
    }
    if (first != nullptr) Decode<false>(codec, first, total, size);
  }

  Route route_;
  Handle comm_;
  const T* send_;
  T* result_;
  char* requests_;
  char* statuses_;
  int* indices_;
  char** buffers_;  // by message: memory of its own, or null
  int64_t* left_;   // by bucket and phase: what has yet to come, and 1 for this rank itself
  int64_t* firsts_;  // by bucket: its first message
  T* sums_;
  char* scratch_;
  int64_t buckets_left_, open_;
};

}  // namespace

#endif  // MATEX_EXCHANGE_SLICES_H_
