// The exchange of a step as one TensorFlow operation: gradients in, their sums over the ranks out.
//
// Written against TensorFlow's C interface, which outlives its releases, and without MPI's headers:
// MPI's functions and handles come as addresses from the library that mpi4py has loaded, so that
// there is nothing to link and nothing to mismatch. A handle is a pointer in Open MPI and in the
// standard ABI and an int in MPICH; passed in a register, both fit what the callee reads.
//
// The operation never calls Python (but for injected faults) and never repairs: it fails, so that
// TensorFlow itself keeps the update from running.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

#include "flow.h"
#include "numbers.h"
#include "slices.h"

// What matex/exchange/native.py fills in before a step, and reads after it. It owns all memory here.
extern "C" struct Record {
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle);
  int (*barrier)(Handle);
  int (*error_string)(int, char*, int*);
  int (*hook)(int moment);  // null unless faults are injected; other than 0 stops the operation
  Handle comm, datatype, sum;

  void* send;
  void* result;
  const int64_t* offsets;  // of the parts in both, in elements, and at last the whole length
  int64_t parts;
  int64_t chunk;           // elements in one call of MPI
  int64_t samples_at, fingerprint_at, nonfinite_at, ranks_at;  // places in the vector
  double samples, fingerprint, size;                         // what must stand there
  int32_t fence;         // whether result holds what a peer may still need until all are here
  int32_t check_finite;  // whether to look for NaN and infinity in gradients, not the last part

  int32_t spoiled;       // these have one on this rank; set before, it is to send one
  int32_t stage;         // how far it came: kStarted ...
  int64_t code;          // what MPI returned, 0 for success
  double waiting_since;  // seconds of CLOCK_MONOTONIC; 0 when not inside MPI
  double seconds;        // inside MPI in the last step
  double ended;          // when that was over, seconds of CLOCK_MONOTONIC

  int64_t sliced;  // whether members send each other slices, and make no allreduce
  Route route;
  void* slices;  // memory of the exchanges along it, made here
  void* left;    // that of failed ones, whose messages may still be under way

  // Groups of gradients that leave before all others are computed: group g has the parts
  // [groups[g], groups[g + 1]).
  const int64_t* groups;
  int64_t group_count;
  void* flow;
};

