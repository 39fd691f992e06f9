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

typedef uintptr_t Handle;

// What matex/exchange/native.py fills in before a step, and reads after it. It owns all memory here.
extern "C" struct Plan {
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle);
  int (*barrier)(Handle);
  int (*error_string)(int, char*, int*);
  int (*hook)(int phase);  // null unless faults are injected; other than 0 stops the operation
  Handle comm, datatype, sum;

  void* send;
  void* result;
  const int64_t* offsets;  // of the parts in both, in elements, and at last the whole length
  int64_t parts;
  int64_t most;            // elements in one call of MPI
  int64_t samples_at, fingerprint_at, nonfinite_at, ranks_at;  // places in the vector
  double samples, fingerprint, size;                         // what must stand there
  int32_t fence;         // whether result holds what a peer may still need until all are here
  int32_t check_finite;

  int32_t spoiled;       // this rank sent a NaN or an infinity; set before, it is to send one
  int32_t stage;         // how far it came: kStarted ...
  int64_t code;          // what MPI returned, 0 for success
  double waiting_since;  // seconds of CLOCK_MONOTONIC; 0 when not inside MPI
  double seconds;        // inside MPI in the last step
  double ended;          // when that was over, seconds of CLOCK_MONOTONIC
};

namespace {

enum Stage { kStarted = 1, kFenced = 2, kReduced = 3, kDone = 4 };
enum Phase { kBefore = 0, kReady = 1, kAfter = 2 };

const int kMostAxes = 16;
const int64_t kLargeBytes = 1 << 20;

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  uint32_t bits;
  if (rest >= 0x7c00u) {  // infinity and NaN
    bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
  } else if (rest >= 0x0400u) {
    bits = sign | ((rest << 13) + (112u << 23));
  } else {  // below the normal numbers, all are multiples of 2^-24
    const float value = static_cast<float>(rest) * 5.9604644775390625e-8f;
    memcpy(&bits, &value, 4);
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

float Bfloat16ToFloat(uint16_t narrow) {
  const uint32_t bits = static_cast<uint32_t>(narrow) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
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

void NothingToFree(void*, size_t, void*) {}

struct Kernel {
  Plan* plan;
  TF_DataType type;
};

// One gradient, or the auxiliary part: where it is read from, and where its sum goes.
//
// A small sum is handed out where it lies in the plan's result. A large one is copied into the
// gradient's own memory while both are in the cache, because TensorFlow can then update in place:
// otherwise it takes new memory of that size in every step, which costs more than the copy.
struct Part {
  TF_Tensor* input;
  TF_Tensor* output;  // null where the sum is handed out where it lies
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

  bool FailMpi(Plan* plan, const char* where, int code) {
    plan->code = code;
    char reason[8192] = "";
    int length = 0;
    plan->error_string(code, reason, &length);
    char message[8300];
    snprintf(message, sizeof message, "%s: %s", where, reason);
    return Fail(TF_UNAVAILABLE, message);
  }

  bool Hook(Plan* plan, Phase phase) {
    if (plan->hook == nullptr || plan->hook(phase) == 0) return true;
    return Fail(TF_ABORTED, "stopped by an injected fault");
  }

  // Packs a stretch, sums it while it is still in the cache, and goes on with the next one. When
  // that fails the rest is packed all the same: recovery needs the whole contribution.
  template <typename T>
  bool PackAndReduce(Plan* plan, Parts* parts) {
    T* send = static_cast<T*>(plan->send);
    T* result = static_cast<T*>(plan->result);
    const int64_t length = plan->offsets[plan->parts];
    const bool inject = plan->spoiled != 0;
    const double started = Now();
    double packing = 0;
    bool finite = !inject;
    const char* where = "MPI_Barrier";
    plan->waiting_since = started;
    int code = plan->fence ? plan->barrier(plan->comm) : 0;
    if (code == 0) plan->stage = kFenced;
    for (int64_t at = 0; at < length; at += plan->most) {
      const int64_t end = length - at < plan->most ? length : at + plan->most;
      plan->waiting_since = 0;
      const double before = Now();
      finite &= PackStretch<T>(plan, parts, at, end);
      if (at == 0 && inject) send[0] = NAN;
      if (end == length && !finite && plan->check_finite) send[plan->nonfinite_at] = 1;
      packing += Now() - before;
      if (code != 0) continue;
      plan->waiting_since = Now();
      where = "MPI_Allreduce";
      code = plan->allreduce(send + at, result + at, static_cast<int>(end - at), plan->datatype,
                             plan->sum, plan->comm);
      if (code == 0) Unpack<T>(plan, *parts, at, end);
    }
    plan->waiting_since = 0;
    plan->spoiled = !finite;
    plan->ended = Now();
    plan->seconds = plan->ended - started - packing;
    return code == 0 || FailMpi(plan, where, code);
  }

  // The elements [at, end) of the vector, from the parts that lie there.
  template <typename T>
  bool PackStretch(Plan* plan, Parts* parts, int64_t at, int64_t end) {
    T* send = static_cast<T*>(plan->send);
    bool finite = true;
    while (parts->next < parts->count) {
      const Part& part = parts->all[parts->next];
      const int64_t start = plan->offsets[parts->next];
      if (start >= end) break;
      const int64_t stop = start + part.count;
      const int64_t from = start > at ? start : at, to = stop < end ? stop : end;
      if (from < to)
        finite &= CopyAs<T>(part.type, part.data, from - start, send + from, to - from,
                            plan->check_finite);
      if (stop > end) break;
      ++parts->next;
    }
    return finite;
  }

  // The sums [at, end) of the vector, into the parts that have memory of their own for them.
  template <typename T>
  void Unpack(const Plan* plan, const Parts& parts, int64_t at, int64_t end) {
    const T* result = static_cast<const T*>(plan->result);
    for (int64_t i = parts.next < parts.count ? parts.next : parts.count - 1; i >= 0; --i) {
      const int64_t start = plan->offsets[i], stop = start + parts.all[i].count;
      if (plan->offsets[i + 1] <= at) break;
      const int64_t from = start > at ? start : at, to = stop < end ? stop : end;
      if (parts.all[i].output == nullptr || from >= to) continue;
      T* target = static_cast<T*>(TF_TensorData(parts.all[i].output));
      memcpy(target + (from - start), result + from, (to - from) * sizeof(T));
    }
  }

  // Python looks at the same numbers afterwards and says what was wrong.
  template <typename T>
  bool Check(const Plan* plan) {
    const T* result = static_cast<const T*>(plan->result);
    if (result[plan->ranks_at] == plan->size && result[plan->nonfinite_at] == 0 &&
        result[plan->samples_at] == plan->samples &&
        result[plan->fingerprint_at] == plan->fingerprint)
      return true;
    return Fail(TF_DATA_LOSS, "the sum is not that of this step");
  }

  // The sums where they lie: every part is aligned, and stays untouched until the next exchange.
  template <typename T>
  bool HandOut(Plan* plan, const Parts& parts, TF_DataType type) {
    T* result = static_cast<T*>(plan->result);
    for (int64_t i = 0; i < parts.count; ++i) {
      const Part& part = parts.all[i];
      if (part.output != nullptr) continue;
      TF_Tensor* sum = TF_NewTensor(type, part.shape, part.axes, result + plan->offsets[i],
                                    part.count * sizeof(T), NothingToFree, nullptr);
      TF_SetOutput(context, static_cast<int>(i), sum, status);
      TF_DeleteTensor(sum);
      if (TF_GetCode(status) != TF_OK) return false;
    }
    return true;
  }

  bool Take(Plan* plan, Parts* parts, TF_DataType type) {
    if (TF_NumInputs(context) != plan->parts)
      return Fail(TF_INVALID_ARGUMENT, "the plan has another number of parts");
    parts->all = static_cast<Part*>(calloc(plan->parts, sizeof(Part)));
    if (parts->all == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < plan->parts; ++i) {
      Part* part = &parts->all[i];
      TF_GetInput(context, i, &part->input, status);
      if (TF_GetCode(status) != TF_OK) return false;
      ++parts->count;
      part->type = TF_TensorType(part->input);
      part->data = TF_TensorData(part->input);
      part->count = TF_TensorElementCount(part->input);
      part->axes = TF_NumDims(part->input);
      if (part->count > plan->offsets[i + 1] - plan->offsets[i])
        return Fail(TF_INVALID_ARGUMENT, "a part is larger than its place in the plan");
      if (part->axes > kMostAxes) return Fail(TF_INVALID_ARGUMENT, "a part has too many axes");
      for (int axis = 0; axis < part->axes; ++axis) part->shape[axis] = TF_Dim(part->input, axis);
      const bool large = part->count * static_cast<int64_t>(sizeof(float)) >= kLargeBytes;
      if (large && part->type == type && !TakeOver(part, i)) return false;
    }
    return true;
  }

  // Makes the memory of an input that nobody else needs that of the output.
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

  template <typename T>
  bool Run(Plan* plan, TF_DataType type) {
    plan->stage = kStarted;
    Parts parts;
    if (!Take(plan, &parts, type) || !Hook(plan, kBefore) || !Hook(plan, kReady)) return false;
    if (!PackAndReduce<T>(plan, &parts)) return false;
    plan->stage = kReduced;
    if (!Check<T>(plan) || !Hook(plan, kAfter) || !HandOut<T>(plan, parts, type)) return false;
    plan->stage = kDone;
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
  kernel->plan = reinterpret_cast<Plan*>(address);
  TF_DeleteStatus(status);
  return kernel;
}

void Compute(void* opaque, TF_OpKernelContext* context) {
  Kernel* kernel = static_cast<Kernel*>(opaque);
  Call call = {context, TF_NewStatus()};
  const bool done = kernel->type == TF_DOUBLE ? call.Run<double>(kernel->plan, kernel->type)
                                              : call.Run<float>(kernel->plan, kernel->type);
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
  if (TF_GetCode(status) != TF_OK) fprintf(stderr, "matex exchange: %s\n", TF_Message(status));
  TF_DeleteStatus(status);
}

}  // namespace

// The size of Plan, by which Python sees that it and this library speak of the same thing.
extern "C" __attribute__((visibility("default"))) int64_t matex_exchange_plan_bytes() {
  return sizeof(Plan);
}