namespace {

enum Stage { kStarted = 1, kFenced = 2, kReduced = 3, kDone = 4 };
enum Moment { kBefore = 0, kReady = 1, kAfter = 2 };

const int kMostAxes = 16;
const int kVain = 32;  // looks at messages of which none has come, before others may compute

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Integer comparisons, because sums of floats are not vectorised.
bool Infinite(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (bits & 0x7f800000u) == 0x7f800000u;
}

bool Infinite(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}

// Copies and, where `check` says so, looks for what is not finite in the same pass; true when all
// is, or nobody asked.
template <typename To, typename From, typename Convert>
bool Copy(const void* source, To* __restrict target, int64_t count, bool check, Convert convert) {
  const From* __restrict from = static_cast<const From*>(source);
  if (!check) {
    for (int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(convert(from[i]));
    return true;
  }
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const To value = static_cast<To>(convert(from[i]));
    target[i] = value;
    bad |= Infinite(value);
  }
  return bad == 0;
}

template <typename To>
bool CopyAs(TF_DataType type, const void* data, int64_t first, To* target, int64_t count,
            bool check) {
  const char* from = static_cast<const char*>(data) + first * TF_DataTypeSize(type);
  switch (type) {
    case TF_FLOAT: return Copy<To, float>(from, target, count, check, [](float v) { return v; });
    case TF_DOUBLE: return Copy<To, double>(from, target, count, check, [](double v) { return v; });
    case TF_HALF: return Copy<To, uint16_t>(from, target, count, check, HalfToFloat);
    default: return Copy<To, uint16_t>(from, target, count, check, Bfloat16ToFloat);
  }
}

// The memory for the route of now. That of another route has no messages under way, but where an
// exchange has failed; it is freed when these are over.
template <typename T>
Slices<T>* SlicesOf(Record* record) {
  Slices<T>* left = static_cast<Slices<T>*>(record->left);
  record->left = nullptr;
  while (left != nullptr) {
    Slices<T>* next = left->next;
    if (left->Over()) {
      left->Free();
    } else {
      left->next = static_cast<Slices<T>*>(record->left);
      record->left = left;
    }
    left = next;
  }
  Slices<T>* slices = static_cast<Slices<T>*>(record->slices);
  if (slices != nullptr && slices->number() != record->route.number) {
    slices->Free();
    slices = nullptr;
  }
  if (slices == nullptr) slices = Slices<T>::Make(record->route, record->offsets[record->parts]);
  record->slices = slices;
  return slices;
}

// Puts what is under way aside, until MPI has done with it.
template <typename T>
void SetAside(Record* record, Slices<T>* slices) {
  slices->next = static_cast<Slices<T>*>(record->left);
  record->left = slices;
  record->slices = nullptr;
}

// Groups that are on their way, or null.
template <typename T>
Flow<T>* FlowOf(Record* record) {
  return static_cast<Flow<T>*>(record->flow);
}

struct Kernel {
  Record* record;
  TF_DataType type;
  int64_t group;
};

// One gradient, or the auxiliary part: where it is read from, and where its sum goes.
//
// A sum gets memory of its own, the gradient's where nobody else needs it, and is copied while it is
// in the cache. The record's result cannot be handed out: a variable that is assigned a tensor adopts
// its memory, and would change with the next exchange.
struct Part {
  TF_Tensor* input;
  TF_Tensor* output;
  const void* data;
  TF_DataType type;
  int64_t count;
  int axes;
  int64_t shape[kMostAxes];
};

// The parts of this step, held as long as the operation runs; `next` is the one to be packed next.
struct Parts {
  Part* all = nullptr;
  int64_t count = 0;
  int64_t next = 0;

  ~Parts() {
    for (int64_t i = 0; i < count; ++i) {
      if (all[i].input != nullptr) TF_DeleteTensor(all[i].input);
      if (all[i].output != nullptr) TF_DeleteTensor(all[i].output);
    }
    free(all);
  }
};

struct Call {
  TF_OpKernelContext* context;
  TF_Status* status;

  bool Fail(TF_Code code, const char* message) {
    TF_SetStatus(status, code, message);
    return false;
  }

  bool FailMpi(Record* record, const char* where, int code) {
    record->code = code;
    char reason[8192] = "";
    int length = 0;
    record->error_string(code, reason, &length);
    char message[8300];
    snprintf(message, sizeof message, "%s: %s", where, reason);
    return Fail(TF_UNAVAILABLE, message);
  }

  bool Hook(Record* record, Moment moment) {
    if (record->hook == nullptr || record->hook(moment) == 0) return true;
    return Fail(TF_ABORTED, "stopped by an injected fault");
  }

  // Packs a bucket, lets it go, and goes on with the next one. When that fails the rest is packed all
  // the same: recovery needs the whole contribution.
  template <typename T>
  bool PackAndSend(Record* record, Parts* parts) {
    T* send = static_cast<T*>(record->send);
    const Route& route = record->route;
    const bool inject = record->spoiled != 0;
    const double started = Now();
    double packing = 0;
    bool finite = !inject, came = false;
    int code = 0;
    Slices<T>* slices = nullptr;
    int64_t first = 0;  // the bucket to be packed next
    record->waiting_since = started;
    if (Flow<T>* flow = FlowOf<T>(record)) {
      flow->Lock();
      slices = flow->TakeOver();
      if (slices != nullptr) {
        code = flow->code;
        finite = flow->finite;
        first = route.bucket_count - 1;
        parts->next = parts->count - 1;
      }
      flow->Unlock();
    }
    if (slices == nullptr) {
      slices = SlicesOf<T>(record);
      if (slices == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
      code = slices->Begin(record->comm, send, static_cast<T*>(record->result), route.kept,
                           route.taken);
    }
    record->stage = kFenced;
    for (int64_t k = first; k < route.bucket_count; ++k) {
      const Bucket& bucket = route.buckets[k];
      record->waiting_since = 0;
      const double before = Now();
      finite &= PackChunk<T>(record, parts, bucket.start, bucket.stop);
      if (k == 0 && inject) send[0] = NAN;
      if (k + 1 == route.bucket_count && !finite && record->check_finite)
        send[record->nonfinite_at] = 1;
      packing += Now() - before;
      record->waiting_since = Now();
      if (code == 0) code = slices->Packed(k);
      if (code == 0) code = slices->Advance(&came);
    }
    int64_t unpacked = 0;
    for (int vain = 0; code == 0;) {
      while (unpacked < route.bucket_count && slices->IsSummed(unpacked)) {
        Unpack<T>(record, *parts, route.buckets[unpacked].start, route.buckets[unpacked].stop);
        ++unpacked;
      }
      if (slices->IsOver()) break;
      code = slices->Advance(&came);
      vain = came ? 0 : vain + 1;
      if (vain > kVain) Pause(20000);
    }
    if (code != 0) SetAside(record, slices);
    record->waiting_since = 0;
    record->spoiled = !finite;
    record->ended = Now();
    record->seconds = record->ended - started - packing;
    return code == 0 || FailMpi(record, "a message between ranks", code);
  }

  // Packs a group of gradients, and lets the buckets go that they fill.
  template <typename T>
  bool PackEarly(Record* record, int64_t group) {
    if (!record->sliced) return true;  // the last operation does all
    const int64_t first = record->groups[group], last = record->groups[group + 1];
    if (TF_NumInputs(context) != last - first)
      return Fail(TF_INVALID_ARGUMENT, "the record has other groups");
    if (record->flow == nullptr) record->flow = Flow<T>::Make();
    Flow<T>* flow = static_cast<Flow<T>*>(record->flow);
    if (flow == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
    flow->Lock();
    const bool done = PackInto<T>(record, flow, first, last);
    flow->Unlock();
    return done;
  }

  template <typename T>
  bool PackInto(Record* record, Flow<T>* flow, int64_t first, int64_t last) {
    T* send = static_cast<T*>(record->send);
    const Route& route = record->route;
    if (flow->slices() == nullptr) {
      record->stage = kStarted;
      if (!Hook(record, kBefore) || !Hook(record, kReady)) return false;
      Slices<T>* slices = SlicesOf<T>(record);
      if (slices == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
      const int code = slices->Begin(record->comm, send, static_cast<T*>(record->result),
                                     route.kept, route.taken);
      if (!flow->Begin(slices, route, record->offsets, record->groups, record->group_count, code,
                       record->spoiled == 0))
        return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (int64_t i = first; i < last; ++i) {
      TF_Tensor* input = nullptr;
      TF_GetInput(context, static_cast<int>(i - first), &input, status);
      if (TF_GetCode(status) != TF_OK) return false;
      const int64_t count = TF_TensorElementCount(input);
      if (count > record->offsets[i + 1] - record->offsets[i]) {
        TF_DeleteTensor(input);
        return Fail(TF_INVALID_ARGUMENT, "a part is larger than its place in the record");
      }
      flow->finite &= CopyAs<T>(TF_TensorType(input), TF_TensorData(input), 0,
                                send + record->offsets[i], count, record->check_finite);
      TF_DeleteTensor(input);
    }
    if (first == 0 && record->spoiled) send[0] = NAN;
    flow->Packed(route, record->offsets[first], record->offsets[last]);
    return true;
  }

  // Packs a chunk, sums it while it is still in the cache, and goes on with the next one. When
  // that fails the rest is packed all the same: recovery needs the whole contribution.
  template <typename T>
  bool PackAndReduce(Record* record, Parts* parts) {
    T* send = static_cast<T*>(record->send);
    T* result = static_cast<T*>(record->result);
    const int64_t length = record->offsets[record->parts];
    const bool inject = record->spoiled != 0;
    const double started = Now();
    double packing = 0;
    bool finite = !inject;
    const char* where = "MPI_Barrier";
    record->waiting_since = started;
    int code = record->fence ? record->barrier(record->comm) : 0;
    if (code == 0) record->stage = kFenced;
    for (int64_t at = 0; at < length; at += record->chunk) {
      const int64_t end = length - at < record->chunk ? length : at + record->chunk;
      record->waiting_since = 0;
      const double before = Now();
      finite &= PackChunk<T>(record, parts, at, end);
      if (at == 0 && inject) send[0] = NAN;
      if (end == length && !finite && record->check_finite) send[record->nonfinite_at] = 1;
      packing += Now() - before;
      if (code != 0) continue;
      record->waiting_since = Now();
      where = "MPI_Allreduce";
      code = record->allreduce(send + at, result + at, static_cast<int>(end - at), record->datatype,
                               record->sum, record->comm);
      if (code == 0) Unpack<T>(record, *parts, at, end);
    }
    record->waiting_since = 0;
    record->spoiled = !finite;
    record->ended = Now();
    record->seconds = record->ended - started - packing;
    return code == 0 || FailMpi(record, where, code);
  }

  // The elements [at, end) of the vector, from the parts that lie there.
  template <typename T>
  bool PackChunk(Record* record, Parts* parts, int64_t at, int64_t end) {
    T* send = static_cast<T*>(record->send);
    bool finite = true;
    while (parts->next < parts->count) {
      const Part& part = parts->all[parts->next];
      const int64_t start = record->offsets[parts->next];
      if (start >= end) break;
      const int64_t stop = start + part.count;
      const int64_t from = start > at ? start : at, to = stop < end ? stop : end;
      if (from < to)
        finite &= CopyAs<T>(part.type, part.data, from - start, send + from, to - from,
                            record->check_finite && parts->next + 1 < parts->count);
      if (stop > end) break;
      ++parts->next;
    }
    return finite;
  }

  // The sums [at, end) of the vector, into the memory of the parts.
  template <typename T>
  void Unpack(const Record* record, const Parts& parts, int64_t at, int64_t end) {
    const T* result = static_cast<const T*>(record->result);
    for (int64_t i = parts.next < parts.count ? parts.next : parts.count - 1; i >= 0; --i) {
      const int64_t start = record->offsets[i], stop = start + parts.all[i].count;
      if (record->offsets[i + 1] <= at) break;
      const int64_t from = start > at ? start : at, to = stop < end ? stop : end;
      if (from >= to) continue;
      T* target = static_cast<T*>(TF_TensorData(parts.all[i].output));
      memcpy(target + (from - start), result + from, (to - from) * sizeof(T));
    }
  }

  // Python looks at the same numbers afterwards and says what was wrong.
  template <typename T>
  bool Check(const Record* record) {
    const T* result = static_cast<const T*>(record->result);
    if (result[record->ranks_at] == record->size && result[record->nonfinite_at] == 0 &&
        result[record->samples_at] == record->samples &&
        result[record->fingerprint_at] == record->fingerprint)
      return true;
    return Fail(TF_DATA_LOSS, "the sum is not that of this step");
  }

  bool Take(Record* record, Parts* parts) {
    if (TF_NumInputs(context) != record->parts)
      return Fail(TF_INVALID_ARGUMENT, "the record has another number of parts");
    parts->all = static_cast<Part*>(calloc(record->parts, sizeof(Part)));
    if (parts->all == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < record->parts; ++i) {
      Part* part = &parts->all[i];
      TF_GetInput(context, i, &part->input, status);
      if (TF_GetCode(status) != TF_OK) return false;
      ++parts->count;
      part->type = TF_TensorType(part->input);
      part->data = TF_TensorData(part->input);
      part->count = TF_TensorElementCount(part->input);
      part->axes = TF_NumDims(part->input);
      if (part->count > record->offsets[i + 1] - record->offsets[i])
        return Fail(TF_INVALID_ARGUMENT, "a part is larger than its place in the record");
      if (part->axes > kMostAxes) return Fail(TF_INVALID_ARGUMENT, "a part has too many axes");
      for (int axis = 0; axis < part->axes; ++axis) part->shape[axis] = TF_Dim(part->input, axis);
      if (!TakeOver(part, i)) return false;
    }
    return true;
  }

  // Makes the memory of an input that nobody else needs that of the output, where both are of one
  // type; or new memory.
  bool TakeOver(Part* part, int i) {
    TF_DeleteTensor(part->input);  // as long as this is held, somebody else needs it
    part->input = nullptr;
    int forwarded = -1;
    part->output = TF_ForwardInputOrAllocateOutput(context, &i, 1, i, part->shape, part->axes,
                                                   &forwarded, status);
    if (TF_GetCode(status) != TF_OK) return false;
    if (forwarded != i) TF_GetInput(context, i, &part->input, status);
    part->data = TF_TensorData(forwarded == i ? part->output : part->input);
    return TF_GetCode(status) == TF_OK;
  }

  // Whether groups have left in this step.
  template <typename T>
  bool IsUnderWay(Record* record) {
    Flow<T>* flow = FlowOf<T>(record);
    if (flow == nullptr) return false;
    flow->Lock();
    const bool is_under_way = flow->slices() != nullptr;
    flow->Unlock();
    return is_under_way;
  }

  template <typename T>
  bool Run(Record* record) {
    record->stage = kStarted;
    Parts parts;
    if (!Take(record, &parts)) return false;
    if (!IsUnderWay<T>(record) && (!Hook(record, kBefore) || !Hook(record, kReady))) return false;
    if (record->sliced ? !PackAndSend<T>(record, &parts) : !PackAndReduce<T>(record, &parts))
      return false;
    record->stage = kReduced;
    if (!Check<T>(record) || !Hook(record, kAfter)) return false;
    record->stage = kDone;
    return true;
  }
};

void* Create(TF_OpKernelConstruction* construction) {
  TF_Status* status = TF_NewStatus();
  Kernel* kernel = static_cast<Kernel*>(calloc(1, sizeof(Kernel)));
  int64_t address = 0;
  TF_OpKernelConstruction_GetAttrInt64(construction, "plan", &address, status);
  if (TF_GetCode(status) == TF_OK)
    TF_OpKernelConstruction_GetAttrType(construction, "U", &kernel->type, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction, status);
  kernel->record = reinterpret_cast<Record*>(address);
  TF_DeleteStatus(status);
  return kernel;
}

void Compute(void* opaque, TF_OpKernelContext* context) {
  Kernel* kernel = static_cast<Kernel*>(opaque);
  Call call = {context, TF_NewStatus()};
  const bool done = kernel->type == TF_DOUBLE ? call.Run<double>(kernel->record)
                                              : call.Run<float>(kernel->record);
  if (!done) TF_OpKernelContext_Failure(context, call.status);
  TF_DeleteStatus(call.status);
}

void* CreateEarly(TF_OpKernelConstruction* construction) {
  Kernel* kernel = static_cast<Kernel*>(Create(construction));
  TF_Status* status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrInt64(construction, "group", &kernel->group, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return kernel;
}

void ComputeEarly(void* opaque, TF_OpKernelContext* context) {
  Kernel* kernel = static_cast<Kernel*>(opaque);
  Call call = {context, TF_NewStatus()};
  bool done = kernel->type == TF_DOUBLE ? call.PackEarly<double>(kernel->record, kernel->group)
                                        : call.PackEarly<float>(kernel->record, kernel->group);
  if (done) {
    TF_Tensor* sign =
        TF_AllocateOutput(context, 0, TF_INT32, nullptr, 0, sizeof(int32_t), call.status);
    done = TF_GetCode(call.status) == TF_OK;
    if (done) *static_cast<int32_t*>(TF_TensorData(sign)) = static_cast<int32_t>(kernel->group);
    if (sign != nullptr) TF_DeleteTensor(sign);
  }
  if (!done) TF_OpKernelContext_Failure(context, call.status);
  TF_DeleteStatus(call.status);
}

void Delete(void* kernel) { free(kernel); }

void InferShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  const int64_t parts = TF_ShapeInferenceContextNumInputs(context);
  for (int i = 0; i < parts && TF_GetCode(status) == TF_OK; ++i) {
    TF_ShapeInferenceContextGetInput(context, i, shape, status);
    if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, i, shape, status);
  }
  TF_DeleteShapeHandle(shape);
}

void InferScalar(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_ShapeInferenceContextScalar(context);
  TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

// When the library is loaded; what fails here shows as an operation that is missing.
__attribute__((constructor)) void Register() {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("MatexExchange");
  TF_OpDefinitionBuilderAddAttr(op, "T: list({float, double, half, bfloat16})");
  TF_OpDefinitionBuilderAddAttr(op, "U: {float, double}");
  TF_OpDefinitionBuilderAddAttr(op, "N: int >= 1");
  TF_OpDefinitionBuilderAddAttr(op, "plan: int");
  TF_OpDefinitionBuilderAddInput(op, "parts: T");
  TF_OpDefinitionBuilderAddOutput(op, "sums: N * U");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, InferShapes);
  TF_RegisterOpDefinition(op, status);
  if (TF_GetCode(status) == TF_OK) {
    TF_KernelBuilder* kernel =
        TF_NewKernelBuilder("MatexExchange", "CPU", Create, Compute, Delete);
    TF_RegisterKernelBuilder("MatexExchange", kernel, status);
  }
  op = TF_NewOpDefinitionBuilder("MatexEarly");
  TF_OpDefinitionBuilderAddAttr(op, "T: list({float, double, half, bfloat16})");
  TF_OpDefinitionBuilderAddAttr(op, "U: {float, double}");
  TF_OpDefinitionBuilderAddAttr(op, "plan: int");
  TF_OpDefinitionBuilderAddAttr(op, "group: int");
  TF_OpDefinitionBuilderAddInput(op, "parts: T");
  TF_OpDefinitionBuilderAddOutput(op, "sign: int32");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, InferScalar);
  if (TF_GetCode(status) == TF_OK) TF_RegisterOpDefinition(op, status);
  if (TF_GetCode(status) == TF_OK) {
    TF_KernelBuilder* kernel =
        TF_NewKernelBuilder("MatexEarly", "CPU", CreateEarly, ComputeEarly, Delete);
    TF_RegisterKernelBuilder("MatexEarly", kernel, status);
  }
  if (TF_GetCode(status) != TF_OK) fprintf(stderr, "matex exchange: %s\n", TF_Message(status));
  TF_DeleteStatus(status);
}

}  // namespace

// The size of Record, by which Python sees that it and this library speak of the same thing.
extern "C" __attribute__((visibility("default"))) int64_t matex_exchange_plan_bytes() {
  return sizeof(Record);
}

// Ends a step whose graph failed before its last operation.
extern "C" __attribute__((visibility("default"))) void matex_exchange_stop(Record* record) {
  Flow<float>* flow = FlowOf<float>(record);
  if (flow == nullptr) return;
  flow->Lock();
  Slices<float>* slices = flow->TakeOver();
  if (slices != nullptr) SetAside(record, slices);
  flow->Unlock();
}

// Frees what an exchange has made; what messages may still be written into stays.
extern "C" __attribute__((visibility("default"))) void matex_exchange_free(Record* record) {
  matex_exchange_stop(record);
  if (record->flow != nullptr) static_cast<Flow<float>*>(record->flow)->Free();
  record->flow = nullptr;
  if (record->slices != nullptr) static_cast<Slices<float>*>(record->slices)->Free();
  record->slices = nullptr;
}
